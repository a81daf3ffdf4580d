"""A standby of PostgreSQL takes over under load: all that was acknowledged is there, where the
standby had it; where it had not, nobody goes on as if it were.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import grpc
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.crash.checker import check, note, repeat, send
from tests.crash.history import Call, History
from tests.crash.load import connected, process
from tests.postgres import copy_transcripts, running
from tests.server.conftest import Service
from tests.streaming.conftest import Subscriber, Watched
from tests.waiting import until

ACKNOWLEDGED = 400  # calls, before PostgreSQL is killed and again behind that
MOST = 5.0  # seconds between two answers that a failover may cost beside the promotion itself
_ALL = {"max_turns": 10_000, "max_tokens": 10_000_000}


class Cluster:
    """A primary of PostgreSQL, and a standby that takes over from it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.primary = stack.enter_context(running())
        self.standby = self.primary
        self._name = ""

    def renew(self) -> str:
        """Make a database, and a standby of the one that is the primary now. Return the URL of
        both.
        """
        self.standby = self._stack.enter_context(self.primary.standby())
        self._name = str(conninfo_to_dict(self.primary.new_database())["dbname"])
        return (
            f"postgresql://postgres@/{self._name}?host={self.primary.folder},{self.standby.folder}"
            "&target_session_attrs=read-write"
        )

    @property
    def url(self) -> str:
        """The URL of the database at the primary alone."""
        return self.primary.url(self._name)

    def wait_for_standby(self) -> None:
        """Let each commit wait for the standby."""
        self.primary.set("synchronous_standby_names", "*")
        until(
            lambda: (
                self.primary.execute("SELECT sync_state FROM pg_stat_replication") == [("sync",)]
            )
        )

    def fail_over(self) -> float:
        """Kill the primary, and promote the standby. Return the seconds that it takes."""
        began = time.monotonic()
        self.primary.kill()
        self.standby.promote()
        self.primary = self.standby
        return time.monotonic() - began


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack)


class Load:
    """Callers that repeat each call until it is answered, and the moments of their answers."""

    def __init__(self, services: list[Service]) -> None:
        self.history = History()
        self.answered: list[float] = []
        self.refusals = 0
        self._services = services
        self._ended = threading.Event()

    def run(self, caller: int) -> None:
        """Talk in a conversation of the caller's own, and in one that all share, until the end."""
        service = self._services[caller % len(self._services)]
        shared, own = Call("create", "shared"), Call("create", f"c{caller}")
        for call in (shared, own):
            self._do(service, call)
        number = 0
        while not self._ended.is_set():
            number += 1
            target = shared if number % 5 == 0 else own
            name = f"c{caller}n{number}"
            kind = "rename" if number % 11 == 0 and target is own else "append"
            texts = tuple(f"{name}m{at} zebra" for at in range(1 if kind == "rename" else 2))
            self._do(service, Call(kind, name, target.conversation_id, texts))

    def end(self) -> None:
        """Let every caller end behind its next answer."""
        self._ended.set()

    def until_answered(self, count: int) -> None:
        """Wait for so many answers more."""
        before = len(self.answered)
        until(lambda: len(self.answered) > before + count)

    def longest_stall(self) -> float:
        """Return the most seconds between two answers."""
        moments = sorted(self.answered)
        return max(b - a for a, b in pairwise(moments))

    def _do(self, service: Service, call: Call) -> None:
        def send_until_answered() -> object:
            end = time.monotonic() + 30
            while True:
                try:
                    return send(service, call)
                except grpc.RpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > end:
                        raise
                    self.refusals += 1
                    time.sleep(0.05)

        assert self.history.run(call, send_until_answered, note, grpc.RpcError), call
        self.answered.append(time.monotonic())


def told_of(one: Subscriber, name: str) -> Subscriber:
    """Wait until a subscriber is told of a conversation. One whose stream ended because PostgreSQL
    was away comes back with its cursor, as clients do.
    """

    def is_told() -> bool:
        return any(it.conversation_id == name for it in one.updates)

    while not is_told():
        one.until(lambda: one.error or is_told())
        if one.error is not None:
            assert one.error.code() is grpc.StatusCode.UNAVAILABLE, one.error
            one.resume()
    return one


def changes_of(one: Subscriber) -> list[str]:
    """Return the places of the changes that a subscriber was told, in their order."""
    return [
        it.cursor.rpartition("-")[2]
        for it in one.updates
        if it.cursor and it.WhichOneof("kind") not in {"conversation_loaded", "heartbeat"}
    ]


def contents_of(service: Service) -> dict[str, list[tuple[int, int, str]]]:
    """Return the messages of every conversation that a server lists."""
    return {
        it.id: [
            (m.sequence, m.turn_number, m.content) for m in service.load(it.id, **_ALL).messages
        ]
        for page in service.pages(page_size=500)
        for it in page
    }


@pytest.mark.timeout(180)
def test_a_synchronous_standby_takes_over_and_nothing_is_lost_doubled_or_told_otherwise(
    cluster: Cluster, tmp_path: Path, watched: Watched
) -> None:
    url = cluster.renew()
    cluster.wait_for_standby()
    with ExitStack() as stack:
        targets = [
            stack.enter_context(process(tmp_path / name, "", "127.0.0.1:0", "--store", url)).target
            for name in "ab"
        ]
        services = [stack.enter_context(connected(target)) for target in targets]
        watched.subscribers += [Subscriber(target).ready() for target in targets]
        hopper = Subscriber(targets[0]).ready()
        watched.subscribers.append(hopper)
        load = Load(services)
        with ThreadPoolExecutor() as pool:
            callers = [pool.submit(load.run, number) for number in range(6)]
            try:
                load.until_answered(ACKNOWLEDGED)
                hopper.drop()  # at a cursor of before
                load.until_answered(ACKNOWLEDGED // 4)
                seconds = cluster.fail_over()
                hopper.resume(targets[1])
                load.until_answered(ACKNOWLEDGED)
            finally:
                load.end()
            for caller in callers:
                caller.result()
        last = services[0].create()
        for one in watched.subscribers:
            told_of(one, last.id)
            assert not any(it.reset for it in one.updates)
        first, second, third = map(changes_of, watched.subscribers)
        assert first == second == third
        stall = load.longest_stall()
        assert stall < seconds + MOST, (
            f"{stall:.1f} s without an answer, {seconds:.1f} s for the promotion"
        )
        assert repeat(load.history, services[1]) == []
        for call in load.history.calls():
            call.cursor = ""
        copy_transcripts(cluster.url, tmp_path / "copied")
        verdicts = [check(load.history, service, tmp_path / "copied") for service in services]
        assert [verdict.problems for verdict in verdicts] == [[], []]
        assert verdicts[0].acknowledged > 2 * ACKNOWLEDGED
        assert contents_of(services[0]) == contents_of(services[1])
