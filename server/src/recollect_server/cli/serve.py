"""`recollect-server serve`: runs the service until Ctrl-C or SIGTERM."""

import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from recollect_server import app
from recollect_server.cli.logs import set_up_logs
from recollect_server.cli.options import load_settings, with_settings
from recollect_server.domain.errors import RecollectError
from recollect_server.transport.server import CannotListen


@click.command()
@with_settings
def serve(config: Path | None, **flags: Any) -> None:
    """Start the server."""
    settings = load_settings(config, flags)
    set_up_logs(settings)
    # A pipe, not an event: a handler that takes a lock can meet the very lines that hold it.
    told, tell = os.pipe()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os.write(tell, b"."))
    try:
        running = app.start(settings, progress=_show_progress)
    except (app.CannotStart, CannotListen, RecollectError) as error:
        raise click.ClickException(str(error)) from error
    gc.freeze()  # what is there now stays: no collection needs to look at it again
    found = running.recovered
    note = f", {found.messages} messages indexed anew" if found.messages else ""
    click.echo(
        f"Recollect listens on {running.address} and keeps {found.conversations} conversations in"
        f" {running.data_dir.resolve()}{note}. Stop it with Ctrl-C."
    )
    sys.stdout.flush()
    os.read(told, 1)
    running.stop()


def _show_progress(done: int, of: int) -> None:
    click.echo(f"Bringing the index up to the transcripts: {done} of {of} conversations", err=True)
