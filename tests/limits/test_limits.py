"""Limits of tokens and spaces, reached over the real server."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import hypothesis
import pytest
import structlog
from hypothesis import strategies as st
from recollect import Client, ResourceExhausted, RetryPolicy
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.access.limits import Allowance, Allowances, Limiter, Quota, StoredAmounts
from recollect_server.access.principal import Principal
from recollect_server.access.usage_file import UsageFile
from recollect_server.kernel.domain.errors import IndexUnavailable, LimitExceeded
from recollect_server.kernel.domain.live import Holder
from recollect_server.kernel.domain.time import DAY, system_clock

from tests.conftest import MovableClock
from tests.credentials.conftest import Caller, grant
from tests.limits.conftest import Limited
from tests.server.conftest import Failure, failure_of, user
from tests.server_cli.conftest import run
from tests.waiting import until

LIST, CREATE = "ConversationService.List", "ConversationService.Create"
APPEND, STREAM = "ConversationService.AppendTurn", "ConversationService.StreamUpdates"

Start = Callable[..., Limited]


def refused(caller: Caller, name: str, request: Any = None, *metadata: Any) -> Failure:
    """Return the failure of a call that reaches a limit."""
    failure = failure_of(lambda: caller.call(name, request, *metadata))
    assert (failure.code, failure.reason) == ("RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED")
    return failure


def test_a_token_that_calls_too_often_waits_and_others_do_not(
    limited: Start, clock: MovableClock
) -> None:
    server = limited(token_calls=2, token_burst=3)
    fast, other = server.caller(), server.caller()
    assert [fast.outcome(LIST) for _ in range(4)] == ["OK", "OK", "OK", "LIMIT_EXCEEDED"]
    failure = refused(fast, LIST)
    assert (failure.metadata, failure.retry_ms) == ({"limit": "calls", "of": "token"}, 500)
    assert "calls of 2" in failure.text
    assert other.outcome(LIST) == "OK"
    clock.move(499)
    assert refused(fast, LIST).retry_ms == 1
    clock.move(1)
    assert [fast.outcome(LIST) for _ in range(2)] == ["OK", "LIMIT_EXCEEDED"]


def test_a_token_may_have_limits_of_its_own(limited: Start, clock: MovableClock) -> None:
    server = limited(token_calls=2)
    slow = server.caller(limits={"calls": 0.5, "not_known": 1})
    free = server.caller(limits={"calls": 0})
    assert slow.outcome(LIST) == "OK"
    assert refused(slow, LIST).retry_ms == 2000
    assert {free.outcome(LIST) for _ in range(20)} == {"OK"}


def test_a_space_is_limited_whoever_calls(limited: Start) -> None:
    server = limited(space_calls=1, space_burst=2)
    one, two = server.caller(), server.caller()
    elsewhere = server.caller("brain", "alex")
    assert [one.outcome(LIST), two.outcome(LIST)] == ["OK", "OK"]
    assert refused(one, LIST).metadata == {"limit": "calls", "of": "space"}
    assert refused(two, LIST).metadata == {"limit": "calls", "of": "space"}
    assert elsewhere.outcome(LIST) == "OK"


def test_a_call_that_is_over_a_limit_is_refused_before_its_request_is_read(limited: Start) -> None:
    server = limited(token_calls=1)
    caller = server.caller()
    assert caller.outcome(LIST) == "OK"
    raw: grpc.UnaryUnaryMultiCallable[bytes, bytes] = caller.channel.unary_unary(
        "/recollect.v1.ConversationService/List"
    )
    failure = failure_of(lambda: raw(b"\xff\xff", metadata=caller.metadata))
    assert failure.reason == "LIMIT_EXCEEDED"


def test_bytes_are_counted_by_the_day_and_across_a_restart(
    limited: Start, clock: MovableClock
) -> None:
    clock.now = 20_000 * DAY + DAY // 2
    server = limited(token_bytes=3000)
    caller = server.caller()
    conversation_id = caller.call(CREATE, api.CreateRequest(channel="web")).conversation.id
    large = api.AppendTurnRequest(conversation_id=conversation_id, messages=[user("x" * 1400)])
    small = api.AppendTurnRequest(conversation_id=conversation_id, messages=[user("x")])
    assert [caller.outcome(APPEND, large) for _ in range(3)] == ["OK", "OK", "LIMIT_EXCEEDED"]
    failure = refused(caller, APPEND, large)
    assert failure.metadata == {"limit": "bytes", "of": "token"}
    assert failure.retry_ms == DAY // 2
    assert caller.outcome(APPEND, small) == "OK"
    server.server.stop()

    again = limited(token_bytes=3000)
    after = again.stranger(caller.metadata[0][1].removeprefix("Bearer "))
    assert after.outcome(APPEND, large) == "LIMIT_EXCEEDED"
    clock.move(DAY // 2)
    assert after.outcome(APPEND, large) == "OK"


def test_streams_are_counted_while_they_are_open(limited: Start) -> None:
    server = limited(token_streams=2)
    caller, other = server.caller(), server.caller()
    first, _ = streams = [caller.begin(STREAM) for _ in range(2)]
    assert all(next(stream) for stream in streams)
    assert refused(caller, STREAM).metadata == {"limit": "streams", "of": "token"}
    assert other.outcome(STREAM) == "OK"
    first.cancel()
    until(lambda: caller.outcome(STREAM) == "OK")


def test_a_stream_that_fails_to_open_is_not_counted(limited: Start) -> None:
    server = limited(space_streams=1)
    caller = server.caller()
    wrong = api.StreamUpdatesRequest(cursor="not a cursor")
    assert {caller.outcome(STREAM, wrong) for _ in range(3)} == {"INVALID_FIELD"}
    assert caller.outcome(STREAM) == "OK"


def test_a_space_has_so_many_conversations_and_no_more(limited: Start, clock: MovableClock) -> None:
    server = limited(space_conversations=2)
    caller, elsewhere = server.caller(), server.caller("brain", "alex")
    create = api.CreateRequest(channel="web")
    made = [caller.call(CREATE, create).conversation.id for _ in range(2)]
    failure = refused(caller, CREATE, create)
    assert failure.metadata == {"limit": "conversations", "of": "space"}
    assert elsewhere.outcome(CREATE, create) == "OK"
    append = api.AppendTurnRequest(conversation_id=made[0], messages=[user("still here")])
    assert caller.outcome(APPEND, append) == "OK"
    caller.call("ConversationService.Delete", api.DeleteRequest(conversation_id=made[1]))
    clock.move(1000)
    assert [caller.outcome(CREATE, create) for _ in range(2)] == ["OK", "LIMIT_EXCEEDED"]


def test_a_full_space_has_room_again_after_a_delete_though_the_clock_was_set_back(
    limited: Start, clock: MovableClock
) -> None:
    caller = limited(space_conversations=1).caller()
    create = api.CreateRequest(channel="web")
    name = caller.call(CREATE, create).conversation.id
    assert caller.outcome(CREATE, create) == "LIMIT_EXCEEDED"
    clock.move(-3_600_000)
    caller.call("ConversationService.Delete", api.DeleteRequest(conversation_id=name))
    assert caller.outcome(CREATE, create) == "OK"


def test_a_space_keeps_so_many_bytes_and_no_more(limited: Start, clock: MovableClock) -> None:
    server = limited(space_stored_bytes=20_000)
    caller = server.caller()
    made = [caller.call(CREATE, api.CreateRequest(channel="web")).conversation.id for _ in range(2)]

    def append(conversation_id: str) -> str:
        text = [user("x" * 4000)]
        request = api.AppendTurnRequest(conversation_id=conversation_id, messages=text)
        return caller.outcome(APPEND, request)

    assert [append(made[0]) for _ in range(5)] == ["OK"] * 4 + ["LIMIT_EXCEEDED"]
    assert caller.outcome(LIST) == "OK"
    caller.call("ConversationService.Delete", api.DeleteRequest(conversation_id=made[0]))
    clock.move(1000)
    assert append(made[1]) == "OK"


@hypothesis.given(st.lists(st.integers(1, 3000), max_size=40))
def test_a_space_never_takes_a_request_that_does_not_fit(
    tmp_path_factory: Any, sizes: list[int]
) -> None:
    clock, stored, most = MovableClock(), 0, 20_000
    counts = 0

    def count() -> StoredAmounts:
        nonlocal counts
        counts += 1
        return StoredAmounts(0, stored)

    limiter = Limiter(
        clock, Holder(Allowances()), lambda _: {}, UsageFile(tmp_path_factory.getbasetemp())
    )
    quota = Quota(limiter, "default", Holder(StoredAmounts(0, most)), count, clock)
    for size in sizes:
        clock.move(1000)
        fits = stored + size <= most
        try:
            quota.admit(size=size)
        except LimitExceeded:
            assert not fits
        else:
            assert fits
            stored += size
    assert stored <= most
    assert counts <= 1 + len(sizes)


def test_messages_are_accepted_while_nobody_can_count(tmp_path: Any, clock: MovableClock) -> None:
    counts: list[int] = []

    def count() -> StoredAmounts:
        counts.append(clock())
        raise IndexUnavailable("gone")

    limiter = Limiter(clock, Holder(Allowances()), lambda _: {}, UsageFile(tmp_path))
    Quota(limiter, "default", Holder(StoredAmounts(1, 1)), count, clock).admit(conversations=1)
    assert counts  # and nothing was raised


def test_who_is_limited_is_in_the_stats_and_once_a_minute_in_the_log(
    limited: Start, clock: MovableClock
) -> None:
    clock.now = system_clock() // DAY * DAY  # the statistics are of today
    server = limited(token_calls=1, space_conversations=1)
    fast, other = server.caller(), server.caller()
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            fast.outcome(LIST)
        clock.move(59_999)
        [fast.outcome(LIST) for _ in range(2)]
        clock.move(1)
        [fast.outcome(LIST) for _ in range(3)]
        for _ in range(2):
            other.outcome(CREATE, api.CreateRequest(channel="web"))
            clock.move(1000)
    logged = [(it["of"], it["name"], it["limit"]) for it in lines if it["event"] == "limited"]
    token = ("token", server.ids[fast], "calls")
    assert logged == [token, token, ("space", "default", "conversations")]
    server.server.stop()
    [line] = [
        line
        for line in run("stats", "--data-dir", server.server.data_dir).output.splitlines()
        if line.startswith("limited_today")
    ]
    assert line == (
        f"limited_today: 2, token {server.ids[fast]} calls (8 refused),"
        " space default conversations (1 refused)"
    )


def test_a_damaged_file_of_usage_is_left_behind(limited: Start) -> None:
    first = limited(token_bytes=1000)
    path = first.server.data_dir / "limits.json"
    first.caller().outcome(LIST)
    first.server.stop()
    path.write_bytes(path.read_bytes()[:-3])
    assert limited(token_bytes=1000).caller().outcome(LIST) == "OK"


def test_a_client_waits_as_long_as_it_is_told_and_calls_again(
    limited: Start, clock: MovableClock
) -> None:
    server = limited(token_calls=20, token_burst=1)
    _, text = server.tokens.create(grant())
    waits: list[float] = []

    def pause() -> float:
        waits.append(1)
        clock.move(1000)
        return 0.0

    with Client(server.server.target, token=text, retry=RetryPolicy(random=pause)) as client:
        created = client.conversations.create("web")
        assert client.conversations.get(created.id).id == created.id
        assert waits
    never = RetryPolicy(max_attempts=1)
    with (
        Client(server.server.target, token=text, retry=never) as client,
        pytest.raises(ResourceExhausted) as raised,
    ):
        client.conversations.get(created.id)
    assert raised.value.retry_delay == pytest.approx(0.05)


def test_whoever_may_name_any_space_does_not_fill_the_memory(
    tmp_path: Path, clock: MovableClock
) -> None:
    allowance, nothing = Allowance(bytes=1e9, calls=1, burst=1), Allowance()
    limiter = Limiter(
        clock, Holder(Allowances(nothing, allowance)), lambda _: {}, UsageFile(tmp_path)
    )
    for number in range(25_000):
        limiter.admit(Principal(space=f"space-{number}"), 100 + (number == 0))
        with suppress(LimitExceeded):
            limiter.admit(Principal(space=f"space-{number}"), 1)
    limiter.save()
    usage = UsageFile(tmp_path).read()
    assert usage.bytes["space", "space-0"] == 101  # the largest is kept
    assert len(limiter._usage.bytes) <= 20_000
    assert len(limiter._usage.refused) <= 20_000
