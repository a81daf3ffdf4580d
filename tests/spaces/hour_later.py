"""A server whose clock shows an hour later. It is a process of its own: threads wait for times of
the clock, and those that it has shown would be an hour away if it were put back beside them.
"""

import argparse
import threading
import time
from pathlib import Path

import structlog
from recollect_server.run import app
from recollect_server.run.jobs.loop import Loop
from recollect_server.run.settings import Settings

SPACES = 5


def main() -> None:
    """Open spaces, let an hour pass without a call, and print the names of those that are awake."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data_dir", type=Path)
    chosen = parser.parse_args()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    server = app.start(Settings.load(None, {"listen": "127.0.0.1:0", "data_dir": chosen.data_dir}))
    for number in range(SPACES):
        server.spaces.use(f"space-{number}").end()
    is_over = threading.Event()

    def end() -> float:
        is_over.set()
        return 3600.0

    last, first = Loop("last", end, wait=1800.0), Loop("first", lambda: 3600.0)
    last.start()
    now = time.monotonic
    time.monotonic = lambda: now() + 3600.0
    first.start()  # has the threads of all jobs look at the time, and the last comes last
    is_over.wait()
    print(*sorted(it.name for it in server.spaces.open_now()))  # noqa: T201 - its result
    last.stop()
    first.stop()
    server.stop()
