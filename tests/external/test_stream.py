"""The stream of a panel: a snapshot, then everything in order; and how it comes back."""

import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from recollect.v1 import conversation_service_pb2 as conversations
from recollect.v1 import external_communication_service_pb2 as api
from recollect.v1.external_communication_pb2 import CommunicationUpdate
from recollect.v1.external_communication_service_pb2_grpc import ExternalCommunicationServiceStub
from recollect_server import app
from recollect_server.jobs.update_pruner import UpdatePruner

from tests.conftest import RunningServer
from tests.external.conftest import BLOCKED, KNOWN, Meet, Outside
from tests.server.conftest import Service, at_once, delete_index, failure_of, user
from tests.streaming.conftest import DEADLINE, Subscriber
from tests.waiting import until

Start = Callable[..., RunningServer]


class Panel:
    """A panel with bare gRPC, which collects what it is told in a thread of its own."""

    def __init__(self, target: str, cursor: str = "") -> None:
        self.updates: list[CommunicationUpdate] = []
        self.error: grpc.RpcError | None = None
        self._changed = threading.Condition()
        self._channel = grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])
        stub = ExternalCommunicationServiceStub(self._channel)
        self._call = stub.StreamCommunicationUpdates(api.StreamCommunicationUpdatesRequest(cursor=cursor))
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for response in self._call:
                with self._changed:
                    self.updates.append(response.update)
                    self._changed.notify_all()
        except grpc.RpcError as error:
            with self._changed:
                self.error = error
                self._changed.notify_all()

    def until(self, condition: Callable[[], object]) -> "Panel":
        """Waits until it is so."""
        with self._changed:
            assert self._changed.wait_for(condition, DEADLINE), f"it never was so: {[self.kinds(), self.error]}"
        return self

    def ready(self) -> "Panel":
        """Waits for the snapshot, or for the end of what was missed."""
        return self.until(lambda: {"communication_list", "heartbeat"} & {str(it.WhichOneof("kind")) for it in self.updates})

    def until_count(self, count: int) -> "Panel":
        """Waits for so many updates besides heartbeats."""
        return self.until(lambda: len(self.kinds()) >= count)

    def kinds(self) -> list[str]:
        """What the updates are, in order, but for heartbeats; as `message Hello?`."""
        said = []
        for update in self.updates:
            kind = str(update.WhichOneof("kind"))
            if kind == "communication_message":
                said.append(f"message {update.communication_message.message.text}")
            elif kind == "communication_escalated":
                said.append(f"escalated {update.communication_escalated.escalation.answer}".strip())
            elif kind != "heartbeat":
                said.append(kind.removeprefix("communication_"))
        return said

    @property
    def cursor(self) -> str:
        """The last that it was told."""
        return self.updates[-1].cursor

    def close(self) -> None:
        self._call.cancel()
        self._thread.join(DEADLINE)
        self._channel.close()


Watch = Callable[..., Panel]


@pytest.fixture
def watch(request: pytest.FixtureRequest) -> Iterator[Watch]:
    """Opens panels: of `server`, or of another."""
    panels: list[Panel] = []

    def open_(cursor: str = "", server: RunningServer | None = None) -> Panel:
        running = server or request.getfixturevalue("server")
        panels.append(Panel(running.target, cursor))
        return panels[-1]

    yield open_
    for panel in panels:
        panel.close()


def test_a_panel_begins_with_the_newest_and_is_told_everything_in_order(outside: Outside, watch: Watch) -> None:
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
    assert last.communication_changed.communication == outside.get(received.communication.id).communication
    assert {it.communication_id for it in panel.updates[1:]} == {received.communication.id}
    message = panel.updates[1].communication_message
    assert message.message == outside.messages(received.communication.id)[0]
    assert message.communication.id == received.communication.id


def test_a_panel_is_told_nothing_of_what_a_blocked_party_writes(outside: Outside, watch: Watch) -> None:
    name = outside.write("Hello?").communication.id
    outside.trust(name, BLOCKED)
    panel = watch().ready()
    for _ in range(20):
        outside.write("Buy now!")
    outside.write("Good day", party="other")
    panel.until_count(3)
    assert panel.kinds() == ["list", "message Good day", "escalated"]
    assert outside.get(name).communication.message_count == 21


def test_to_block_a_party_tells_of_the_question_that_is_closed(outside: Outside, watch: Watch) -> None:
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


def test_a_panel_that_drops_sees_what_it_missed_once_and_in_order(outside: Outside, watch: Watch) -> None:
    whole, one = watch().ready(), watch().ready()
    outside.write("One", party="known")
    one.until_count(3)
    one.close()
    for number in range(450):  # more than are read at once
        outside.write(f"Missed {number}", party="known")
    again = watch(one.cursor).ready()
    outside.write("After", party="known")
    again.until_count(451)
    whole.until_count(454)
    assert one.kinds() + again.kinds() == whole.kinds()
    assert [it.reset for it in again.updates if it.reset] == []
    cursors = [it.cursor for it in [*one.updates, *again.updates] if it.WhichOneof("kind") != "heartbeat"]
    assert len(set(cursors)) == len(cursors)


def test_every_panel_sees_the_same_while_many_write_at_once(outside: Outside, watch: Watch) -> None:
    panels = [watch().ready() for _ in range(3)]

    def write_ten(number: int) -> None:
        for place in range(10):
            outside.write(f"{number}/{place}", party=f"p{number}", delivered=f"{number}/{place}")

    at_once(8, write_ten)
    for panel in panels:
        panel.until_count(1 + 80 + 8)
    assert panels[0].kinds() == panels[1].kinds() == panels[2].kinds()
    told = [kind.removeprefix("message ") for kind in panels[0].kinds() if kind.startswith("message ")]
    assert sorted(told) == sorted(f"{number}/{place}" for number in range(8) for place in range(10))
    for number in range(8):
        assert [it for it in told if it.startswith(f"{number}/")] == [f"{number}/{place}" for place in range(10)]


def test_a_cursor_goes_on_across_a_restart(start_server: Start, meet: Meet, watch: Watch) -> None:
    running = start_server()
    panel = watch(server=running).ready()
    outside = meet(running)
    outside.write("One")
    panel.until_count(3)
    outside.write("Two")
    running.stop()
    running = start_server()
    again = watch(panel.updates[2].cursor, running).ready()
    meet(running).write("Three", delivered="third")
    again.until_count(2)
    assert again.kinds() == ["message Two", "message Three"]


def test_a_cursor_of_another_index_begins_with_a_snapshot_that_says_so(start_server: Start, meet: Meet, watch: Watch) -> None:
    running = start_server()
    panel = watch(server=running).ready()
    meet(running).write("One")
    panel.until_count(3)
    running.stop()
    delete_index(running)
    running = start_server()
    again = watch(panel.cursor, running).ready()
    assert (again.kinds(), again.updates[0].reset) == (["list"], True)
    assert len(again.updates[0].communication_list.communications) == 1
    meet(running).write("Two", delivered="second")
    again.until_count(2)
    assert again.kinds() == ["list", "message Two"]


def test_what_a_power_failure_took_from_the_index_is_told_again_and_its_cursors_mean_nothing(
    start_server: Start, meet: Meet, watch: Watch, tmp_path: Path
) -> None:
    """The transcripts are synced and the index is not: it may come back without its newest changes, which were told already."""
    running = start_server()
    meet(running).write("One", party="ann")
    early = watch(server=running).ready()
    running.stop()
    shutil.copytree(running.folder, tmp_path / "as it was")
    running = start_server()
    panel = watch(early.cursor, running).ready()
    meet(running).write("Two", party="bob", delivered="2")
    meet(running).write("Three", party="ann", delivered="3")
    panel.until_count(3)
    running.stop()
    shutil.rmtree(running.folder)
    shutil.copytree(tmp_path / "as it was", running.folder)

    running = start_server()
    assert not running.app.recovered.rebuilt
    meet(running).write("Four", party="bob", delivered="4")
    again = watch(early.cursor, running).ready()
    again.until_count(4)
    assert sorted(again.kinds()[:3]) == sorted(panel.kinds())
    assert again.kinds()[3] == "message Four"
    for update in panel.updates:
        if update.WhichOneof("kind") != "heartbeat":
            late = watch(update.cursor, running).ready()
            assert (late.kinds(), late.updates[0].reset) == (["list"], True)


def test_a_panel_is_told_that_the_index_was_lost_under_the_server(outside: Outside, server: RunningServer, watch: Watch) -> None:
    outside.write("One")
    panel = watch().ready()
    for path in server.folder.glob("conversations.db*"):
        path.unlink()
    panel.until(lambda: len(panel.kinds()) >= 2)
    assert panel.kinds() == ["list", "list"]
    assert panel.updates[-1].reset
    outside.write("Two")
    panel.until_count(3)
    assert panel.kinds() == ["list", "list", "message Two"]


def test_a_cursor_that_the_log_no_longer_reaches_begins_again(
    start_server: Start, meet: Meet, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "UpdatePruner", partial(UpdatePruner, seconds=0.05))
    running = start_server(max_updates=3)
    outside = meet(running)
    panel = watch(server=running).ready()
    first = panel.cursor
    for number in range(10):
        outside.write(f"Message {number}")
    panel.until_count(12)
    late = panel.updates[-2].cursor

    def begins_again() -> bool:
        again = watch(first, running).ready()
        return again.updates[0].reset

    until(begins_again)
    assert watch(late, running).ready().kinds() == ["message Message 9"]


@pytest.mark.parametrize("cursor", ["garbage", "x0123456789ab", "x0123456789ab-", "0123456789ab-1"])
def test_a_cursor_that_was_never_given_out_is_refused(watch: Watch, cursor: str) -> None:
    assert_refused(watch(cursor))


def test_a_cursor_of_the_conversations_is_refused_and_so_is_one_from_the_future(
    outside: Outside, service: Service, server: RunningServer, watch: Watch
) -> None:
    mine = service.told("Hello")
    one = Subscriber(server.target).ready()
    one.close()
    panel = watch().ready()
    for text in ("One", "Two", "Three", "Four", "Five"):  # then the log of each reaches so far that the other's cursor lies in it
        outside.write(text)
        service.append(mine, user("And on"))
    panel.until_count(7)
    assert_refused(watch(one.cursor))
    epoch, _, number = panel.cursor.partition("-")
    for ahead in (int(number) + 1, 1 << 63):
        assert_refused(watch(f"{epoch}-{ahead}"))
    other_way = conversations.StreamUpdatesRequest(cursor=panel.cursor)
    refused = failure_of(lambda: list(service.conversations.StreamUpdates(other_way)))
    assert refused.fields == ("cursor",)


def assert_refused(panel: Panel) -> None:
    panel.until(lambda: panel.error)
    failed: Any = panel.error
    assert failed.code().name == "INVALID_ARGUMENT"
    assert "cursor" in failed.details()
    assert panel.updates == []


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


def test_a_panel_that_stands_still_keeps_nobody_waiting(outside: Outside, server: RunningServer, watch: Watch) -> None:
    """What it does not read stays in the log, not in the server's memory; the others are told at once."""
    channel = grpc.insecure_channel(server.target, options=[("grpc.use_local_subchannel_pool", 1)])
    stub = ExternalCommunicationServiceStub(channel)
    still = stub.StreamCommunicationUpdates(api.StreamCommunicationUpdatesRequest())
    try:
        panel = watch().ready()
        for number in range(30):  # 15 MB, more than a connection takes unread
            outside.write("x" * 500_000, delivered=f"big-{number}")
        panel.until_count(1 + 30 + 1)
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
