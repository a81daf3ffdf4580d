"""Streams of many spaces of one server over PostgreSQL: one statement asks for all of them, and
none waits for another.
"""

from contextlib import ExitStack

import grpc
import pytest
from recollect import Client, Conversation, Message
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect_server.postgres import follower
from structlog.testing import capture_logs

from tests.conftest import Start
from tests.postgres import Postgres
from tests.waiting import until


@pytest.fixture
def url(postgres: Postgres) -> str:
    """Return the URL of a new database."""
    return postgres.new_database()


class SpaceStream:
    """A conversation of a space of its own, and a stream of that space."""

    def __init__(self, target: str, space: str, opened: ExitStack) -> None:
        self.client = opened.enter_context(Client(target, space=space))
        self.conversation: Conversation = self.client.conversations.create("web")
        stub = ConversationServiceStub(opened.enter_context(grpc.insecure_channel(target)))
        self._updates = stub.StreamUpdates(
            api.StreamUpdatesRequest(), metadata=(("recollect-space", space),)
        )
        opened.callback(self._updates.cancel)
        next(self._updates)

    def append(self, text: str) -> None:
        self.client.conversations.append_turn(self.conversation.id, [Message.user(text)])

    def await_text(self, text: str) -> None:
        """Read the stream until it has a message."""
        while True:
            updated = next(self._updates).update.conversation_updated
            if text in [it.content for it in updated.messages]:
                return


def test_what_a_server_asks_for_an_append_does_not_grow_with_the_spaces_that_have_streams(
    url: str, start_server: Start, postgres: Postgres
) -> None:
    def count_reads() -> int:
        """Return how many statements have read changes or drafts for the streams until now."""
        logged = (postgres.folder / "log").read_text(errors="replace").split("LOG:  ")
        marks = "AS is_there", "bytes_before", "AND NOT pg_visible_in_snapshot(xid"
        return sum(any(mark in it for mark in marks) for it in logged)

    name = url.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET log_statement = 'all'")
    server = start_server(store=url)
    counts: list[float] = []
    with ExitStack() as opened:
        busy = SpaceStream(server.target, "busy", opened)
        followed = [busy]
        for spaces in (2, 20):
            followed += [
                SpaceStream(server.target, f"space-{number}", opened)
                for number in range(len(followed), spaces)
            ]
            before = count_reads()
            for number in range(20):
                busy.append(f"{spaces} {number}")
                busy.await_text(f"{spaces} {number}")
            counts.append((count_reads() - before) / 20)
        few, many = counts
        assert 1 <= many < 2 * few, counts
        followed[-1].append("Me too")
        followed[-1].await_text("Me too")


def test_a_space_whose_changes_are_damaged_holds_up_no_other_and_is_named(
    url: str, start_server: Start, postgres: Postgres
) -> None:
    with ExitStack() as opened, capture_logs() as logged:
        server = start_server(store=url)
        damaged, well = (SpaceStream(server.target, it, opened) for it in ("damaged", "well"))
        postgres.execute(
            'INSERT INTO recollect.changes (space, log, kind, action, "from", until, replica,'
            ' "time") SELECT space, log, kind, action, "from", until, replica, \'infinity\''
            " FROM recollect.changes WHERE space = 'damaged' ORDER BY id LIMIT 1",
            url,
        )
        until(lambda: any(it["event"] == "changes_not_followed" for it in logged))
        well.append("One")
        well.await_text("One")
        damaged.append("Two")
        well.append("Three")
        well.await_text("Three")
        [warning] = [it for it in logged if it["event"] == "changes_not_followed"]
        assert (warning["space"], "bigint" in warning["reason"]) == ("damaged", True)
        postgres.execute("DELETE FROM recollect.changes WHERE \"time\" = 'infinity'", url)
        damaged.await_text("Two")
        until(lambda: any(it["event"] == "changes_followed_again" for it in logged))


def test_where_the_statement_for_all_spaces_fails_each_is_read_by_itself(
    url: str, start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_CHANGED", b"SELECT 1 / 0")
    with ExitStack() as opened, capture_logs() as logged:
        server = start_server(store=url)
        both = [SpaceStream(server.target, it, opened) for it in ("one", "other")]
        for text in ("First", "Second"):
            for it in both:
                it.append(text)
                it.await_text(text)
        [warning] = [it for it in logged if it["event"] == "changes_read_one_by_one"]
        assert "division by zero" in warning["reason"]
