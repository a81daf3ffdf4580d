"""Format of logs: one line an event on standard error, as text for a person or as JSON.

An event is kept as it is and made into a line by a thread of its own some times a second, many at
once: a call pays for neither the text nor the system call. From warnings on a line is written
before the call goes on, as long as standard error takes it.

Standard error may refuse (a full disk, a pipe that nobody reads any more) or block (a pipe whose
reader stands still). Logging never raises into its caller, never waits long, and keeps a bounded
number of events until standard error takes them again; how many were dropped is then a line of its
own.
"""

import atexit
import logging
import os
import sys
import threading
from contextlib import suppress
from typing import Any, TextIO

import click
import structlog

from recollect_server.kernel.domain.telemetry import CALL
from recollect_server.kernel.domain.time import system_clock, to_text
from recollect_server.run.settings import Settings

_SECONDS = 0.1  # from an event to its line, and between two tries of what is refused
_MAX_WAITING = 10_000  # events that wait to be written: about 4 MB
_PATIENCE_SECONDS = 0.2  # that a warning waits until it is written
_LAST_SECONDS = 1.0  # that the end of the process waits for the last lines
_LINES = 1000  # that are made at once


def set_up_logs(settings: Settings) -> None:
    """Set up structlog for a process that serves."""
    output = Output(_renderer(settings), sys.__stderr__.fileno() if sys.__stderr__ else 2)
    _configure(settings, output, for_good=True)
    output.start()
    atexit.register(output.close)


def set_up_logs_of_a_command(settings: Settings) -> None:
    """Set up structlog for a command that ends by itself: the same lines, each written at once."""
    _configure(settings, _OutputAtOnce(_renderer(settings)), for_good=False)


def say(text: str, stream: TextIO | None) -> None:
    """Print a line that nobody depends on: a stream that refuses it ends nothing, and keeps none of
    it for later.
    """
    if stream is None:
        return
    text = "\n".join(map(printable, text.split("\n")))
    with suppress(OSError, ValueError):
        try:
            file = stream.fileno()
        except (OSError, ValueError):  # a stream without a file, as tests have them
            click.echo(text, file=stream)
        else:
            os.write(file, f"{text}\n".encode(errors="backslashreplace"))


def _renderer(settings: Settings) -> structlog.typing.Processor:
    if settings.log_format == "json":
        return structlog.processors.JSONRenderer()
    render = structlog.processors.LogfmtRenderer(
        key_order=["timestamp", "level", "event"], drop_missing=True
    )

    def render_printable(logger: Any, name: str, event: structlog.typing.EventDict) -> str:
        """Return a line for people, in which nothing that a caller sent steers a terminal."""
        return printable(render(logger, name, event))

    return render_printable


def printable(line: str) -> str:
    """Return a line of which nothing steers a terminal: names of files, and what callers sent."""
    if line.isprintable():
        return line
    return "".join(it if it.isprintable() else ascii(it)[1:-1] for it in line)


def set_level(name: str) -> None:
    """Set the lowest level that is logged from now on."""
    _Leveled.level = logging.getLevelNamesMapping()[name.upper()]


class _Leveled(structlog.make_filtering_bound_logger(logging.DEBUG)):  # type: ignore[misc]
    """Logger whose lowest level can change. structlog's own has it built in, and a logger is made
    once.
    """

    level = logging.INFO

    def is_enabled_for(self, level: int) -> bool:
        return level >= self.level

    def get_effective_level(self) -> int:
        return self.level

    def debug(self, event: str, *args: Any, **fields: Any) -> Any:
        return super().debug(event, *args, **fields) if self.level <= logging.DEBUG else None

    def info(self, event: str, *args: Any, **fields: Any) -> Any:
        return super().info(event, *args, **fields) if self.level <= logging.INFO else None

    def warning(self, event: str, *args: Any, **fields: Any) -> Any:
        return super().warning(event, *args, **fields) if self.level <= logging.WARNING else None


def _configure(settings: Settings, output: "Output | _OutputAtOnce", *, for_good: bool) -> None:
    set_level(settings.log_level)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _with_ids,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            _stamped,
        ],
        wrapper_class=_Leveled,
        logger_factory=lambda *_: output,
        cache_logger_on_first_use=for_good,
    )


def _with_ids(
    _logger: Any, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Add the ids of the call that this thread carries out, those that it has."""
    if (ids := CALL.get()) is not None:
        for name, value in (("request", ids.request), ("token", ids.token), ("trace", ids.trace)):
            if value:
                event.setdefault(name, value)
    return event


def _stamped(
    _logger: Any, _name: str, event: structlog.typing.EventDict
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    event["timestamp"] = system_clock()
    return (event,), {}


class Output:
    """Standard error as a place for events. Safe to call from any thread; one thread writes."""

    def __init__(
        self, renderer: structlog.typing.Processor, file: int, max_waiting: int = _MAX_WAITING
    ) -> None:
        """`file`: the descriptor that is written to. `max_waiting`: events that are kept until it
        takes them.
        """
        self._renderer = renderer
        self._file = file
        self._max_waiting = max_waiting
        # Appended by any thread, taken by the one that writes. An Event among them is set once all
        # before it is written.
        self._events: list[structlog.typing.EventDict | threading.Event] = []
        # lines that are made and not written yet; only the writing thread touches them
        self._text = b""
        self._refusal = ""
        self._stalled = False  # the last warning waited in vain
        self._guard = threading.Lock()  # guards the number of dropped events
        self._dropped = 0
        # something is to be written, without delay, and nothing more comes
        self._pending, self._urgent, self._closing = (threading.Event() for _ in range(3))
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)

    def start(self) -> None:
        """Start writing. Call it once."""
        self._thread.start()

    def close(self) -> None:
        """Write what is left, as long as that takes no more than a second."""
        self._closing.set()
        self._pending.set()
        self._urgent.set()
        self._thread.join(_LAST_SECONDS)

    def info(self, event: structlog.typing.EventDict) -> None:
        """Keep an event for the next time."""
        if len(self._events) < self._max_waiting:
            self._events.append(event)
        else:
            with self._guard:
                self._dropped += 1
        if not self._pending.is_set():
            self._pending.set()

    debug = info

    def warning(self, event: structlog.typing.EventDict) -> None:
        """Write an event now, with all before it, unless standard error refuses or blocks."""
        self.info(event)
        if self._refusal or self._stalled or len(self._events) >= self._max_waiting:
            return
        written = threading.Event()
        self._events.append(written)
        self._pending.set()
        self._urgent.set()
        if not written.wait(_PATIENCE_SECONDS):
            self._stalled = True

    error = critical = exception = fatal = warning

    def _run(self) -> None:
        while not self._closing.is_set():
            if not self._refusal:
                self._pending.wait()
            # What refuses is tried again at the same pace, however many warnings come.
            (self._closing if self._refusal else self._urgent).wait(_SECONDS)
            self._pending.clear()
            self._urgent.clear()
            self._write()
        self._write()

    def _write(self) -> None:
        """Write what there is, or as much of it as is taken."""
        while self._text or self._events:
            taken: list[structlog.typing.EventDict | threading.Event] = []
            if not self._text:
                taken = self._events[:_LINES]
                del self._events[: len(taken)]
                self._text = b"".join(
                    self._line(it) for it in taken if not isinstance(it, threading.Event)
                )
            is_written = self._put()
            for it in taken:
                if isinstance(it, threading.Event):
                    it.set()
            if not is_written:
                return
        if self._refusal or self._dropped:
            self._resume()

    def _put(self) -> bool:
        """Write the lines that are made; False if some are left. A line that was written in part
        goes on where it ended.
        """
        try:
            while self._text:
                self._text = self._text[os.write(self._file, self._text) :]
        except OSError as error:
            self._refusal = error.strerror or str(error)
            return False
        self._stalled = False
        return True

    def _resume(self) -> None:
        """Say that lines were dropped, or came late."""
        with self._guard:
            dropped, self._dropped = self._dropped, 0
        reason, self._refusal = self._refusal or "standard error was not read", ""
        event = {
            "event": "log_resumed",
            "dropped": dropped,
            "reason": reason,
            "level": "warning",
            "timestamp": system_clock(),
        }
        self._text = self._line(event)
        self._put()

    def _line(self, event: structlog.typing.EventDict) -> bytes:
        try:
            return _rendered(self._renderer, event)
        except Exception as error:  # noqa: BLE001 - whatever an event holds: the thread that writes must live
            stub = {
                "event": "log_event_failed",
                "error": type(error).__name__,
                "level": "error",
                "timestamp": system_clock(),
            }
            return _rendered(self._renderer, stub)


class _OutputAtOnce:
    """Standard error of a command that ends by itself: every event is written now, or never if it
    is refused.
    """

    def __init__(self, renderer: structlog.typing.Processor) -> None:
        self._renderer = renderer
        self._writing = threading.Lock()

    def warning(self, event: structlog.typing.EventDict) -> None:
        with self._writing:
            say(_rendered(self._renderer, event).decode().rstrip("\n"), sys.stderr)

    debug = info = error = critical = exception = fatal = warning


def _rendered(renderer: structlog.typing.Processor, event: structlog.typing.EventDict) -> bytes:
    line: Any = renderer(None, "", {**event, "timestamp": to_text(event["timestamp"])})
    return f"{line}\n".encode(errors="backslashreplace")
