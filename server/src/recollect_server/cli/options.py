"""The flags that stand for settings: one for each, made from the settings themselves."""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from recollect_server.settings import Settings, WrongSettings
from recollect_server.settings.values import duration_text

F = TypeVar("F", bound=Callable[..., Any])


class NamedPath(click.Path):
    """A path that is not empty. `pathlib` takes an empty one for the current folder, where nobody
    meant to write.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if not os.fspath(value):
            self.fail("a path must not be empty: write . for the current folder", param, ctx)
        return super().convert(value, param, ctx)


def with_settings(command: F) -> F:
    """Give a command `--config` and a flag for every setting, passed as `config` and one keyword
    argument each.
    """
    for name, described in reversed(Settings.model_fields.items()):
        flag = f"--{name.replace('_', '-')}"
        default = (
            duration_text(described.default)
            if isinstance(described.default, timedelta)
            else described.default
        )
        shown = "none" if default is None else default
        command = click.option(
            flag, name, metavar="VALUE", help=f"{described.description} [{shown}]"
        )(command)
    path = NamedPath(path_type=Path)
    return click.option("--config", type=path, metavar="FILE", help="a YAML file with settings")(
        command
    )


def load_settings(config: Path | None, flags: dict[str, Any]) -> Settings:
    """Return the settings in force. End the command with the names of the wrong ones."""
    try:
        return Settings.load(
            config, {name: value for name, value in flags.items() if value is not None}
        )
    except WrongSettings as error:
        raise click.ClickException(f"wrong settings:\n{error}") from error
