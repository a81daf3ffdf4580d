"""A server whose open spaces are nearly all at rest: two of them have their files open."""

import argparse
import logging
import signal
from pathlib import Path

import structlog
from recollect_server.run import app
from recollect_server.run.settings import Settings

MOST_AWAKE = 2


def main() -> None:
    """Serve a folder until a signal ends the server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("most_open", type=int)
    chosen = parser.parse_args()
    values = {
        "listen": "127.0.0.1:0",
        "data_dir": chosen.data_dir,
        "max_open_spaces": chosen.most_open,
    }
    # nobody reads more of its output than the address
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    server = app.start(Settings.load(None, values), most_awake=MOST_AWAKE)
    print(f"recollect listens on {server.address}", flush=True)  # noqa: T201 - as the server does
    signal.sigwait({signal.SIGTERM})
    server.stop()
