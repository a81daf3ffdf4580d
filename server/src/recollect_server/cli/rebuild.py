"""`recollect-server rebuild`: makes the index anew from the transcripts."""

import time
from pathlib import Path
from typing import Any

import click

from recollect_server.cli.folder import alone, folder_of, said_plainly, shown
from recollect_server.cli.options import load_settings, with_settings
from recollect_server.domain.errors import RecollectError
from recollect_server.domain.time import system_clock
from recollect_server.services.upkeep import recovery


@click.command()
@with_settings
def rebuild(config: Path | None, **flags: Any) -> None:
    """Make the index of a stopped server anew from its transcripts. Torn tails are cut as at a
    start.
    """
    settings = load_settings(config, flags)
    folder = folder_of(settings)
    began = time.monotonic()
    with alone(settings), said_plainly():
        try:
            done = recovery.rebuild(folder, system_clock, shown("Rebuilding"))
        except RecollectError as error:
            raise click.ClickException(str(error)) from error
        done.index.close(sound=True)
    seconds = time.monotonic() - began
    click.echo(
        f"{done.messages} messages of {done.conversations} conversations indexed in {seconds:.1f} s,"
        f" {done.messages / seconds:,.0f} messages/s. {done.damaged} damaged lines, {done.bytes_cut} torn bytes cut."
    )
