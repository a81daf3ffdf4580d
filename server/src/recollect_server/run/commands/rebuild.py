"""`recollect-server rebuild`: makes the index anew from the transcripts."""

import time
from pathlib import Path
from typing import Any

import click

from recollect_server.kernel.compare import recovery
from recollect_server.kernel.domain.errors import RecollectError
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.domain.wording import counted
from recollect_server.run.commands.folder import alone, folders_of, named, said_plainly, shown
from recollect_server.run.commands.options import OF_FOLDER, load_settings, with_settings
from recollect_server.run.features import FEATURES


@click.command()
@with_settings(*OF_FOLDER)
def rebuild(config: Path | None, **flags: Any) -> None:
    """Make the indexes of a stopped server anew from its transcripts, of all spaces or of
    `--space`. Torn tails are cut as at a start.
    """
    settings = load_settings(config, flags)
    folders = folders_of(settings, flags)
    with alone(settings), said_plainly():
        for space, folder in folders.items():
            began = time.monotonic()
            try:
                done = recovery.rebuild(folder, FEATURES, system_clock, shown("Rebuilding"))
            except RecollectError as error:
                raise click.ClickException(named(space, folders, str(error))) from error
            done.index.close(sound=True)
            seconds = time.monotonic() - began
            line = (
                f"{counted(done.messages, 'message')} of {counted(done.conversations, 'conversation')}"
                f" indexed in {seconds:.1f} s,"
                f" {done.messages / seconds:,.0f} messages/s. {counted(done.damaged, 'damaged line')},"
                f" {done.bytes_cut} torn bytes cut."
            )
            click.echo(named(space, folders, line))
