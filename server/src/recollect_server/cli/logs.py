"""How logs look: one line an event on standard error, as text for a person or as JSON."""

import atexit
import logging
import sys
import threading
from typing import Any

import structlog

from recollect_server.settings import Settings


def set_up_logs(settings: Settings) -> None:
    """Sets structlog up for this process."""
    renderer: structlog.typing.Processor
    if settings.log_format == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], drop_missing=True)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.log_level.upper()]),
        logger_factory=_Output,
        cache_logger_on_first_use=True,
    )
    threading.Thread(target=_flush_now_and_then, name="log", daemon=True).start()
    atexit.register(_flush)


_FLUSH_SECONDS = 0.1
_lines: list[str] = []  # appended by any thread, taken by the one that flushes
_flushing = threading.Lock()


class _Output:
    """Where lines go: into memory, and from there to standard error some times a second, at once from warnings on.

    A write for every line would hand Python's global lock on twice a call.
    """

    def __init__(self, *_: Any) -> None:
        pass

    def info(self, line: str) -> None:
        _lines.append(line)

    debug = info

    def warning(self, line: str) -> None:
        _lines.append(line)
        _flush()

    error = critical = exception = fatal = warning


def _flush() -> None:
    with _flushing:
        count = len(_lines)
        if count:
            text = "\n".join(_lines[:count])
            del _lines[:count]
            sys.stderr.write(text + "\n")
            sys.stderr.flush()


def _flush_now_and_then() -> None:
    wake = threading.Event()
    while not wake.wait(_FLUSH_SECONDS):
        _flush()
