"""Profiles: servers by name, each with its token, in a file of the user."""

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from recollect._shared.channel import ADDRESS
from recollect._shared.endpoint import CA, CLIENT_CERT, CLIENT_KEY, SPACE, SYSTEM, TOKEN

PROFILE = "RECOLLECT_PROFILE"
_VARIABLES = {
    "address": ADDRESS,
    "token": TOKEN,
    "space": SPACE,
    "ca": CA,
    "client_cert": CLIENT_CERT,
    "client_key": CLIENT_KEY,
}
_FIELDS = (*_VARIABLES, "token_file")
_FILES = {"token_file", "ca", "client_cert", "client_key"}
"""Fields that name files, from the folder of the profiles."""


def use_profile(context: click.Context, _: click.Parameter, name: str | None) -> None:
    """Put what a profile says into the environment, in place of all of it that is there: a token is
    sent to its own server alone. Raises click.UsageError.
    """
    if name is None:
        return
    path = Path(click.get_app_dir("recollect")) / "profiles.toml"
    fields = _fields_of(_profiles(path), name, path)
    for field in _FILES.intersection(fields):
        if fields[field] and (field, fields[field]) != ("ca", SYSTEM):
            try:
                fields[field] = str(path.parent / Path(fields[field]).expanduser())
            except RuntimeError as error:  # of a user that there is none of
                raise click.UsageError(f"{path}: {field} of {name}: {error}") from None
    if "token" in fields:
        _refuse_exposed(path)
    if file := fields.pop("token_file", ""):
        try:
            fields["token"] = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise click.UsageError(f"{path}: token_file of {name}: {error}") from None
        _refuse_exposed(Path(file))
    for field, variable in _VARIABLES.items():
        os.environ.pop(variable, None)
        if field in fields:
            os.environ[variable] = fields[field]
    context.meta[PROFILE] = name


def _refuse_exposed(path: Path) -> None:
    """Refuse a file with a token that every user of the machine may read. Raises
    click.UsageError.
    """
    if os.name == "posix" and path.stat().st_mode & stat.S_IRWXO:
        raise click.UsageError(f"{path}: others may read the token in it: chmod o= {path}")


def refuse_beside_profile(context: click.Context, param: click.Parameter, address: str) -> str:
    """Return the address of a server, unless it is typed beside a profile: its token would go
    there. Raises click.UsageError.
    """
    name = context.meta.get(PROFILE)
    if name and context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
        raise click.UsageError(
            f"--address: the profile {name} names the server, and its token is for no other: leave"
            " out one of them"
        )
    return address


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
