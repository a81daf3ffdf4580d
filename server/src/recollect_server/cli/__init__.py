"""Floor 7: the commands of `recollect-server`, one file each. Of the server `__main__` alone imports them.

`serve` builds an `app`. `verify`, `rebuild`, `backup`, `restore` and `stats` work on a data folder (`folder`). `import`, `export`
and `health` call a running server as any client does: `remote` reaches it, `recall_sets` and `transcripts` read files into a
`plan`, `sending` carries it out, `conversion` stands between the house's types and the client's, `parallel` does many at a time.
"""

import gc
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from recollect_server import __version__

_MODULES = {
    "serve": "serve",
    "config": "config",
    "health": "health",
    "import": "importing",
    "export": "exporting",
    "verify": "verify",
    "rebuild": "rebuild",
    "backup": "backup",
    "restore": "backup",
    "stats": "stats",
}
"""The module of each command. It is imported when the command is asked for: `serve` needs nothing of the client."""

_NO_MEMORY = ("failed to map segment", "Cannot allocate memory")
"""Messages of the loader of shared libraries where memory is too small."""


class _Commands(click.Group):
    """Turns what the disk refuses into a sentence, wherever a command meets it, and prints names of files that are no UTF-8."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _MODULES:
            return None
        command: click.Command = getattr(_imported(_MODULES[cmd_name]), "import_" if cmd_name == "import" else cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        if isinstance(sys.stdout, TextIOWrapper):  # None where it was closed before the start
            sys.stdout.reconfigure(errors="backslashreplace")
        with _imported("folder").said_plainly():
            return super().invoke(ctx)


def _imported(name: str) -> Any:
    gc.disable()  # what is imported stays: going through it again and again is an eighth of what importing takes
    try:
        return import_module(f"recollect_server.cli.{name}")
    except (ImportError, MemoryError, OSError) as error:
        if isinstance(error, MemoryError) or any(
            text in str(error) for text in ("failed to map segment", "Cannot allocate memory")
        ):
            raise SystemExit("Error: there is not enough memory to load the program: raise the limit (ulimit -v)") from None
        raise
    finally:
        gc.enable()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def commands() -> None:
    """Recollect keeps every conversation an AI agent has, and finds it again."""
