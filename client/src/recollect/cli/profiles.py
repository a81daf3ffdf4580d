"""Profiles: servers by name, each with its token, in a file of the user."""

import os
import tomllib
from pathlib import Path
from typing import Any

import click

from recollect._shared.channel import ADDRESS
from recollect._shared.endpoint import CA, SPACE, TOKEN

PROFILE = "RECOLLECT_PROFILE"
_VARIABLES = {"address": ADDRESS, "token": TOKEN, "space": SPACE, "ca": CA}
_FIELDS = ("address", "token", "token_file", "space", "ca")


def use_profile(name: str) -> None:
    """Put what a profile says into the environment, in place of all of it that is there: a token is
    sent to its own server alone. Raises click.UsageError.
    """
    path = Path(click.get_app_dir("recollect")) / "profiles.toml"
    fields = _fields_of(_profiles(path), name, path)
    if file := fields.pop("token_file", ""):
        try:
            token = path.parent.joinpath(Path(file).expanduser()).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise click.UsageError(f"{path}: token_file of {name}: {error}") from None
        fields["token"] = token.strip()
    for field, variable in _VARIABLES.items():
        os.environ.pop(variable, None)
        if field in fields:
            os.environ[variable] = fields[field]


def _profiles(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path} cannot be read: {error}") from None


def _fields_of(profiles: dict[str, Any], name: str, path: Path) -> dict[str, str]:
    fields = profiles.get(name)
    if not isinstance(fields, dict):
        named = ", ".join(sorted(profiles)) or "none"
        raise click.UsageError(f"--profile: {path} has no profile {name} (it has: {named})")
    for field, value in fields.items():
        if field not in _FIELDS or not isinstance(value, str):
            raise click.UsageError(
                f"{path}: {field} of {name} is no text, or none of {', '.join(_FIELDS)}"
            )
    if "address" not in fields:
        raise click.UsageError(f"{path}: {name} names no address")
    if "token" in fields and "token_file" in fields:
        raise click.UsageError(f"{path}: {name} has both token and token_file: leave out one")
    return dict(fields)
