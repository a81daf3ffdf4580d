"""Standard streams that refuse, block or are closed: the server answers as ever, bounds what waits,
and says what was dropped.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import structlog
from recollect_server.kernel.domain.time import system_clock
from recollect_server.run.commands.logs import Output

from tests.programs import SERVER, Forked
from tests.server.conftest import Service, at_once, code_of, user
from tests.waiting import until

CALLERS = 4
APPENDS = 10
INDEX = "default/conversations/conversations.db"
Process = Forked | subprocess.Popen[bytes]


def forked(arguments: list[str], **streams: Any) -> Forked:
    return Forked(SERVER, arguments, text=False, **streams)


def cold(arguments: list[str], **streams: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", SERVER, *arguments], **streams)


@contextmanager
def serving(
    folder: Path, *, start: Callable[..., Process] = forked, **streams: Any
) -> Iterator[tuple[Process, Service]]:
    """Serve at a Unix socket with these standard streams, which may refuse output."""
    folder.mkdir(exist_ok=True)
    socket = folder / "s"
    flags = [
        "--listen",
        f"unix:{socket}",
        "--data-dir",
        str(folder / "data"),
        "--shutdown-grace",
        "5m",
        "--log-format",
        "json",
        "--slow-call",
        "0s",
    ]
    with start(["serve", *flags], **streams) as process:
        until(lambda: process.poll() is not None or socket.exists())
        service = Service(f"unix:{socket}")
        try:
            assert process.poll() is None
            yield process, service
        finally:
            service.channel.close()
            process.kill()


def use(process: Process, service: Service, folder: Path, scale: int) -> None:
    """Append from many callers, lose the index under them, which is logged as a warning, and
    search.
    """
    conversations = [service.create().id for _ in range(CALLERS)]
    threads = threads_of(process)

    def append(caller: int) -> None:
        for number in range(APPENDS * scale):
            assert service.append(conversations[caller], user(f"zebra {number}")).turn_number

    at_once(CALLERS, append)
    for path in (folder / "data" / INDEX).parent.glob("conversations.db*"):
        path.unlink()
    at_once(CALLERS, append)
    until(lambda: code_of(lambda: service.append(conversations[0], user("quagga"))) == "OK")
    until(lambda: with_word(service, "quagga"))
    assert threads_of(process) >= threads, "a thread has died"


def with_word(service: Service, word: str) -> list[str]:
    return service.found(word) if code_of(lambda: service.found(word)) == "OK" else []


def threads_of(process: Process) -> int:
    """Return the number of a process's threads; 0 if it cannot be read."""
    with suppress(OSError):
        return len(list(Path(f"/proc/{process.pid}/task").iterdir()))
    return 0


def stop(process: Process) -> int:
    """Stop a process in order; return its exit status."""
    process.send_signal(signal.SIGTERM)
    return process.wait()


@pytest.fixture
def full() -> Iterator[int]:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    file = os.open("/dev/full", os.O_WRONLY)
    yield file
    os.close(file)


def test_an_output_and_a_log_on_a_full_disk_or_to_a_pipe_that_nobody_reads_any_more(
    tmp_path: Path, full: int, scale: int
) -> None:
    read, dead = os.pipe()
    os.close(read)
    kinds = [(full, dead)] if scale == 1 else [(full, dead), (full, full), (dead, dead)]
    for number, (output, log) in enumerate(kinds):
        folder = tmp_path / str(number)
        with serving(folder, stdout=output, stderr=log) as (process, service):
            use(process, service, folder, scale)
            assert stop(process) == 0
    os.close(dead)


def test_a_log_to_a_pipe_whose_reader_stands_still_and_goes_on(tmp_path: Path, scale: int) -> None:
    read, write = os.pipe()
    with suppress(AttributeError, OSError):
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    with serving(tmp_path, stdout=subprocess.DEVNULL, stderr=write) as (process, service):
        os.close(write)
        use(process, service, tmp_path, scale)
        lines: list[bytes] = []
        with open(read, "rb") as log:  # noqa: PTH123 - a descriptor
            reader = threading.Thread(target=lambda: lines.extend(log))
            reader.start()
            until(lambda: any(b'"index_' in line for line in lines))
            assert stop(process) == 0
            reader.join()
    calls = [event for event in map(json.loads, lines) if event["event"] == "call"]
    appends = [
        event for event in calls if event["method"].endswith("AppendTurn") and event["code"] == "OK"
    ]
    assert len(appends) > 2 * CALLERS * APPENDS * scale  # none was lost: they waited


def test_a_stop_does_not_wait_for_a_reader_that_stands_still(tmp_path: Path) -> None:
    read, write = os.pipe()
    with suppress(AttributeError, OSError):
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    with serving(tmp_path, stdout=subprocess.DEVNULL, stderr=write) as (process, service):
        os.close(write)
        for _ in range(60):  # more lines than the pipe takes
            service.create()
        assert stop(process) == 0
    os.close(read)


def test_standard_streams_that_are_closed_are_no_file_of_the_servers(tmp_path: Path) -> None:
    def without_streams(arguments: list[str]) -> "subprocess.Popen[bytes]":
        # By a shell: Python between fork and exec would meet the locks of other threads.
        command = [sys.executable, "-m", SERVER, *arguments]
        return subprocess.Popen(["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *command])

    with serving(tmp_path, start=without_streams) as (process, service):
        assert service.conversation_of("zebra")
        if sys.platform == "linux":
            files = {
                str(Path(f"/proc/{process.pid}/fd/{descriptor}").readlink())
                for descriptor in range(3)
            }
            assert files == {os.devnull}
        assert stop(process) == 0


# The log itself -----------------------------------------------------------------------------------


def event(name: str, **fields: object) -> structlog.typing.EventDict:
    return {"event": name, "timestamp": system_clock(), **fields}


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_waits_is_bounded_and_what_was_dropped_is_told_once_it_is_taken_again(
    tmp_path: Path, full: int, scale: int
) -> None:
    output = Output(structlog.processors.JSONRenderer(), full, max_waiting=50)
    output.start()
    for number in range(500 * scale):
        output.info(event("call", number=number))
        if number % 10 == 0:
            output.warning(event("trouble"))
    until(lambda: output._refusal)
    for number in range(100):
        output.info(event("late", number=number))
    assert len(output._events) <= 51
    with (tmp_path / "log").open("wb") as log:
        os.dup2(log.fileno(), full)
    until(lambda: any(line["event"] == "log_resumed" for line in written(tmp_path / "log")))
    output.warning(event("healed"))
    output.close()
    lines = written(tmp_path / "log")
    [resumed] = [line for line in lines if line["event"] == "log_resumed"]
    logged = [line for line in lines if line["event"] in ("call", "trouble", "late")]
    assert resumed["dropped"] == 500 * scale + 50 * scale + 100 - len(logged) > 0
    assert resumed["reason"] == "No space left on device"
    assert lines[-1]["event"] == "healed"


def test_a_line_that_was_taken_in_part_goes_on_where_it_ended() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    output = Output(structlog.processors.JSONRenderer(), write)
    output.start()
    for number in range(3):  # twice what a pipe holds
        output.info(event("long", number=number, text="x" * 50_000))
    until(lambda: output._refusal)
    data = b""
    os.set_blocking(read, False)
    while b"log_resumed" not in data:
        with suppress(BlockingIOError):
            data += os.read(read, 1 << 16)
    output.close()
    lines = [json.loads(line) for line in data.splitlines()]
    assert [line.get("number") for line in lines] == [0, 1, 2, None]
    os.close(read)
    os.close(write)


def test_a_warning_waits_for_a_reader_that_stands_still_once_and_briefly() -> None:
    read, write = os.pipe()
    output = Output(structlog.processors.JSONRenderer(), write)
    output.start()
    output.info(event("long", text="x" * 200_000))
    began = time.monotonic()
    for _ in range(500):
        output.warning(event("trouble"))
    assert time.monotonic() - began < 30  # 500 x 0.2 s would be 100
    data = b""
    while data.count(b"trouble") < 500:
        data += os.read(read, 1 << 16)
    output.close()
    os.close(read)
    os.close(write)


def test_an_event_that_cannot_be_written_ends_no_thread(tmp_path: Path) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError

    with (tmp_path / "log").open("wb") as log:
        output = Output(structlog.processors.JSONRenderer(), log.fileno())
        output.start()
        output.warning(event("broken", value=Broken()))
        output.warning(event("surrogate", value="\ud800"))
        output.close()
    assert [line["event"] for line in written(tmp_path / "log")] == [
        "log_event_failed",
        "surrogate",
    ]
