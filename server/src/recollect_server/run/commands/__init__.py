"""The commands of `recollect-server`, a module each: the top layer, which `__main__` alone imports.

`serve` builds an `app`. `verify`, `rebuild`, `backup`, `restore` and `stats` work on a data folder
(`folder`), `backups` on a folder of backups, and so does `token`, beside a running server too.
`migrate` moves all logs between a folder and a database. `health` calls a running server.
`recollect`, the command line over the client, has the rest.
"""

import gc
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click
from recollect.cli.commands import Commands

from recollect_server import __version__

_MODULES = {
    "serve": "serve",
    "config": "config",
    "health": "health",
    "verify": "verify",
    "rebuild": "verify",
    "backup": "backups",
    "backups": "backups",
    "restore": "backups",
    "migrate": "migrate",
    "stats": "stats",
    "audit": "audit",
    "token": "token",
}
"""The module of each command. It is imported when the command is asked for."""
_MOVED = ("import", "export")
"""Commands of earlier versions that are commands of `recollect` now."""

_INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, as shells have it."""
_NO_MEMORY = ("failed to map segment", "Cannot allocate memory")
"""Messages of the loader of shared libraries where memory is too small."""


class _Commands(Commands):
    """Turns what the disk refuses into a sentence, wherever a command meets it, and prints names of
    files that are no UTF-8.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option, serve = error.option_name, self.get_command(ctx, "serve")
            if not serve or not any(option in it.opts for it in serve.params):
                raise
            raise click.UsageError(
                f"{option} stands behind the command, as in: recollect-server serve {option} …", ctx
            ) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name in _MOVED:
            raise click.UsageError(
                f"moved: recollect {cmd_name} … (`recollect {cmd_name} --help` has its flags)"
            )
        if cmd_name not in _MODULES:
            return None
        command: click.Command = getattr(_imported(_MODULES[cmd_name]), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        if isinstance(sys.stdout, TextIOWrapper):  # None where it was closed before the start
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # 1, which click gives, says that something is damaged
            raise click.exceptions.Exit(_INTERRUPTED) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception:
            # Only now: most of the server comes with it, which `config` and `health` do not need.
            with _imported("folder").said_plainly():
                raise


def _imported(name: str) -> Any:
    # what is imported stays: going through it again and again is an eighth of what importing takes
    gc.disable()
    try:
        return import_module(f"recollect_server.run.commands.{name}")
    except (ImportError, MemoryError, OSError) as error:
        if isinstance(error, MemoryError) or any(text in str(error) for text in _NO_MEMORY):
            raise SystemExit(
                "Error: there is not enough memory to load the program: raise the limit (ulimit -v)"
            ) from None
        raise
    finally:
        gc.enable()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def commands() -> None:
    """Recollect keeps every conversation an AI agent has, and finds it again."""
