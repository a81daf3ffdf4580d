"""Callers of servers over one database while parts of it fail, and what they are told."""

import threading
import time
from collections.abc import Callable, Iterable
from itertools import pairwise

import grpc
import psycopg
from recollect.v1.update_pb2 import Update
from recollect_server.kernel.log.order import Mark

from tests.crash.checker import note, send
from tests.crash.history import Call, History
from tests.server.conftest import Service
from tests.streaming.conftest import Subscriber
from tests.waiting import until

LONGEST = 120.0  # seconds that a caller repeats a call
_ALL = {"max_turns": 10_000, "max_tokens": 10_000_000}
# Whether a change at a place or behind it, of before the last takeover, ran beside a transaction
# that did not commit.
_IS_IN_DOUBT = """
    SELECT EXISTS (
        SELECT FROM recollect.changes c, generate_series(
            pg_snapshot_xmin(c.seen)::text::bigint, c.xid::text::bigint - 1) AS beside
        WHERE c.space = 'default' AND c.xid >= %s::text::xid8
          AND c.xid < (SELECT began FROM recollect.timelines ORDER BY id DESC LIMIT 1)
          AND NOT pg_visible_in_snapshot(beside::text::xid8, c.seen)
          AND pg_xact_status(beside::text::xid8) <> 'committed')
"""


class Load:
    """Callers that repeat each call until it is answered, and the moments of their answers."""

    def __init__(self, services: list[Service], name: str = "", pace: float = 0.0) -> None:
        """`name` tells the callers from those of another load; `pace` is the pause of a caller
        between two calls, in seconds.
        """
        self._name = name
        self._pace = pace
        self.history = History()
        self.answered: list[float] = []
        self.refusals: list[float] = []
        """Seconds that each refused try took."""
        self._services = services
        self._ended = threading.Event()

    def run(self, caller: int) -> None:
        """Talk in a conversation of the caller's own, and in one that all share, until the end."""
        service = self._services[caller % len(self._services)]
        shared = Call("create", f"{self._name}shared")
        own = Call("create", f"{self._name}c{caller}")
        for call in (shared, own):
            self._do(service, call)
        number = 0
        while not self._ended.wait(self._pace):
            number += 1
            target = shared if number % 5 == 0 else own
            name = f"{self._name}c{caller}n{number}"
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
            end = time.monotonic() + LONGEST
            while True:
                began = time.monotonic()
                try:
                    return send(service, call)
                except grpc.RpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > end:
                        raise
                    self.refusals.append(time.monotonic() - began)
                    time.sleep(0.05)

        assert self.history.run(call, send_until_answered, note, grpc.RpcError), call
        self.answered.append(time.monotonic())


def until_update_of(one: Subscriber, name: str, target: str | None = None) -> Subscriber:
    """Wait until a subscriber is told of a conversation. One whose stream ended because PostgreSQL
    was away comes back with its cursor, as clients do, to another server if one is named.
    """

    def is_told() -> bool:
        return any(it.conversation_id == name for it in one.updates)

    while not is_told():
        one.until(lambda: one.error or is_told())
        if one.error is not None:
            assert one.error.code() is grpc.StatusCode.UNAVAILABLE, one.error
            one.resume(target)
    return one


def is_reset(one: Subscriber) -> bool:
    """Return whether a stream began again with a snapshot."""
    return any(it.reset for it in one.updates)


def forget_reset(one: Subscriber, count: int, url: str) -> list[Update]:
    """Let a subscriber forget its reset, and all but its first `count` updates, so that it can read
    the rest again. Return the rest that came before the reset. Fails unless the server had to reset
    it: a transaction beside its last change, or a later one, did not commit, and what took over
    cannot tell a rollback from a commit that it never got.
    """
    end = next(at for at, it in enumerate(one.updates) if it.reset)
    mark = Mark.of(next(it.cursor for it in reversed(one.updates[:end]) if it.cursor))
    assert mark is not None
    with psycopg.connect(url) as connection:
        row = connection.execute(_IS_IN_DOUBT, [str(mark.key.transaction)]).fetchone()
    assert row == (True,), f"reset behind {mark}, and not for a rollback"
    before = one.updates[count:end]
    one.forget(count)
    return before


def changes_of(
    updates: Iterable[Update], wants: Callable[[Update], bool] = lambda _: True
) -> list[str]:
    """Return the places of the changes among updates, in their order."""
    return [
        it.cursor.rpartition("-")[2]
        for it in updates
        if it.cursor
        and it.WhichOneof("kind") not in {"conversation_loaded", "heartbeat"}
        and wants(it)
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
