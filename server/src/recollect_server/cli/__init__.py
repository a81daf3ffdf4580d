"""Floor 7: the commands of `recollect-server`, one file each. They build an `app`, or call a running server as any client does."""

import click

from recollect_server import __version__
from recollect_server.cli.backup import backup, restore
from recollect_server.cli.config import config
from recollect_server.cli.exporting import export
from recollect_server.cli.health import health
from recollect_server.cli.importing import import_
from recollect_server.cli.rebuild import rebuild
from recollect_server.cli.serve import serve
from recollect_server.cli.stats import stats
from recollect_server.cli.verify import verify


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
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
