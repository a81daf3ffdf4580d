"""Floor 7: the commands of `recollect-server`, one file each. Of the server `__main__` alone imports them.

`serve` builds an `app`. `verify`, `rebuild`, `backup`, `restore` and `stats` work on a data folder (`folder`). `import`, `export`
and `health` call a running server as any client does: `remote` reaches it, `recall_sets` and `transcripts` read files into a
`plan`, `sending` carries it out, `conversion` stands between the house's types and the client's, `parallel` does many at a time.
"""

import sys
from io import TextIOWrapper
from typing import Any

import click

from recollect_server import __version__
from recollect_server.cli.backup import backup, restore
from recollect_server.cli.config import config
from recollect_server.cli.exporting import export
from recollect_server.cli.folder import said_plainly
from recollect_server.cli.health import health
from recollect_server.cli.importing import import_
from recollect_server.cli.rebuild import rebuild
from recollect_server.cli.serve import serve
from recollect_server.cli.stats import stats
from recollect_server.cli.verify import verify


class _Commands(click.Group):
    """Turns what the disk refuses into a sentence, wherever a command meets it, and prints names of files that are no UTF-8."""

    def invoke(self, ctx: click.Context) -> Any:
        if isinstance(sys.stdout, TextIOWrapper):  # None where it was closed before the start
            sys.stdout.reconfigure(errors="backslashreplace")
        with said_plainly():
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def commands() -> None:
    """Recollect keeps every conversation an AI agent has, and finds it again."""


commands.add_command(serve)
commands.add_command(config)
commands.add_command(health)
commands.add_command(import_)
commands.add_command(export)
commands.add_command(verify)
commands.add_command(rebuild)
commands.add_command(backup)
commands.add_command(restore)
commands.add_command(stats)
