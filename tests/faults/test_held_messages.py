"""An append that its transcript refuses: tried again once, then held, and written once: before the
next one, or by the job that tries it again.
"""

import errno
import json
import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from unittest.mock import Mock

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub
from recollect import Client, Message, Unavailable
from recollect.v1.conversation_service_pb2 import RedactMessageRequest
from recollect.v1.message_pb2 import ToolCall
from recollect_server.kernel.domain.errors import IndexUnavailable, TooManySpaces
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.space.projection import Overlay
from recollect_server.kernel.space.states import PendingWrites
from recollect_server.run.jobs.of_space import IndexKeeper
from recollect_server.run.space import OpenSpace
from structlog.testing import capture_logs

from tests.at_rest import lines_of
from tests.conftest import RunningServer, Start
from tests.faults.conftest import Disk
from tests.server.conftest import (
    Connect,
    Service,
    agent,
    at_once,
    code_of,
    failure_of,
    tool,
    transcript,
    user,
)
from tests.spaces.conftest import Enter, enter
from tests.spaces.test_watched import close
from tests.waiting import until

__all__ = ["enter"]

REFUSALS = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS]
TAKEN = [0, 100]
CLEANING = [(), ("ftruncate", "rename"), ("ftruncate", "open"), ("ftruncate", "fsync")]


def said(service: Service, conversation_id: str) -> list[tuple[int, int, str]]:
    return [(m.sequence, m.turn_number, m.content) for m in service.load(conversation_id).messages]


def lost_of(logged: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [line for line in logged if line["event"] == "held_messages_lost"]


def hold(
    service: Service, server: RunningServer, disk: Disk, error: int = errno.EIO
) -> tuple[str, OpenSpace]:
    """Have a conversation's message held. Return the conversation, and its space."""
    name = service.conversation_of("one")
    disk.refuse("pwrite", "rename", error=error)
    assert code_of(partial(service.append, name, user("two"))) == "UNAVAILABLE"
    (space,) = server.app.spaces.open_now()
    return name, space


def is_whole(server: RunningServer, conversation_id: str) -> bool:
    lines = lines_of(transcript(server, conversation_id))
    return (
        all(line.entry is not None for line in lines)
        and lines[-1].end == transcript(server, conversation_id).stat().st_size
    )


@pytest.mark.parametrize("error", REFUSALS)
@pytest.mark.parametrize("taken", TAKEN)
def test_a_write_that_fails_once_is_tried_again_and_acknowledged(
    service: Service, server: RunningServer, disk: Disk, error: int, taken: int
) -> None:
    conversation_id = service.conversation_of("one")
    disk.refuse("pwrite", error=error, times=1, after_bytes=taken)
    stored = service.append(conversation_id, user("two"), agent("zebra"), request_id="r1")
    assert (disk.tried, stored.duplicate, stored.turn_number) == (["pwrite"], False, 2)
    assert said(service, conversation_id) == [(2, 1, "one"), (3, 2, "two"), (4, 2, "zebra")]
    assert is_whole(server, conversation_id)


@pytest.mark.parametrize("error", [errno.EIO, errno.EROFS])
def test_a_file_whose_sync_may_have_failed_is_written_to_no_more(
    service: Service, server: RunningServer, disk: Disk, error: int
) -> None:
    conversation_id = service.conversation_of("one")
    before = transcript(server, conversation_id).stat().st_ino
    disk.refuse("pwrite", error=error, times=1)
    service.append(conversation_id, user("two"))
    assert transcript(server, conversation_id).stat().st_ino != before
    assert not list(server.folder.glob("*.copy"))


@pytest.mark.parametrize("cleaning", CLEANING)
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("taken", TAKEN)
def test_refused_messages_are_held_and_written_before_the_next_append(
    service: Service,
    server: RunningServer,
    disk: Disk,
    error: int,
    taken: int,
    cleaning: tuple[str, ...],
) -> None:
    conversation_id = service.conversation_of("one")
    disk.refuse("pwrite", *cleaning, error=error, after_bytes=taken)
    refused = failure_of(
        lambda: service.append(conversation_id, user("two"), agent("zebra"), request_id="r1")
    )
    assert (refused.code, refused.reason, refused.retry_ms) == (
        "UNAVAILABLE",
        "STORAGE_UNAVAILABLE",
        1000,
    )
    assert "repeat with the same request_id" in refused.text
    assert said(service, conversation_id) == [(2, 1, "one")]  # what the transcript has
    assert service.get(conversation_id).message_count == 1
    assert service.found("zebra") == []
    disk.restore()
    assert service.append(conversation_id, user("three")).turn_number == 3
    assert said(service, conversation_id) == [
        (2, 1, "one"),
        (3, 2, "two"),
        (4, 2, "zebra"),
        (5, 3, "three"),
    ]
    assert service.found("zebra") == [conversation_id]
    assert is_whole(server, conversation_id)


def test_a_late_result_that_is_held_stays_in_its_turn(service: Service, disk: Disk) -> None:
    conversation_id = service.create().id
    service.append(
        conversation_id,
        user("one"),
        agent("", tool_calls=[ToolCall(id="c1", name="a"), ToolCall(id="c2", name="a")]),
    )
    service.append(conversation_id, user("two"))
    disk.refuse("pwrite", "rename")
    held = [
        (tool("c1", "first"), agent("2")),
        (user("three"), tool("c2", "second")),
        (tool("c1", "again"),),
    ]
    codes = [code_of(lambda batch=batch: service.append(conversation_id, *batch)) for batch in held]  # type: ignore[misc]
    # the last one: what is held answers that call
    assert codes == ["UNAVAILABLE", "UNAVAILABLE", "INVALID_ARGUMENT"]
    disk.restore()
    service.append(conversation_id, agent("3"))
    expected = [
        (2, 1, "one"),
        (3, 1, ""),
        (5, 1, "first"),
        (8, 1, "second"),
        (4, 2, "two"),
        (6, 2, "2"),
        (7, 3, "three"),
        (9, 3, "3"),
    ]
    assert said(service, conversation_id) == expected


def test_a_repeat_of_a_held_request_is_answered_once_it_is_written(
    service: Service, server: RunningServer, disk: Disk
) -> None:
    conversation_id = service.conversation_of("one")
    disk.refuse("pwrite", "rename")
    for _ in range(3):
        assert (
            code_of(lambda: service.append(conversation_id, user("two"), request_id="r1"))
            == "UNAVAILABLE"
        )
    assert (
        failure_of(lambda: service.append(conversation_id, user("other"), request_id="r1")).code
        == "ALREADY_EXISTS"
    )
    disk.restore()
    answered = service.append(conversation_id, user("two"), request_id="r1")
    assert [(m.sequence, m.turn_number, m.content) for m in answered.messages] == [(3, 2, "two")]
    assert service.append(conversation_id, user("two"), request_id="r1").duplicate
    assert said(service, conversation_id) == [(2, 1, "one"), (3, 2, "two")]


def test_what_is_held_keeps_the_order_of_the_appends_and_their_tool_calls(
    service: Service, disk: Disk
) -> None:
    conversation_id = service.conversation_of("one")
    call = ToolCall(id="c", name="look", arguments="{}")
    disk.refuse("pwrite")
    assert (
        code_of(
            lambda: service.append(
                conversation_id, user("two"), agent("", tool_calls=[call]), request_id="a"
            )
        )
        == "UNAVAILABLE"
    )
    assert (
        code_of(lambda: service.append(conversation_id, tool("unknown"), request_id="b"))
        == "INVALID_ARGUMENT"
    )
    assert (
        code_of(lambda: service.append(conversation_id, tool("c", "seen"), request_id="c"))
        == "UNAVAILABLE"
    )
    assert (
        code_of(lambda: service.append(conversation_id, user("x"), expected_turn=1))
        == "UNAVAILABLE"
    )
    assert code_of(lambda: service.rename(conversation_id, "Title")) == "UNAVAILABLE"
    disk.restore()
    assert service.rename(conversation_id, "Later").title == "Later"
    assert said(service, conversation_id) == [
        (2, 1, "one"),
        (3, 2, "two"),
        (4, 2, ""),
        (5, 2, "seen"),
    ]
    assert service.append(conversation_id, user("three"), expected_turn=2).turn_number == 3


@pytest.mark.parametrize("repaired", [True, False])
def test_a_stop_tries_once_more_and_a_restart_stores_a_repeat_once(
    service: Service,
    server: RunningServer,
    disk: Disk,
    start_server: Start,
    connect: Connect,
    repaired: bool,
) -> None:
    conversation_id = service.conversation_of("one")
    disk.refuse("pwrite", "rename", after_bytes=60)
    assert (
        code_of(lambda: service.append(conversation_id, user("two"), request_id="r1"))
        == "UNAVAILABLE"
    )
    if repaired:
        disk.restore()
    server.stop()
    disk.restore()
    again = connect(start_server())
    assert len(said(again, conversation_id)) == 1 + repaired
    assert again.append(conversation_id, user("two"), request_id="r1").duplicate == repaired
    assert said(again, conversation_id) == [(2, 1, "one"), (3, 2, "two")]


@pytest.mark.parametrize("is_gone", [False, True], ids=["refused", "gone"])
def test_a_stop_reports_once_how_many_messages_of_a_conversation_are_lost(
    service: Service, server: RunningServer, disk: Disk, is_gone: bool
) -> None:
    conversation_id = service.conversation_of("one")
    disk.refuse("pwrite", "rename")
    for request_id, batch in (("r1", [user("two"), agent("2")]), ("r2", [user("three")])):
        refused = failure_of(
            partial(service.append, conversation_id, *batch, request_id=request_id)
        )
        assert refused.code == "UNAVAILABLE"
    if is_gone:
        disk.restore()
        transcript(server, conversation_id).unlink()
    with capture_logs() as logged:
        server.stop()
    reason = "is gone" if is_gone else "cannot be written: Input/output error"
    assert lost_of(logged) == [
        {
            "event": "held_messages_lost",
            "log_level": "error",
            "conversation": conversation_id,
            "messages": 3,
            "reason": f"the transcript {reason}",
        }
    ]


def test_a_full_disk_is_named_with_its_free_bytes_wherever_somebody_looks(
    service: Service, server: RunningServer, disk: Disk
) -> None:
    conversation_id = service.conversation_of("one")
    disk.refuse("pwrite", error=errno.ENOSPC)
    full = re.compile(r"No space left on device \(\d+ bytes are free\)")
    for request_id in ("r1", "r2"):  # the second is refused for the first
        failure = failure_of(
            partial(service.append, conversation_id, user("two"), request_id=request_id)
        )
        assert full.search(failure.text), failure.text
        assert full.fullmatch(failure.metadata["held_because"])
    unknown = failure_of(partial(service.append, conversation_id, user("x"), expected_turn=9))
    redaction = RedactMessageRequest(conversation_id=conversation_id, sequence=2)
    redacted = failure_of(partial(service.conversations.RedactMessage, redaction))
    for failure in (unknown, redacted):
        assert full.search(failure.text), failure.text
    with Client(server.target, retry=None) as client:
        stats = client.admin.get_stats().space
        assert stats.held_messages == 2
        assert full.fullmatch(stats.held_because)
        with pytest.raises(Unavailable) as repeated:
            client.conversations.append_turn(
                conversation_id, [Message.user("two")], request_id="r1"
            )
        assert full.search(str(repeated.value))
    with grpc.insecure_channel(server.target) as channel:
        health: Any = HealthStub(channel)
        _, call = health.Check.with_call(HealthCheckRequest())
    degraded = dict(call.trailing_metadata())["recollect-degraded"]
    assert full.search(str(degraded)), degraded
    disk.refused.clear()
    service.append(conversation_id, user("three"))
    with Client(server.target) as client:
        stats = client.admin.get_stats().space
    assert (stats.held_messages, stats.held_because) == (0, "")


def test_beyond_the_bound_nothing_is_held_and_the_caller_is_told(
    service: Service, server: RunningServer, disk: Disk
) -> None:
    ids = [service.conversation_of("one") for _ in range(3)]
    disk.refuse("pwrite")
    batch = [user("x" * 800_000) for _ in range(9)]
    texts = [
        failure_of(lambda i=i, n=n: service.append(i, *batch, request_id=f"{i}-{n}")).text  # type: ignore[misc]
        for i in ids
        for n in range(4)
    ]
    assert ["are held" in text for text in texts] == [True] * 9 + [False] * 3
    assert "no more messages can be held" in texts[-1]
    disk.restore()
    for conversation_id, stored in zip(ids, (36, 36, 9), strict=True):
        service.append(conversation_id, user("last"))
        assert service.get(conversation_id).message_count == stored + 2
    for n in range(1, 4):
        assert not service.append(ids[2], *batch, request_id=f"{ids[2]}-{n}").duplicate


def test_holding_counts_what_it_has_and_forgets_what_is_gone(service: Service, disk: Disk) -> None:
    assert (PendingWrites(Overlay()).messages, PendingWrites(Overlay()).bytes) == (0, 0)
    conversation_id = service.conversation_of("one")
    disk.refuse("pwrite")
    assert (
        code_of(lambda: service.append(conversation_id, user("two"), request_id="r1"))
        == "UNAVAILABLE"
    )
    disk.restore()
    service.delete(conversation_id)
    assert (
        code_of(lambda: service.append(conversation_id, user("two"), request_id="r1"))
        == "NOT_FOUND"
    )
    other = service.conversation_of("other")
    assert service.append(other, user("two"), request_id="r1").turn_number == 2


def test_held_messages_of_many_callers_are_all_written_once_and_in_order(
    service: Service, server: RunningServer, disk: Disk
) -> None:
    ids = [service.conversation_of("one") for _ in range(8)]
    disk.refuse("pwrite", after_bytes=10)

    def append(number: int) -> str:
        name, turn = number % 8, number // 8
        return code_of(
            lambda: service.append(ids[name], user(f"{name} {turn}"), request_id=f"{name}-{turn}")
        )

    for turn in range(4):
        assert (
            at_once(8, lambda number, first=8 * turn: append(first + number)) == ["UNAVAILABLE"] * 8  # type: ignore[misc]
        )
    disk.restore()
    assert (
        at_once(8, lambda n: service.append(ids[n], user(f"{n} 3"), request_id=f"{n}-3").duplicate)
        == [True] * 8
    )
    for number, conversation_id in enumerate(ids):
        assert [text for _, _, text in said(service, conversation_id)] == [
            "one",
            *(f"{number} {turn}" for turn in range(4)),
        ]


def test_a_transcript_that_something_else_changed_still_gets_what_is_held(
    service: Service, server: RunningServer, disk: Disk
) -> None:
    conversation_id = service.conversation_of("one", "two")
    path = transcript(server, conversation_id)
    disk.refuse("pwrite", error=errno.ENOSPC)
    assert (
        code_of(lambda: service.append(conversation_id, user("three"), request_id="r1"))
        == "UNAVAILABLE"
    )
    disk.restore()
    by_hand = (
        b'{"type":"turn","role":"user","content":"by hand","timestamp":"2026-09-21T14:13:20Z"}'
    )
    path.write_bytes(path.read_bytes() + by_hand + b"\n")
    service.append(conversation_id, user("four"), request_id="r2")
    assert [text for _, _, text in said(service, conversation_id)] == [
        "one",
        "two",
        "by hand",
        "three",
        "four",
    ]
    assert is_whole(server, conversation_id)


def test_a_create_that_fails_once_is_tried_again_and_one_that_fails_twice_leaves_nothing(
    service: Service, server: RunningServer, disk: Disk
) -> None:
    disk.refuse("pwrite", times=1)
    assert service.create(request_id="r1").id
    disk.refuse("pwrite")
    assert code_of(lambda: service.create(request_id="r2")) == "UNAVAILABLE"
    disk.restore()
    assert len(list(server.folder.glob("*.jsonl"))) == 1
    assert service.create(request_id="r2").id == service.create(request_id="r2").id


def contents_of(server: RunningServer, space: str) -> list[str]:
    """Return what the files of a space's conversations say, read without the server."""
    contents: list[str] = []
    for path in sorted((server.data_dir / space / "conversations").glob("conv-*.jsonl")):
        contents += [
            json.loads(line)["content"]
            for line in path.read_text().splitlines()
            if '"content"' in line
        ]
    return contents


def test_held_messages_are_written_without_another_call_once_the_disk_takes_them(
    service: Service, server: RunningServer, disk: Disk
) -> None:
    names = [service.conversation_of("one"), service.conversation_of("one")]
    disk.refuse("pwrite", "rename")
    with capture_logs() as logged:
        for number, name in enumerate(names):
            refused = code_of(partial(service.append, name, user("two"), request_id=f"r{number}"))
            assert refused == "UNAVAILABLE"
        tried = len(disk.tried)
        until(lambda: len(disk.tried) > tried)  # by the job: nobody calls
        disk.restore()
        until(lambda: contents_of(server, "default") == ["one", "two"] * 2)
    events = [line["event"] for line in logged]
    assert events.count("held_messages_written") == 2
    assert "held_messages_refused" not in events  # with the reason that "messages_held" gave
    for number, name in enumerate(names):
        assert service.append(name, user("two"), request_id=f"r{number}").duplicate
        assert said(service, name) == [(2, 1, "one"), (3, 2, "two")]
    with Client(server.target, retry=None) as client:
        assert client.admin.get_stats().space.held_messages == 0


def test_a_space_that_holds_messages_keeps_its_place_and_its_files_while_others_come_and_go(
    start_server: Start, enter: Enter, disk: Disk
) -> None:
    server = start_server(max_open_spaces=2)
    others = [enter(server.target, f"other-{number}") for number in range(3)]
    names = [it.conversation_of("words") for it in others]
    holding = enter(server.target, "holding")
    name = holding.conversation_of("one")
    disk.refuse("pwrite", "rename")
    assert code_of(lambda: holding.append(name, user("two"), request_id="r")) == "UNAVAILABLE"
    spaces = server.app.spaces
    for service, of in zip(others * 2, names * 2, strict=True):
        assert service.get(of).message_count == 1
        spaces.rest("holding")
        assert "holding" in {it.name for it in spaces.open_now()}
    assert holding.get(name).message_count == 1
    disk.restore()
    until(lambda: contents_of(server, "holding") == ["one", "two"])
    for service, of in zip(others, names, strict=True):
        assert service.get(of).message_count == 1
    assert "holding" not in spaces.names()  # it has nothing to lose any more


def test_a_call_takes_the_place_of_a_space_that_holds_messages_only_as_the_last_one(
    start_server: Start, enter: Enter, disk: Disk
) -> None:
    server = start_server(max_open_spaces=1)
    other, holding = enter(server.target, "other"), enter(server.target, "holding")
    of, name = other.conversation_of("words"), holding.conversation_of("one")
    disk.refuse("pwrite", "rename")
    assert code_of(lambda: holding.append(name, user("two"), request_id="r")) == "UNAVAILABLE"
    with pytest.raises(TooManySpaces):  # background work does not
        server.app.spaces.use_behind("other")
    with capture_logs() as logged:
        assert other.get(of).message_count == 1
    assert [(it["conversation"], it["messages"]) for it in lost_of(logged)] == [(name, 1)]
    disk.restore()
    assert not holding.append(name, user("two"), request_id="r").duplicate
    assert said(holding, name) == [(2, 1, "one"), (3, 2, "two")]


def rests(server: RunningServer, space: str) -> bool:
    """Let a space rest, and return whether it does."""
    server.app.spaces.rest(space)
    return space not in {it.name for it in server.app.spaces.open_now()}


def test_messages_that_a_space_at_rest_holds_are_seen_and_written_without_another_call(
    server: RunningServer, enter: Enter, disk: Disk
) -> None:
    holding = enter(server.target, "holding")
    name = holding.conversation_of("one")
    until(lambda: rests(server, "holding"))
    disk.refuse("pwrite", "rename")
    assert code_of(lambda: holding.append(name, user("two"), request_id="r")) == "UNAVAILABLE"
    assert sum(it.held()[0] for it in server.app.spaces.open_now()) == 1  # what operators see
    disk.restore()
    until(lambda: contents_of(server, "holding") == ["one", "two"])


def test_a_space_whose_title_was_refused_rests_and_is_not_closed(
    server: RunningServer, enter: Enter, disk: Disk
) -> None:
    service = enter(server.target, "named")
    name = service.conversation_of("one")
    disk.refuse("pwrite", "rename")
    assert code_of(partial(service.rename, name, "Title", request_id="r")) == "UNAVAILABLE"
    disk.restore()
    until(lambda: rests(server, "named"))
    assert "named" in server.app.spaces.names()
    assert service.rename(name, "Title", request_id="r").title == "Title"


def test_a_conversation_whose_title_was_refused_is_redacted_once_the_disk_accepts_it(
    server: RunningServer, enter: Enter, disk: Disk
) -> None:
    service = enter(server.target, "named")
    name = service.conversation_of("my secret is plum", "ok")
    disk.refuse("pwrite", "rename")
    assert code_of(partial(service.rename, name, "Title", request_id="r")) == "UNAVAILABLE"
    disk.restore()
    sequence = service.load(name).messages[0].sequence
    service.conversations.RedactMessage(
        RedactMessageRequest(conversation_id=name, sequence=sequence)
    )
    assert service.load(name).messages[0].content != "my secret is plum"
    service.append(name, user("and then?"), request_id="a")
    assert [it.content for it in service.load(name).messages][1:] == ["ok", "and then?"]


def test_a_space_at_rest_that_cannot_be_woken_keeps_what_it_holds(
    server: RunningServer, enter: Enter, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding = enter(server.target, "holding")
    name = holding.conversation_of("one")
    until(lambda: rests(server, "holding"))
    disk.refuse("pwrite", "rename")
    with monkeypatch.context() as full, capture_logs() as logged:
        refusal = IndexUnavailable("the disk is full")
        full.setattr(Index, "wake", Mock(side_effect=refusal))
        for call in (
            partial(holding.append, name, user("two"), request_id="r"),
            partial(holding.get, name),
        ):
            assert code_of(call) == "UNAVAILABLE"
    assert not lost_of(logged)
    disk.restore()
    assert holding.get(name).message_count == 1  # which wakes it
    until(lambda: contents_of(server, "holding") == ["one", "two"])


def test_messages_that_stay_refused_do_not_slow_the_repair_of_the_index(
    service: Service, server: RunningServer, disk: Disk
) -> None:
    _, space = hold(service, server, disk)
    keeper = IndexKeeper(space._space, lambda: False)
    assert max(keeper.turn(threading.Event()) for _ in range(6)) <= 1.0


def test_who_is_refused_learns_the_reason_of_that_conversation(
    service: Service, server: RunningServer, disk: Disk
) -> None:
    one, two = (service.conversation_of("one") for _ in range(2))

    def refused(name: str, error: int) -> Any:
        disk.refuse("pwrite", "rename", error=error)
        disk.suffix = f"{name}.jsonl"
        return failure_of(partial(service.append, name, user("two"), request_id=name))

    assert refused(one, errno.EIO).metadata["held_because"] == "Input/output error"
    assert "No space left" in refused(two, errno.ENOSPC).metadata["held_because"]
    assert refused(one, errno.EIO).metadata["held_because"] == "Input/output error"


def test_a_disk_that_stays_full_is_logged_once_whatever_is_free_on_it(
    service: Service, server: RunningServer, disk: Disk
) -> None:
    _, space = hold(service, server, disk, errno.ENOSPC)
    reasons = {space.held_because()}
    with capture_logs() as logged:
        while len(reasons) < 3:  # others write to the same disk
            (server.data_dir / "other").write_bytes(b"x" * (len(reasons) << 20))
            space._space.flush()
            reasons.add(space.held_because())
    assert not [it for it in logged if "refused" in it["event"] or "again" in it["event"]]


def test_a_call_waits_for_the_place_of_a_space_in_use_before_another_loses_messages(
    start_server: Start, enter: Enter, disk: Disk
) -> None:
    server = start_server(max_open_spaces=2)
    third, busy, holding = (enter(server.target, it) for it in ("third", "busy", "holding"))
    of, name = third.conversation_of("words"), holding.conversation_of("one")
    disk.refuse("pwrite", "rename")
    assert code_of(lambda: holding.append(name, user("two"), request_id="r")) == "UNAVAILABLE"
    assert not busy.listed().conversations
    spaces = server.app.spaces
    close(server, "third")
    leases = [spaces.use(it) for it in spaces.names() if it != "holding"]
    with capture_logs() as logged, ThreadPoolExecutor() as threads:
        answer = threads.submit(third.get, of)
        until(lambda: spaces._waiting)
        for lease in leases:
            lease.end()
        assert answer.result().message_count == 1
    assert not lost_of(logged)
    assert "holding" in spaces.names()


def test_messages_whose_transcript_is_away_for_a_moment_are_held_on(
    service: Service, server: RunningServer, disk: Disk
) -> None:
    name, space = hold(service, server, disk)
    path = transcript(server, name)
    disk.restore()
    path.rename(path.with_suffix(".away"))
    with capture_logs() as logged:
        space._space.flush()  # as the job does
        path.with_suffix(".away").rename(path)
    assert not lost_of(logged)
    until(lambda: contents_of(server, "default") == ["one", "two"])
