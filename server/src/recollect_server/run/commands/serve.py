"""`recollect-server serve`: runs the service until Ctrl-C or SIGTERM."""

import ctypes
import fcntl
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from recollect_server.contract import endpoints
from recollect_server.contract.listening import CannotListen
from recollect_server.kernel.domain.errors import RecollectError
from recollect_server.kernel.domain.wording import counted
from recollect_server.run import app
from recollect_server.run.commands.folder import shown
from recollect_server.run.commands.logs import say, set_level, set_up_logs
from recollect_server.run.commands.options import NamedPath, load_settings, with_settings
from recollect_server.run.folder import NO_MEMORY, CannotStart, OutOfMemory
from recollect_server.run.settings import Settings, unread

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # as malloc.h numbers them
_STOPS = {signal.SIGINT, signal.SIGTERM}
_SWITCH_SECONDS = 0.0005
"""Time for which a thread may keep Python's lock while others wait for it."""


@click.command()
@click.option(
    "--while-locked",
    type=NamedPath(path_type=Path),
    metavar="FILE",
    help="stop when no process holds a shared lock (flock) of this file any more",
)
@with_settings()
def serve(config: Path | None, while_locked: Path | None, **flags: Any) -> None:
    """Start the server."""
    settings = load_settings(config, flags)
    for line in unread(settings):
        say(f"Note: {line}.", sys.stderr)
    _give_memory_back()
    # Blocked here and in every thread started later, and waited for below. A handler that sets an
    # event would wait for ever if it came while this thread held the event's lock.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        with _ended_by_signals():
            set_up_logs(settings)
            running = app.start(
                settings, progress=shown("Bringing the index up to the transcripts")
            )
    except OutOfMemory as error:
        say(f"Error: {error}", sys.stderr)
        os._exit(1)  # threads that were started may wait for ever for those that could not be
    except (CannotStart, CannotListen, RecollectError) as error:
        raise click.ClickException(str(error)) from error
    running.settings.follow(lambda settings: set_level(settings.log_level))
    # What was made so far stays until the end. The collector would go through all of it again and
    # again, and hold Python's lock each time, and with it every call, for some 40 ms.
    gc.freeze()
    # A call of some 40 steps in C waits for Python's lock after each: beside a thread that keeps it
    # for 5 ms, as is usual, that was most of its time (`bench.neighbours`).
    sys.setswitchinterval(_SWITCH_SECONDS)
    _trim()
    recovered = running.recovered
    note = f", {counted(recovered.messages, 'message')} indexed anew" if recovered.messages else ""
    addresses = ", ".join(_described(running.addresses, settings))
    say(
        f"Recollect listens on {addresses} and keeps {counted(recovered.conversations, 'conversation')} in"
        f" {running.place}{note}. Stop it with Ctrl-C.",
        sys.stdout,
    )
    if running.metrics_address:
        say(f"Metrics are at http://{running.metrics_address}/metrics.", sys.stdout)
    if running.health_address:
        say(f"Health is at http://{running.health_address}/readyz.", sys.stdout)
    if while_locked is not None:
        _stop_without_holders(while_locked)
    signal.sigwait(_STOPS)
    running.stop()


def _stop_without_holders(path: Path) -> None:
    """Stop this process when nobody else holds a lock of a file. Its own lock is held until the
    process has ended, so that a second server waits for that.
    """

    def wait() -> None:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            say(f"Error: cannot wait for the lock of {path}: {error.strerror}", sys.stderr)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="holders", daemon=True).start()


def _described(addresses: Sequence[str], settings: Settings) -> Iterator[str]:
    """Describe each address, with whether it uses TLS where that matters."""
    for address in addresses:
        if address.startswith(endpoints.UNIX):
            yield address
        elif settings.tls_cert is not None:
            yield f"{address} (TLS)"
        elif endpoints.is_local(address):
            yield address
        else:
            yield f"{address} (PLAINTEXT: anything between it and its callers can read all)"


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let the signals end the process at once while it starts, as they end any program: a start may
    take long, or hang.

    Nothing is lost by it, for a server may be killed at any moment. A thread takes the signals, for
    the system itself ends the process then, whatever Python waits for; once it is over, the signals
    wait for those who ask for them.
    """
    is_over = threading.Event()
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)

    def take() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        is_over.wait()
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)

    thread = threading.Thread(target=take, name="signals", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise OutOfMemory(NO_MEMORY) from error
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _trim() -> None:
    """Return memory that the start used and freed to the system, with glibc: some 1 MiB."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _give_memory_back() -> None:
    """Make glibc's allocator return freed memory. Elsewhere do nothing.

    By itself glibc maps only ever larger blocks apart, and keeps an arena for each thread: after 48
    reads of 8 MiB, 16 at once, 715 MiB stayed with the process. With these it peaked at 319 MiB and
    went back to 116.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for name, value in (
            (_M_MMAP_THRESHOLD, 256 << 10),
            (_M_TRIM_THRESHOLD, 4 << 20),
            (_M_ARENA_MAX, 2),
        ):
            mallopt(name, value)
