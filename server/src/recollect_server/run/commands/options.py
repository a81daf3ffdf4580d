"""The flags that stand for settings: one for each, made from the settings themselves."""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from recollect_server.run.settings import FORMER, Settings, WrongSettings
from recollect_server.run.settings.environment import take_secrets
from recollect_server.run.settings.values import duration_text

OF_FOLDER = ("data_dir", "store", "space")
"""The settings that say what a command works on."""

F = TypeVar("F", bound=Callable[..., Any])


class NamedPath(click.Path):
    """A path that is not empty. `pathlib` takes an empty one for the current folder, where nobody
    meant to write.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("a path must not be empty: write . for the current folder", param, ctx)
        return super().convert(value, param, ctx)


def with_settings(*listed: str) -> Callable[[F], F]:
    """Give a command `--config` and a flag for every setting, passed as `config` and one keyword
    argument each. Its help lists some flags; that of `serve` lists all, for which none are named.
    """

    def decorated(command: F) -> F:
        return _with_settings(command, listed)

    return decorated


def _with_settings(command: F, listed: tuple[str, ...]) -> F:
    for name in FORMER:
        flag = f"--{name.replace('_', '-')}"
        command = click.option(flag, name, hidden=True)(command)
    for name, described in reversed(Settings.model_fields.items()):
        flag = f"--{name.replace('_', '-')}"
        default = (
            duration_text(described.default)
            if isinstance(described.default, timedelta)
            else described.default
        )
        shown = "none" if default is None else default
        command = click.option(
            flag,
            name,
            metavar="VALUE",
            help=f"{described.description} [{shown}]",
            hidden=bool(listed) and name not in listed,
        )(command)
    text = "a YAML file with settings"
    if listed:
        text += "; each is a flag too, which `recollect-server serve --help` lists"
    return click.option("--config", type=NamedPath(path_type=Path), metavar="FILE", help=text)(
        command
    )


def load_settings(config: Path | None, flags: dict[str, Any]) -> Settings:
    """Return the settings in force. End the command with the names of the wrong ones."""
    if problems := take_secrets():
        raise click.ClickException("wrong secrets:\n" + "\n".join(problems))
    try:
        return Settings.load(
            config, {name: value for name, value in flags.items() if value is not None}
        )
    except WrongSettings as error:
        raise click.ClickException(f"wrong settings:\n{error}") from error
