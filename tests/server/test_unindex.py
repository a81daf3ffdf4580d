"""Unindexing by rules of retention: searches leave the conversation out, its transcript stays, and
a message brings it back.
"""

import shutil
from datetime import timedelta

import apsw
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from recollect import Client
from recollect.v1.conversation_service_pb2 import RedactMessageRequest, StreamUpdatesRequest
from recollect.v1.recall_service_pb2 import BuildContextRequest
from recollect_server.kernel.domain.conversation import ConversationUnindexed
from recollect_server.kernel.domain.filters import SearchScope
from recollect_server.recall.search import Search
from recollect_server.retention.service import Retention
from recollect_server.run.settings.values import FOLDER

from tests import at_rest
from tests.conftest import MovableClock, RunningServer, Start
from tests.crash.load import process
from tests.server.conftest import Connect, Service, agent, delete_index, moment, user
from tests.waiting import until

DAY = timedelta(days=1) // timedelta(milliseconds=1)
RULE = "unindex channel=web idle=30d"
LONG = 2100  # messages: more than two parts, and enough text to be marked and merged away
WORD = "quixotriple"
TEXT = f"The {WORD} zebra sleeps in Kyoto"


def begun(service: Service, server: RunningServer, days: int, text: str = TEXT) -> str:
    """Begin a conversation with a title, whose messages are so many days old."""
    time = moment(server.clock.now - days * DAY)
    conversation_id = service.create("web", create_time=time).id
    service.append(conversation_id, user(text, timestamp=time), agent("Noted", timestamp=time))
    service.rename(conversation_id, "Marsupilami")
    return conversation_id


def long_one(service: Service, time: Timestamp) -> str:
    """Begin a conversation of `LONG` messages of a time."""
    conversation_id = service.create("web", create_time=time).id
    texts = [f"{WORD} number{at} pangolin{' and some more' * 8}" for at in range(LONG)]
    texts[0] = f"{WORD} number0 is what we begin with"  # the row of the conversation shows it
    for at in range(0, LONG, 300):
        messages = [user(text, timestamp=time) for text in texts[at : at + 300]]
        service.append(conversation_id, *messages)
    return conversation_id


def look_again(server: RunningServer) -> None:
    """Let the job of retention look at once."""
    server.app.spaces.open_now()[0].jobs["retention"].next_at = 0.0


def vectors(server: RunningServer) -> int:
    """Return the number of vectors in the file, which a thread makes once the model is loaded, and
    which has tables once something is embedded.
    """
    path = server.folder / "vectors.db"
    if not path.exists():
        return 0
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        if not connection.table_exists("main", "vectors_rowids"):
            return 0
        return int(connection.execute("SELECT count(*) FROM vectors_rowids").get)
    finally:
        connection.close()


def problems(server: RunningServer) -> list[str]:
    """Return what a verification finds; of PostgreSQL's transcripts, in a copy of them."""
    folder = server.folder
    if server.settings.store != FOLDER:
        from tests.postgres import copy_transcripts  # only where there is a PostgreSQL

        folder = server.data_dir / "copied"
        copy_transcripts(server.settings.store, folder)
        for path in server.folder.glob("*.db*"):
            shutil.copy(path, folder)
    return at_rest.problems(folder)


def test_an_idle_conversation_leaves_searches_and_a_message_brings_it_back(
    start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    server = start_server(retention_grace="0s", retention=RULE, embedder="onnx")
    service = connect(server)
    old = begun(service, server, 29)
    service.abbreviate(old, "They planned a journey to Kyoto")
    other = begun(service, server, 1, "Potatoes grow best in loose soil")
    stream = service.conversations.StreamUpdates(StreamUpdatesRequest(), timeout=60)
    next(iter(stream))
    until(lambda: vectors(server) == 4 and not service.search("zebra").degraded)
    for query in ("quixotriple", "Marsupilami", "Where does the striped animal nap?"):
        assert old in service.found(query), query
    clock.move(2 * DAY)
    look_again(server)
    until(lambda: service.get(old).unindexed)
    until(lambda: vectors(server) == 2)  # both said Noted
    for query in ("quixotriple", "Marsupilami", "Where does the striped animal nap?"):
        assert old not in service.found(query), query
    context = service.recall.BuildContext(
        BuildContextRequest(
            conversation_id=other, message="Where does the quixotriple zebra sleep?"
        )
    )
    assert "Kyoto" not in str(context)
    assert TEXT in str(service.load(old))
    assert {it.id for it in service.listed().conversations} == {old, other}
    updates = (it for one in stream for it in (one.update, *one.following))
    assert (
        next(it.conversation_id for it in updates if it.conversation_updated.conversation.unindexed)
        == old
    )
    with Client(server.target) as client:
        (receipt,) = client.admin.list_retention_receipts()
        assert (receipt.conversation.conversation_id, receipt.conversation.rule) == (old, RULE)
        (rule,) = client.admin.list_retention_rules().rules
        assert (rule.unindexes, rule.idle_seconds) == (True, 30 * 86_400)
        assert client.conversations.get(old).unindexed
        # Nothing of it waits for a vector.
        jobs = {job.name: job.due for job in client.admin.list_jobs()}
        assert jobs["embedding"] == 0
    service.append(old, user("It woke up", timestamp=moment(clock.now)))
    assert not service.get(old).unindexed
    assert old in service.found("Marsupilami")
    look_again(server)
    until(lambda: old in service.found("quixotriple"))
    until(lambda: vectors(server) == 5)
    server.stop()
    assert problems(server) == []


def test_rules_by_count_and_bytes_unindex_those_that_are_idle_for_longest(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(retention_grace="0s", retention="unindex channel=web conversations=2")
    service = connect(server)
    made = [begun(service, server, days, f"{WORD} {days}") for days in (9, 8, 7, 6)]
    pinned = service.create("cli", pinned=True).id
    look_again(server)
    until(lambda: all(service.get(name).unindexed for name in made[:2]))
    assert set(service.found(WORD)) == set(made[2:])
    with Client(server.target) as client:
        first = list(client.admin.list_retention_receipts())[-1].conversation
        assert (first.conversation_id, first.rule) == (
            made[0],
            "unindex channel=web conversations=2",
        )
        assert first.reason.startswith("4 conversations are indexed, and 2 may be;")
        # What is unindexed counts no more.
        assert client.admin.preview_retention().conversations == ()
        size = client.admin.preview_retention(retention="unindex conversations=1").conversations
        assert [it.conversation_id for it in size] == made[2:]
        bound = f"unindex channel=web bytes={size[1].bytes}"
        (planned,) = client.admin.preview_retention(retention=bound).conversations
        assert planned.conversation_id == made[2]
        assert "bytes are indexed, and" in planned.reason
        deleted = client.admin.preview_retention(retention="delete conversations=4").conversations
        assert [it.conversation_id for it in deleted] == made[:1]  # for all count there
    assert not service.get(pinned).unindexed


@pytest.mark.files
def test_a_new_index_leaves_it_out_and_is_verified(start_server: Start, connect: Connect) -> None:
    server = start_server(retention_grace="0s", retention=RULE)
    service = connect(server)
    old = begun(service, server, 40)
    until(lambda: service.get(old).unindexed)
    server.stop()
    assert problems(server) == []
    delete_index(server)
    with process(server.data_dir, "unindex.part") as anew:
        assert anew.target  # it made the index without the words, and had none to take out
    delete_index(server)
    again = start_server(data_dir=server.data_dir, embedder="onnx")  # without the rule
    service = connect(again)
    other = service.conversation_of("Potatoes")
    until(lambda: vectors(again) and not service.search("Potatoes").degraded)
    assert service.get(old).unindexed
    for query in ("quixotriple", "Marsupilami"):
        assert old not in service.found(query), query
    assert vectors(again) == 1
    service.delete(other)
    again.stop()
    assert problems(again) == []
    with apsw.Connection(str(again.folder / "conversations.db")) as connection:
        words = "SELECT count(*) FROM turns_vocabulary"
        assert connection.execute(words).get == 0
        assert connection.execute("SELECT count(*) FROM notes_words").get == 0
        assert connection.execute("SELECT count(*) FROM messages").get == 2


def test_long_ones_are_redacted_deleted_and_brought_back_without_their_words(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(retention_grace="0s", retention=RULE)
    service = connect(server)
    time = moment(server.clock.now - 40 * DAY)
    names = [service.create("web", create_time=time).id for _ in range(3)]
    for name in names:
        for part in range(3):
            service.append(
                name,
                *(user(f"quixotriple {part} {at} " * 40, timestamp=time) for at in range(60)),
            )
    look_again(server)
    until(lambda: all(service.get(name).unindexed for name in names))
    service.conversations.RedactMessage(RedactMessageRequest(conversation_id=names[0], sequence=2))
    assert service.get(names[0]).unindexed
    service.delete(names[1])
    for name in (names[0], names[2]):
        service.append(name, user("Back again", timestamp=moment(server.clock.now)))
    look_again(server)
    until(lambda: set(service.found("quixotriple")) == {names[0], names[2]})
    retention = server.app.spaces.open_now()[0].service(Retention)
    until(lambda: not retention.settle())
    server.stop()
    assert problems(server) == []


def test_one_that_is_recorded_as_unindexed_is_left_out_before_its_words_are_gone(
    start_server: Start, connect: Connect
) -> None:
    server = start_server()
    service = connect(server)
    old = begun(service, server, 40)
    opened = server.app.spaces.open_now()[0]
    index = opened._space.index
    opened._space.record(
        old, lambda _: [ConversationUnindexed(server.clock.now)]
    )  # as if the index refused the rest
    assert service.get(old).unindexed
    assert service.found(WORD) == []
    assert not len(Search(index).said_in(SearchScope(start=0, end=server.clock.now + 1), 10))
    assert index.removal.unsettled() == [old]
    assert opened.service(Retention).settle()
    assert not opened.service(Retention).settle()
    server.stop()
    assert problems(server) == []


def test_of_a_long_one_no_word_stays_in_the_index_and_every_line_comes_back(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(retention_grace="0s", retention=RULE)
    service = connect(server)
    name = long_one(service, moment(server.clock.now - 40 * DAY))
    look_again(server)
    until(lambda: service.get(name).unindexed)
    server.stop()
    assert problems(server) == []
    # Segments of FTS5 are in the file: a mark alone would leave the words there.
    assert b"angolin" not in (server.folder / "conversations.db").read_bytes()
    again = start_server(data_dir=server.data_dir)
    service = connect(again)
    service.append(name, user("Back again", timestamp=moment(again.clock.now)))
    retention = again.app.spaces.open_now()[0].service(Retention)
    until(lambda: not retention.settle())
    for place in (0, LONG // 2, LONG - 1):
        assert service.found(f"number{place}") == [name], place
    again.stop()
    assert problems(again) == []
    assert b"angolin" in (again.folder / "conversations.db").read_bytes()


def test_a_message_that_comes_between_two_parts_is_kept_and_brings_the_words_back(
    start_server: Start, connect: Connect
) -> None:
    server = start_server()
    service = connect(server)
    name = long_one(service, moment(server.clock.now - 40 * DAY))
    opened = server.app.spaces.open_now()[0]
    index, unindexing = opened._space.index, opened._space.unindexing
    opened._space.record(name, lambda _: [ConversationUnindexed(server.clock.now)])
    assert unindexing._settle_part(index, name)
    stored = index.conversations.find(name)
    assert stored is not None
    taken_out = index.removal.wordless_line(stored.number)
    assert 0 < taken_out < LONG // 2  # it holds the lock for no more than this
    service.append(name, user("The ocelot is here", timestamp=moment(server.clock.now)))
    assert service.found("ocelot") == [name]
    unindexing._settle(name)
    for query in ("number0", f"number{LONG - 1}", "ocelot"):
        assert service.found(query) == [name], query
    assert index.removal.unsettled() == []
    server.stop()
    assert problems(server) == []
