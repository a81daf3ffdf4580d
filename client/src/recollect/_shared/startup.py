"""The first steps of a program of this package."""

import os
import sys
from contextlib import suppress
from pathlib import Path

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended, as shells have it."""
_STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}


def open_closed_streams() -> None:
    """Open standard streams that are closed, as a program that starts this one may leave them.

    Python has None in their place, on which libraries fail, and the next connection would take
    their descriptors.
    """
    for name, mode in _STREAMS.items():
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - stays open


def print_notice(text: str) -> None:
    """Write a line to standard error. One that nobody can read stops no program that serves."""
    with suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
