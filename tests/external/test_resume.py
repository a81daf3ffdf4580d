"""Reconnection of a panel: it gets what it missed, once and in order, or a snapshot that says
so.
"""

from contextlib import closing
from functools import partial

import pytest
from recollect.v1 import conversation_service_pb2 as conversations
from recollect_server.run.jobs.of_space import UpdatePruner
from recollect_server.run.parts import upkeep

from tests.conftest import RunningServer, Start
from tests.external.conftest import Meet, Outside, Watch, assert_refused
from tests.server.conftest import Service, delete_index, failure_of, user
from tests.streaming.conftest import Subscriber
from tests.waiting import until


def test_a_panel_that_drops_sees_what_it_missed_once_and_in_order(
    outside: Outside, watch: Watch
) -> None:
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
    cursors = [
        it.cursor for it in [*one.updates, *again.updates] if it.WhichOneof("kind") != "heartbeat"
    ]
    assert len(set(cursors)) == len(cursors)


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


def test_a_cursor_of_another_index_begins_with_a_snapshot_that_says_so(
    start_server: Start, meet: Meet, watch: Watch
) -> None:
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
    start_server: Start, meet: Meet, watch: Watch
) -> None:
    """The transcripts are synced and the index is not: it may come back without its newest changes,
    which were told already.
    """
    running = start_server()
    meet(running).write("One", party="ann")
    early = watch(server=running).ready()
    running.stop()
    index = running.folder / "conversations.db"
    before = index.read_bytes()
    running = start_server()
    panel = watch(early.cursor, running).ready()
    meet(running).write("Two", party="bob", delivered="2")
    meet(running).write("Three", party="ann", delivered="3")
    panel.until_count(3)
    running.stop()
    (running.folder / "conversations.db.seal").unlink()  # a power failure leaves none
    index.write_bytes(before)

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


def test_a_panel_is_told_that_the_index_was_lost_under_the_server(
    outside: Outside, server: RunningServer, watch: Watch
) -> None:
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
    monkeypatch.setattr(upkeep, "UpdatePruner", partial(UpdatePruner, seconds=0.05))
    running = start_server(max_updates=3)
    outside = meet(running)
    panel = watch(server=running).ready()
    first = panel.cursor
    for number in range(10):
        outside.write(f"Message {number}")
        # a panel that falls behind by more than three begins again too
        panel.until_count(3 + number)
    late = [it.cursor for it in panel.updates if it.WhichOneof("kind") != "heartbeat"][-2]

    def begins_again() -> bool:
        again = watch(first, running).ready()
        return again.updates[0].reset

    until(begins_again)
    assert watch(late, running).ready().kinds() == ["message Message 9"]


def test_many_changes_of_conversations_cost_a_panel_that_missed_few_not_its_place(
    start_server: Start, meet: Meet, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "UpdatePruner", partial(UpdatePruner, seconds=0.05))
    running = start_server(max_updates=3)
    outside = meet(running)
    outside.write("One")
    panel = watch(server=running).ready()
    panel.close()
    outside.write("Two")
    service = Service(running.target)
    with closing(service.channel):
        name = service.conversation_of("Hello")
        one = Subscriber(running.target).ready()
        one.close()
        for number in range(5):
            service.append(name, user(f"Message {number}"))

    def is_pruned() -> bool:
        with closing(Subscriber(running.target, cursor=one.cursor).ready()) as again:
            return bool(again.updates[0].reset)

    until(is_pruned)
    again = watch(panel.cursor, running).ready()
    assert again.kinds() == ["message Two"]
    assert not again.updates[0].reset


@pytest.mark.parametrize("cursor", ["garbage", "x0123456789ab", "x0123456789ab-", "0123456789ab-1"])
def test_a_cursor_that_was_never_given_out_is_refused(watch: Watch, cursor: str) -> None:
    assert_refused(watch(cursor))


def test_a_cursor_of_the_conversations_is_refused_and_one_ahead_of_the_log_begins_again(
    outside: Outside, service: Service, server: RunningServer, watch: Watch
) -> None:
    mine = service.conversation_of("Hello")
    one = Subscriber(server.target).ready()
    one.close()
    panel = watch().ready()
    # then the log of each reaches so far that the other's cursor lies in it
    for text in ("One", "Two", "Three", "Four", "Five"):
        outside.write(text)
        service.append(mine, user("And on"))
    panel.until_count(7)
    assert_refused(watch(one.cursor))
    epoch, _, number = panel.cursor.partition("-")
    for ahead in (int(number) + 10, 1 << 63):
        again = watch(f"{epoch}-{ahead}").ready()
        assert (again.kinds(), again.updates[0].reset) == (["list"], True)
    other_way = conversations.StreamUpdatesRequest(cursor=panel.cursor)
    refused = failure_of(lambda: next(service.conversations.StreamUpdates(other_way)))
    assert refused.fields == ("cursor",)
