"""The stream of a panel: a snapshot, then everything in order."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from recollect.v1 import external_communication_service_pb2 as api
from recollect.v1.external_communication_service_pb2_grpc import ExternalCommunicationServiceStub
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.update import Update
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.lines import Line
from recollect_server.kernel.log.store import LogUnavailable
from recollect_server.kernel.stream.log import NewUpdates, Watcher
from recollect_server.people.communication_logs import CommunicationStore
from recollect_server.people.communication_service import External
from recollect_server.people.communication_stream import LiveCommunications

from tests.at_rest import Opened, opened
from tests.conftest import RunningServer, Start
from tests.external.conftest import BLOCKED, KNOWN, Meet, Outside, Watch
from tests.server.conftest import at_once
from tests.streaming.conftest import Subscriber
from tests.waiting import until


def test_a_panel_begins_with_the_newest_and_is_told_everything_in_order(
    outside: Outside, watch: Watch
) -> None:
    before = outside.write("Before", party="early").communication
    panel = watch().ready()
    first = panel.updates[0]
    assert [it.id for it in first.communication_list.communications] == [before.id]
    assert (first.reset, bool(first.cursor)) == (False, True)

    received = outside.write("Hello?")
    assert received.escalation is not None
    outside.resolve(received.escalation.id, "Say yes.")
    outside.reply(received.communication.id, "Yes.")
    outside.trust(received.communication.id, KNOWN, "billing")
    panel.until_count(6)
    assert panel.kinds()[:1] == ["list"]
    assert panel.kinds()[1] == "message Hello?"
    assert panel.kinds()[2].startswith("escalated")
    assert panel.kinds()[3:] == ["escalated Say yes.", "message Yes.", "changed"]
    last = panel.updates[-1]
    assert (
        last.communication_changed.communication
        == outside.get(received.communication.id).communication
    )
    assert {it.communication_id for it in panel.updates[1:]} == {received.communication.id}
    message = panel.updates[1].communication_message
    assert message.message == outside.messages(received.communication.id)[0]
    assert message.communication.id == received.communication.id


def test_a_panel_is_told_nothing_of_what_a_blocked_party_writes(
    outside: Outside, watch: Watch
) -> None:
    name = outside.write("Hello?").communication.id
    outside.trust(name, BLOCKED)
    panel = watch().ready()
    for _ in range(20):
        outside.write("Buy now!")
    outside.write("Good day", party="other")
    panel.until_count(3)
    assert panel.kinds() == ["list", "message Good day", "escalated"]
    assert outside.get(name).communication.message_count == 21


def test_to_block_a_party_tells_of_the_question_that_is_closed(
    outside: Outside, watch: Watch
) -> None:
    name = outside.write("Hello?").communication.id
    panel = watch().ready()
    outside.trust(name, BLOCKED)
    panel.until_count(3)
    assert panel.kinds() == ["list", "changed", "escalated"]
    closed = panel.updates[-1].communication_escalated.escalation
    assert (closed.answer, closed.HasField("resolve_time")) == ("", True)


def test_a_message_that_is_delivered_again_is_told_once(outside: Outside, watch: Watch) -> None:
    panel = watch().ready()
    for text in ("One", "One", "Two"):
        outside.write(text, delivered=text)
    panel.until_count(4)
    assert panel.kinds() == ["list", "message One", "escalated", "message Two"]


def test_every_panel_sees_the_same_while_many_write_at_once(outside: Outside, watch: Watch) -> None:
    panels = [watch().ready() for _ in range(3)]

    def write_ten(number: int) -> None:
        for place in range(10):
            outside.write(f"{number}/{place}", party=f"p{number}", delivered=f"{number}/{place}")

    at_once(8, write_ten)
    for panel in panels:
        panel.until_count(1 + 80 + 8)
    assert panels[0].kinds() == panels[1].kinds() == panels[2].kinds()
    expected = [
        kind.removeprefix("message ") for kind in panels[0].kinds() if kind.startswith("message ")
    ]
    assert sorted(expected) == sorted(
        f"{number}/{place}" for number in range(8) for place in range(10)
    )
    for number in range(8):
        assert [it for it in expected if it.startswith(f"{number}/")] == [
            f"{number}/{place}" for place in range(10)
        ]


def test_a_silent_panel_is_sent_its_cursor(start_server: Start, meet: Meet, watch: Watch) -> None:
    running = start_server(heartbeat="100ms")
    panel = watch(server=running).ready()
    panel.until(lambda: len(panel.updates) >= 3)
    beats = [it for it in panel.updates if it.WhichOneof("kind") == "heartbeat"]
    assert {it.cursor for it in beats} == {panel.updates[0].cursor}
    meet(running).write("One")
    panel.until_count(3)
    assert watch(panel.cursor, running).ready().kinds() == []


def test_panels_count_among_the_subscribers(start_server: Start, watch: Watch) -> None:
    running = start_server(max_subscribers=2)
    one = Subscriber(running.target).ready()
    panel = watch(server=running).ready()
    refused = watch(server=running)
    refused.until(lambda: refused.error)
    failed: Any = refused.error
    assert failed.code().name == "RESOURCE_EXHAUSTED"
    one.close()

    def is_taken() -> bool:
        another = watch(server=running)
        another.until(lambda: another.updates or another.error)
        return another.error is None

    until(is_taken)
    assert panel.error is None


def test_a_panel_that_stands_still_keeps_nobody_waiting(
    outside: Outside, server: RunningServer, watch: Watch
) -> None:
    """Unread updates stay in the log and out of the server's memory; other panels get theirs at
    once.
    """
    channel = grpc.insecure_channel(server.target, options=[("grpc.use_local_subchannel_pool", 1)])
    stub = ExternalCommunicationServiceStub(channel)
    still = stub.StreamCommunicationUpdates(api.StreamCommunicationUpdatesRequest())
    try:
        panel = watch().ready()
        for number in range(30):  # 15 MB, more than a connection takes unread
            outside.write("x" * 500_000, delivered=f"big-{number}")
        texts = [it for it in panel.until_count(1 + 30 + 1).kinds() if it.startswith("message ")]
        assert texts == [f"message {'x' * 500_000}"] * 30
        assert panel.error is None
    finally:
        still.cancel()
        channel.close()


def test_a_server_that_stops_ends_its_panels_and_says_so(start_server: Start, watch: Watch) -> None:
    running = start_server()
    panel = watch(server=running).ready()
    running.stop()
    panel.until(lambda: panel.error)
    failed: Any = panel.error
    assert failed.code().name == "UNAVAILABLE"
    assert "come back with the last cursor" in failed.details()


def test_a_panel_is_caught_up_by_bytes_too_so_that_large_messages_do_not_fill_the_memory(
    tmp_path: Path,
) -> None:
    """A watcher that missed 200 messages of a megabyte must not be read for all at once."""
    here = opened(tmp_path / "conversations", sync=False)
    external = External(CommunicationStore(here.space))
    changes = partial(here.index.log.changes, kind=Kind.COMMUNICATION, limit=200)
    for number in range(4):
        external.receive("email", "ann", f"mail-{number}", "x" * 1000, (), None)
    whole = changes(0, max_bytes=1 << 20)
    messages = {row.cursor for row in whole.rows if row.first != 3}  # that one asks the owner
    assert len(messages) == 4
    parts: list[list[int]] = []
    cursor = 0
    while rows := changes(cursor, max_bytes=2500).rows:
        parts.append([row.cursor for row in rows])
        cursor = rows[-1].cursor
    assert [at for part in parts for at in part] == [row.cursor for row in whole.rows]
    assert max(len(messages.intersection(part)) for part in parts) == 2
    # one that is larger alone is not held back
    assert changes(0, max_bytes=1).rows == whole.rows[:1]
    here.close()


class Reads:
    """The reads of transcripts, which fail for those in `lost`."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.lost: set[str] = set()

    def __call__(self, logs: FolderStore, log: str, *place: Any) -> Iterator[Line]:
        self.names.append(log)
        if log in self.lost:
            raise LogUnavailable(log, "read", "Input/output error")
        return self._read(logs, log, *place)

    _read = staticmethod(FolderStore.read)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    reads = Reads()
    monkeypatch.setattr(FolderStore, "read", lambda *given: reads(*given))
    return reads


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Opened]:
    here = opened(tmp_path / "conversations", sync=False)
    yield here
    here.close()


def live_of(here: Opened) -> LiveCommunications:
    def encode(update: Update) -> bytes:
        return f"{type(update.kind).__name__} {update.log}".encode()

    return LiveCommunications(CommunicationStore(here.space), encode)


def taken(panel: Watcher) -> list[str]:
    """Return everything that waits for a panel. Raises DataUnavailable."""
    updates: list[str] = []
    more = True
    while more:
        batch, more = panel.take(200)
        updates += [it.decode() for it in batch.updates]
    return updates


def advanced(live: LiveCommunications) -> NewUpdates:
    """Wait until the index has taken in what was written, and let panels read it."""
    new: list[NewUpdates] = []

    def has_more() -> bool:
        new.append(live.advance())
        return bool(new[-1].about)

    until(has_more)
    return new[-1]


def test_the_thread_of_all_streams_reads_no_transcript_whether_it_can_be_read_or_not(
    here: Opened, reads: Reads
) -> None:
    """A disk that answers late holds up the panels of a space, and no stream of another one."""
    external, live = External(CommunicationStore(here.space)), live_of(here)
    first = external.receive("email", "ann", "mail-1", "One", (), None)
    assert first is not None
    name = first.communication.id
    here.index.settle()
    panels = [live.subscribe("") for _ in range(3)]
    assert [taken(it) for it in panels] == [["Listed "]] * 3

    external.receive("email", "ann", "mail-2", "Two", (), None)
    reads.names.clear()
    new = advanced(live)
    assert reads.names == []
    assert (set(new.about), new.updates) == ({(name, "")}, 1)
    assert [taken(it) for it in panels] == [[f"Exchanged {name}"]] * 3
    assert reads.names.count(name) < 3  # who asks for the same is given the same

    # one that cannot be read keeps no changes in memory, and its panel waits
    panel = panels[0]
    external.receive("email", "ann", "mail-3", "Three", (), None)
    live._clear_states()  # as where there are many
    reads.lost.add(name)
    advanced(live)
    following: Any = live._following
    assert following._notices == []
    with pytest.raises(LogUnavailable):  # the panel waits, and the server says so
        taken(panel)

    later = live.subscribe("")
    assert taken(later) == ["Listed "]
    fourth = external.receive("email", "bob", "mail-4", "Four", (), None)
    assert fourth is not None
    other = fourth.communication.id
    advanced(live)
    assert taken(later) == [f"Exchanged {other}", f"Escalated {other}"]
    reads.lost.clear()
    assert taken(panel) == [f"Exchanged {name}", f"Exchanged {other}", f"Escalated {other}"]
