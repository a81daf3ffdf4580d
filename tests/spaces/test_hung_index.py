"""A server ends soon after a signal to stop, though an index takes in nothing: jobs and calls that
wait for it fail, and the next start has all that was acknowledged.
"""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import apsw
import grpc
import pytest
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index import writer
from recollect_server.kernel.index.file import open_writer
from recollect_server.run.space import OpenSpace
from structlog.testing import capture_logs

from tests.at_rest import is_sealed
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import Service, server_process, user
from tests.spaces.conftest import Enter
from tests.waiting import until

SPACE = "hung"
GRACE = "100ms"
ALL = {"max_turns": 1000, "max_tokens": 1_000_000}

pytestmark = pytest.mark.timeout(60)  # a stop that hangs takes no longer


class Hang:
    """A disk that hangs until it is let go, for each thread that comes while it is on."""

    def __init__(self) -> None:
        self.is_on = False
        self.holds = threading.Event()
        """Somebody hangs."""
        self.is_over = threading.Event()

    def meet(self) -> None:
        if self.is_on:
            self.holds.set()
            self.is_over.wait()


@pytest.fixture
def hang() -> Iterator[Hang]:
    disk = Hang()
    yield disk
    disk.is_over.set()


def opened(server: RunningServer) -> OpenSpace:
    """Return the space of these tests."""
    (space,) = [it for it in server.app.spaces.open_now(at_rest=True) if it.name == SPACE]
    return space


def search(service: Service) -> None:
    """Search, and heed no error: the server stops meanwhile."""
    with suppress(grpc.RpcError):
        service.found("zebra")


def texts(service: Service, name: str) -> list[str]:
    """Return the texts of a conversation."""
    return [it.content for it in service.load(name, **ALL).messages]


@pytest.mark.parametrize("waits", ["job", "call"])
def test_a_server_stops_though_somebody_waits_for_an_index_that_takes_in_nothing(
    waits: str, start_server: Start, enter: Enter, monkeypatch: pytest.MonkeyPatch, hang: Hang
) -> None:
    def taking_in(failpoint: str) -> None:
        if failpoint == "index.taking_in":
            hang.meet()
        hit(failpoint)

    monkeypatch.setattr(writer, "hit", taking_in)
    server = start_server(shutdown_grace=GRACE)
    service = enter(server.target, SPACE)
    name = service.conversation_of("First")
    assert texts(service, name) == ["First"]
    index = opened(server)._space.index
    hang.is_on = True
    service.append(name, user("Second zebra"))
    hang.holds.wait()
    with ThreadPoolExecutor(2) as pool:
        if waits == "call":
            pool.submit(search, service)
        until(lambda: index.writer._expected)  # without a call a job is the first to wait
        with capture_logs() as logged:
            stopped = pool.submit(server.stop)
            try:
                stopped.result(50)
            finally:
                hang.is_over.set()
    events = [it["event"] for it in logged]
    assert "indexes_abandoned" in events
    assert not {"spaces_left_open", "space_not_closed", "job_failed", "fault"} & {*events}
    until(lambda: not index.writer.is_running)
    assert not is_sealed(server.data_dir / SPACE / "conversations")
    again = enter(start_server().target, SPACE)
    assert again.found("zebra") == [name]
    assert texts(again, name) == ["First", "Second zebra"]


def test_a_server_stops_though_a_job_hangs_in_opening_a_sealed_index(
    start_server: Start,
    clock: MovableClock,
    enter: Enter,
    monkeypatch: pytest.MonkeyPatch,
    hang: Hang,
) -> None:
    def opening(path: Path) -> apsw.Connection:
        if SPACE in path.parts and hang.is_on:
            hang.meet()
            raise apsw.CantOpenError("the disk was taken away")
        return open_writer(path)

    monkeypatch.setattr(writer, "open_writer", opening)
    server = start_server(shutdown_grace=GRACE)
    service = enter(server.target, SPACE)
    name = service.conversation_of("First")
    spaces = server.app.spaces

    def rests() -> bool:
        spaces.rest(SPACE)
        return SPACE not in {it.name for it in spaces.open_now()}

    until(rests)
    hang.is_on = True
    service.append(name, user("Second zebra"))
    clock.move(5_000)  # then the index is due, and the job that opens it hangs
    hang.holds.wait()
    folder = server.data_dir / SPACE / "conversations"
    assert is_sealed(folder)
    with ThreadPoolExecutor(1) as pool, capture_logs() as logged:
        stopped = pool.submit(server.stop)
        try:
            stopped.result(50)
        finally:
            hang.is_over.set()
    (left,) = [it for it in logged if it["event"] == "spaces_left_open"]
    assert left["spaces"] == [SPACE]
    until(lambda: SPACE not in spaces._places)  # the job goes on, for this process does
    assert is_sealed(folder)
    hang.is_on = False
    again = enter(start_server().target, SPACE)
    assert again.found("zebra") == [name]
    assert texts(again, name) == ["First", "Second zebra"]


def test_an_index_that_took_in_nothing_any_more_is_not_sealed_and_the_next_start_catches_it_up(
    start_server: Start, enter: Enter
) -> None:
    server = start_server()
    service = enter(server.target, SPACE)
    name = service.conversation_of("First")
    assert texts(service, name) == ["First"]
    opened(server).abandon()
    service.append(name, user("Second zebra"))
    server.stop()
    assert not is_sealed(server.data_dir / SPACE / "conversations")
    again = enter(start_server().target, SPACE)
    assert again.found("zebra") == [name]
    assert texts(again, name) == ["First", "Second zebra"]


@pytest.mark.files
def test_a_signal_ends_a_server_whose_index_another_process_has_locked(tmp_path: Path) -> None:
    flags = ("--shutdown-grace", "1s")
    with server_process(tmp_path, *flags) as (process, address):
        service = Service(address)
        name = service.conversation_of("First")
        assert service.found("First") == [name]
        (file,) = tmp_path.rglob("conversations.db")
        with closing(apsw.Connection(str(file))) as other:
            other.execute("begin immediate")
            service.append(name, user("Second zebra"))
            with ThreadPoolExecutor(1) as pool:
                pool.submit(search, service)
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
    with server_process(tmp_path, *flags) as (_, address):
        assert Service(address).found("zebra") == [name]
