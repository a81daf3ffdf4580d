"""`recollect admin`: the administration of a server from anywhere, a module for each subject.
`recollect-server` does the same on the server's machine.
"""

import click

from recollect.cli.administration.retention import retention
from recollect.cli.administration.settings import settings
from recollect.cli.administration.spaces import spaces
from recollect.cli.administration.tokens import tokens
from recollect.cli.administration.upkeep import (
    get_stats,
    list_backups,
    list_jobs,
    make_backup,
    verify,
)
from recollect.cli.commands import Commands


@click.group(cls=Commands)
def admin() -> None:
    """Administer a server: its settings, spaces, tokens and background jobs.

    It takes a token with the scope `admin`. One for certain spaces administers those alone;
    settings need one for every space.
    """


for command in (
    *(settings, spaces, tokens, retention),
    *(list_jobs, make_backup, list_backups, verify, get_stats),
):
    admin.add_command(command)
