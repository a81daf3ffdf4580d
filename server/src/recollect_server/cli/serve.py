"""`recollect-server serve`: runs the service until Ctrl-C or SIGTERM."""

import gc
import signal
import sys
from pathlib import Path
from typing import Any

import click

from recollect_server import app
from recollect_server.cli.folder import shown
from recollect_server.cli.logs import say, set_up_logs
from recollect_server.cli.options import load_settings, with_settings
from recollect_server.domain.errors import RecollectError
from recollect_server.transport.server import CannotListen

_STOPS = {signal.SIGINT, signal.SIGTERM}


@click.command()
@with_settings
def serve(config: Path | None, **flags: Any) -> None:
    """Start the server."""
    settings = load_settings(config, flags)
    set_up_logs(settings)
    # Blocked here and in every thread started later, and waited for below. A handler that sets an event would wait for ever if it
    # came while this thread held the event's lock.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        running = app.start(settings, progress=shown("Bringing the index up to the transcripts"))
    except (app.CannotStart, CannotListen, RecollectError) as error:
        raise click.ClickException(str(error)) from error
    # What was made so far stays until the end. The collector would go through all of it again and again, and hold Python's lock
    # each time, and with it every call, for some 40 ms.
    gc.freeze()
    found = running.recovered
    note = f", {found.messages} messages indexed anew" if found.messages else ""
    say(
        f"Recollect listens on {running.address} and keeps {found.conversations} conversations in"
        f" {running.data_dir.resolve()}{note}. Stop it with Ctrl-C.",
        sys.stdout,
    )
    signal.sigwait(_STOPS)
    running.stop()
