"""The indexes of many open spaces of a server over PostgreSQL: one statement asks for all of them
where others wrote, and none waits for another.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from recollect import Client, Conversation, Message
from structlog.testing import capture_logs

from tests.conftest import RunningServer, Start
from tests.postgres import Postgres
from tests.waiting import until


@pytest.fixture
def url(postgres: Postgres) -> str:
    """Return the URL of a new database."""
    return postgres.new_database()


class Written:
    """A conversation of a space of its own."""

    def __init__(self, server: RunningServer, space: str, opened: ExitStack) -> None:
        self.space = space
        self.client = opened.enter_context(Client(server.target, space=space))
        self.conversation: Conversation = self.client.conversations.create("web")

    def append(self, text: str) -> None:
        turn = self.client.conversations.append_turn(self.conversation.id, [Message.user(text)])
        self.conversation = turn.conversation


def has_taken_in(server: RunningServer, written: Written) -> bool:
    """Return whether the index of a server has all messages of a conversation, without a call that
    would follow for itself.
    """
    (space,) = [it for it in server.app.spaces.open_now() if it.name == written.space]
    stored = space._space.index.conversations.find(written.conversation.id)
    return stored is not None and stored.state.message_count == written.conversation.message_count


def test_what_a_server_asks_where_others_wrote_does_not_grow_with_its_open_spaces(
    url: str, start_server: Start, postgres: Postgres
) -> None:
    def count(mark: str) -> int:
        """Return how many statements with a mark PostgreSQL has logged."""
        logged = (postgres.folder / "log").read_text(errors="replace").split("LOG:  ")
        return sum(mark in it for it in logged)

    def await_queries(number: int) -> None:
        """Wait until the server has asked for all spaces so many times more."""
        before = count("AS it (space, snapshot, history)")
        until(lambda: count("AS it (space, snapshot, history)") >= before + number)

    name = url.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET log_statement = 'all'")
    server = start_server(store=url)
    with ExitStack() as opened:
        written: list[Written] = []
        for spaces in (2, 20):
            written += [
                Written(server, f"space-{number}", opened) for number in range(len(written), spaces)
            ]
            await_queries(3)  # the first of them follow what was written here
            before = count("p.xid IS NOT NULL, c.xid::text")
            await_queries(3)
            assert count("p.xid IS NOT NULL, c.xid::text") - before <= 1


@pytest.fixture
def both(
    url: str, start_server: Start, tmp_path: Path
) -> Iterator[tuple[RunningServer, list[Written]]]:
    """Start two servers, and return the first, and conversations of the second in three spaces that
    are open on both.
    """
    one, two = (start_server(store=url, data_dir=tmp_path / it) for it in ("one", "two"))
    with ExitStack() as opened:
        for number in range(3):
            Written(one, f"space-{number}", opened)
        yield one, [Written(two, f"space-{number}", opened) for number in range(3)]


def append_and_await(server: RunningServer, elsewhere: list[Written]) -> None:
    """Append to each space elsewhere, and wait until the index of a server has it."""
    for it in elsewhere:
        it.append("Hello")
    until(lambda: all(has_taken_in(server, it) for it in elsewhere))


def test_the_index_of_an_open_space_takes_in_what_another_server_writes(
    both: tuple[RunningServer, list[Written]],
) -> None:
    for _ in range(2):
        append_and_await(*both)
    assert not {it.name for it in both[0].app.spaces.open_now() if it.jobs["following"].failure}


def test_where_the_statement_for_all_spaces_fails_each_is_followed_by_itself(
    both: tuple[RunningServer, list[Written]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = b"SELECT 1 / 0, %s::text[], %s::text[], %s::text[]"
    monkeypatch.setattr("recollect_server.postgres.sharing._CHANGED", fails)
    with capture_logs() as logged:
        for _ in range(2):
            append_and_await(*both)
    named = {it["reason"] for it in logged if it["event"] == "spaces_followed_one_by_one"}
    (reason,) = named
    assert "division by zero" in reason


def test_a_space_that_cannot_be_followed_holds_up_no_other_and_is_named(
    both: tuple[RunningServer, list[Written]], url: str, postgres: Postgres
) -> None:
    one, (damaged, *well) = both
    postgres.execute(
        'INSERT INTO recollect.changes (space, log, kind, action, "from", until, replica)'
        " VALUES ('space-0', 'conv', 'conversation', 'damaged', 0, 0, 0)",
        url,
    )
    (space,) = [it for it in one.app.spaces.open_now() if it.name == damaged.space]
    until(lambda: space.jobs["following"].failure)
    for _ in range(2):
        append_and_await(one, well)
    failing = [it.name for it in one.app.spaces.open_now() if it.jobs["following"].failure]
    assert failing == ["space-0"]
    postgres.execute("DELETE FROM recollect.changes WHERE action = 'damaged'", url)
    append_and_await(one, [damaged])
    until(lambda: not space.jobs["following"].failure)
