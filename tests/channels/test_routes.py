"""Routes of messages: what the index has, and what was added since."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import apsw
import grpc
import pytest
from recollect_server.kernel.domain.conversation import Began, fold
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.writer import Writer
from recollect_server.kernel.log.lines import Entry, encode, encoded
from recollect_server.kernel.space import projection
from recollect_server.kernel.space.events import Appended
from recollect_server.kernel.space.projection import Overlay, Projection
from recollect_server.people.routing import Place, mail_number
from recollect_server.people.routing_table import Routes, Routing
from recollect_server.run.features import FEATURES
from ulid import ULID

from tests.at_rest import INDEX
from tests.channels.conftest import ALEX, Post, home
from tests.conftest import RunningServer
from tests.server.conftest import agent, failure_of, transcript
from tests.waiting import until

Start = Callable[..., RunningServer]
Reach = Callable[[RunningServer], Post]


@pytest.fixture(autouse=True)
def _prune(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the index about everything that it has taken in."""
    monkeypatch.setattr(projection, "_PRUNE", 0)


class SlowIndex(Index):
    """An index to which something may happen while it is asked for Message-IDs."""

    meanwhile: Callable[[], object] | None = None


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowIndex]:
    mail = Routing.mail

    def slow(routing: Routing, names: Iterable[int], *, settled: bool) -> list[str]:
        conversations = mail(routing, names, settled=settled)
        if made.meanwhile:
            meanwhile, made.meanwhile = made.meanwhile, None
            meanwhile()
        return conversations

    monkeypatch.setattr(Routing, "mail", slow)
    made = SlowIndex(tmp_path, FEATURES.tables)
    yield made
    made.close()


@pytest.fixture
def routes(index: SlowIndex) -> Routes:
    """Return routes where every conversation exists and is pinned."""
    return routes_of(index)


def routes_of(index: Index) -> Routes:
    return Routes(lambda: index, Overlay(), lambda _: True, lambda _: True)


def threads(routes: Routes, *names: int) -> set[str]:
    """Return the conversations of e-mails with these ids."""
    return routes.threads(mail_number(f"{name}@mail") for name in names)


def say(index: Index, routes: Routes | None, *names: int) -> str:
    """Begin a conversation that names these ids, and index it."""
    conversation_id = put(index, routes, *names)
    index.settle()
    return conversation_id


def put(index: Index, routes: Routes | None, *names: int) -> str:
    """Begin a conversation that names these ids, which the index takes in later."""
    began = Began(f"conv-{ULID()}", "email", 1)
    messages = [
        Message(Role.USER, "", 1, line, 1, metadata={"email": {"message_id": f"{name}@mail"}})
        for line, name in enumerate(names, start=2)
    ]
    lines, _ = encoded([Entry(began), *map(Entry, messages)])
    after = fold(None, began)
    for message in messages:
        after = fold(after, message)
    assert after is not None
    index.add(None, None, after, lines, time=1, failed=pytest.fail)
    if routes:
        routes.learn(Appended(after.id, lines, after))
    return after.id


def test_a_fact_that_leaves_the_overlay_while_the_index_is_asked_is_not_lost(
    index: SlowIndex, routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = say(index, None, 7)
    go_on, take_in = Event(), Writer._take_in

    def late(writer: Writer, documents: list[Any]) -> None:
        go_on.wait()
        take_in(writer, documents)

    def meanwhile() -> None:
        go_on.set()
        index.settle()
        say(index, routes, 8)

    monkeypatch.setattr(Writer, "_take_in", late)
    second = put(index, routes, 7)
    index.meanwhile = meanwhile
    assert threads(routes, 7, 9) == {first, second}
    assert threads(routes, 7, 9) == {first, second}


def test_what_is_said_while_the_index_is_asked_is_not_lost(
    index: SlowIndex, routes: Routes
) -> None:
    names: list[str] = []
    index.meanwhile = lambda: names.append(say(index, routes, 7))
    threads(routes, 7)
    assert threads(routes, 7) == {*names}


def test_an_index_that_is_opened_again_knows_the_ids_it_has(tmp_path: Path) -> None:
    index = Index(tmp_path, FEATURES.tables)
    name = say(index, None, 7)
    index.close()
    index = Index(tmp_path, FEATURES.tables)
    assert threads(routes_of(index), 7) == {name}
    index.close()


def test_an_id_that_an_agent_says_leads_to_its_thread_also_where_it_was_looked_up(
    start_server: Start, reach: Reach
) -> None:
    post = reach(start_server())
    post.own("email", "alex@example.org")
    older = home(post.mail("The roof", "<a@mail>"))
    younger = home(post.mail("Which tiles?", "<b@mail>", "<sent@agent>"))
    assert older != younger
    post.listed()  # answered once the index has taken in everything
    sent = agent("Red ones.")
    sent.metadata.update({"email": {"message_id": "<sent@agent>"}})
    post.append(older, sent)
    post.listed()
    home(post.mail("Another", "<c@mail>"))
    assert home(post.mail("Red ones, then", "<d@mail>", "<sent@agent>")) == older
    assert home(post.mail("Which red?", "<e@mail>", "<b@mail>")) == older


def test_a_conversation_that_is_deleted_is_not_the_one_that_a_command_ends(
    start_server: Start, reach: Reach
) -> None:
    server = start_server()
    post = reach(server)
    for place in (ALEX, "+1 555-001"):
        post.own("whatsapp", place)
    unpinned = home(post.whatsapp("Before"))
    ended = home(post.whatsapp("/new"))
    post.listed()
    post.whatsapp("Hello", "+1 555-001")
    assert home(post.whatsapp("Still here")) == ended  # as the index says
    post.delete(ended)
    new = post.command(unpinned, "/new").conversation.id
    assert ended not in transcript(server, new).read_text()


def test_an_id_that_somebody_wrote_into_a_transcript_is_known_once_it_was_read(
    start_server: Start, reach: Reach
) -> None:
    server = start_server()
    post = reach(server)
    post.own("email", "alex@example.org")
    older = home(post.mail("The roof", "<a@mail>"))
    home(post.mail("Which tiles?", "<b@mail>", "<sent@agent>"))
    written = Message(
        Role.ASSISTANT,
        "Red ones.",
        timestamp=1,
        turn_number=1,
        metadata={"email": {"message_id": "sent@agent"}},
    )
    with transcript(server, older).open("ab") as file:
        file.write(encode(Entry(written)))
    assert failure_of(lambda: post.append(older, agent("Yes."))).reason == "STORAGE_UNAVAILABLE"
    assert post.get(older).message_count == 2
    assert home(post.mail("Red ones, then", "<d@mail>", "<sent@agent>")) == older


def test_what_an_index_said_that_was_lost_is_asked_of_the_next(
    start_server: Start, reach: Reach
) -> None:
    server = start_server()
    post = reach(server)
    post.own("email", "alex@example.org")
    first = home(post.mail("The roof", "<a@mail>"))
    server.stop()
    server = start_server()
    post = reach(server)
    connection = apsw.Connection(str(server.folder / INDEX))
    connection.set_busy_timeout(5000)
    connection.execute("DELETE FROM mail")
    connection.close()
    assert home(post.mail("Which tiles?", "<b@mail>", "<a@mail>")) != first  # as the index says
    (server.folder / INDEX).unlink()
    more = count()

    def goes_home() -> bool:
        try:
            return home(post.mail("Red ones?", f"<{next(more)}@mail>", "<a@mail>")) == first
        except grpc.RpcError as error:  # while the index is made anew
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                return False
            raise

    until(goes_home)


def test_a_new_index_is_asked_once_it_has_taken_in_all(
    monkeypatch: pytest.MonkeyPatch, start_server: Start, reach: Reach
) -> None:
    server = start_server()
    post = reach(server)
    post.own("whatsapp", ALEX)
    first = home(post.whatsapp("The roof"))
    server.stop()
    post = reach(start_server())  # which has nothing in mind
    go_on = Event()
    homes: list[str] = []
    replace, take_in = Projection.replace, Writer._take_in
    pinned, settle = Routing.pinned, Index.settle

    def now(projection: Projection, index: Index) -> None:
        replace(projection, index)
        Thread(target=lambda: homes.append(home(post.whatsapp("Red tiles")))).start()

    def late(writer: Writer, documents: list[Any]) -> None:
        go_on.wait()
        take_in(writer, documents)

    def counted_pinned(routing: Routing, place: Place, *, settled: bool) -> list[str]:
        conversation = pinned(routing, place, settled=settled)
        go_on.set()
        return conversation

    def settled(index: Index) -> None:
        go_on.set()
        settle(index)

    monkeypatch.setattr(Projection, "replace", now)
    monkeypatch.setattr(Writer, "_take_in", late)
    monkeypatch.setattr(Routing, "pinned", counted_pinned)
    monkeypatch.setattr(Index, "settle", settled)
    (server.folder / INDEX).unlink()
    until(lambda: homes)
    assert set(homes) == {first}
