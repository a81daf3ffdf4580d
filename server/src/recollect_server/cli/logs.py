"""How logs look: one line an event on standard error, as text for a person or as JSON.

An event is kept as it is and made into a line by a thread of its own some times a second, many at once: a call pays for neither the
text nor the system call. From warnings on a line is written before the call goes on.
"""

import atexit
import logging
import sys
import threading
from typing import Any

import structlog

from recollect_server.domain.time import system_clock, to_text
from recollect_server.settings import Settings

_SECONDS = 0.1


def set_up_logs(settings: Settings) -> None:
    """Sets structlog up for a process that serves."""
    output = _Output(_renderer(settings))
    _configure(settings, output, for_good=True)
    threading.Thread(target=output.write_now_and_then, name="log", daemon=True).start()
    atexit.register(output.write)


def set_up_logs_of_a_command(settings: Settings) -> None:
    """Sets structlog up for a command that ends by itself: the same lines, each written at once."""
    _configure(settings, _OutputAtOnce(_renderer(settings)), for_good=False)


def _renderer(settings: Settings) -> structlog.typing.Processor:
    if settings.log_format == "json":
        return structlog.processors.JSONRenderer()
    return structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], drop_missing=True)


def _configure(settings: Settings, output: "_Output", *, for_good: bool) -> None:
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.format_exc_info, _stamped],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.log_level.upper()]),
        logger_factory=lambda *_: output,
        cache_logger_on_first_use=for_good,
    )


def _stamped(_logger: Any, _name: str, event: structlog.typing.EventDict) -> tuple[tuple[Any, ...], dict[str, Any]]:
    event["timestamp"] = system_clock()
    return (event,), {}


class _Output:
    """Where events go. Safe to call from any thread."""

    def __init__(self, renderer: structlog.typing.Processor) -> None:
        self._renderer = renderer
        self._events: list[structlog.typing.EventDict] = []  # appended by any thread, taken by the one that writes
        self._writing = threading.Lock()  # held by the one that writes

    def info(self, event: structlog.typing.EventDict) -> None:
        """Keeps an event for the next time."""
        self._events.append(event)

    debug = info

    def warning(self, event: structlog.typing.EventDict) -> None:
        """Writes an event now, with all before it."""
        self._events.append(event)
        self.write()

    error = critical = exception = fatal = warning

    def write(self) -> None:
        """Writes what there is."""
        with self._writing:
            count = len(self._events)
            events = self._events[:count]
            del self._events[:count]
            if events:
                sys.stderr.write("".join(f"{self._line(event)}\n" for event in events))
                sys.stderr.flush()

    def write_now_and_then(self) -> None:
        """Writes what there is, some times a second, for ever."""
        never = threading.Event()
        while not never.wait(_SECONDS):
            self.write()

    def _line(self, event: structlog.typing.EventDict) -> Any:
        event["timestamp"] = to_text(event["timestamp"])
        return self._renderer(None, "", event)


class _OutputAtOnce(_Output):
    """Writes every event now."""

    info = debug = _Output.warning
