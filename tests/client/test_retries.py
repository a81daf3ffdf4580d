"""Calls that the client retries, and calls that it must not."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import grpc
import pytest
import recollect
from recollect._shared.history import read_history
from recollect.adapters.openai_agents import RecollectSession
from recollect.v1 import conversation_pb2
from recollect.v1 import conversation_service_pb2 as pb

from tests.client.conftest import FULL_JITTER, Fault, Scripted, Waits, error_info, retry_info

UNAVAILABLE = Fault(grpc.StatusCode.UNAVAILABLE)
CANCELLED = Fault(grpc.StatusCode.CANCELLED)
CONVERSATION = "conv-01HQ0000000000000000000000"


def test_a_read_survives_two_unavailable_answers_with_growing_waits(
    scripted: Scripted, scripted_client: recollect.Client, waits: Waits
) -> None:
    scripted.script = [UNAVAILABLE, UNAVAILABLE]
    scripted_client.conversations.get(CONVERSATION)
    assert scripted.methods == ["Get", "Get", "Get"]
    assert waits.seconds == pytest.approx([0.1, 0.2])


def test_a_write_is_repeated_with_the_same_request_id(
    scripted: Scripted, scripted_client: recollect.Client
) -> None:
    scripted.script = [UNAVAILABLE, CANCELLED]
    scripted_client.conversations.append_turn(CONVERSATION, [recollect.Message.user("Hi")])
    assert scripted.methods == ["AppendTurn"] * 3
    assert len(set(scripted.request_ids)) == 1
    assert len(scripted.request_ids[0]) == 32


def test_two_writes_have_two_request_ids(
    scripted: Scripted, scripted_client: recollect.Client
) -> None:
    scripted_client.conversations.rename(CONVERSATION, "One")
    scripted_client.conversations.rename(CONVERSATION, "One")
    assert len(set(scripted.request_ids)) == 2


def test_a_request_id_of_the_callers_is_sent_as_it_is(
    scripted: Scripted, scripted_client: recollect.Client
) -> None:
    scripted_client.conversations.delete(CONVERSATION, request_id="mine-1")
    assert scripted.request_ids == ["mine-1"]


def test_a_write_without_a_request_id_is_never_repeated(
    scripted: Scripted, scripted_client: recollect.Client, waits: Waits
) -> None:
    scripted.script = [UNAVAILABLE]
    with pytest.raises(recollect.Unavailable):
        scripted_client.conversations.append_turn(
            CONVERSATION, [recollect.Message.user("Hi")], request_id=""
        )
    assert scripted.methods == ["AppendTurn"]
    assert waits.seconds == []


def test_a_cancelled_that_nobody_asked_for_is_tried_again(
    scripted: Scripted, scripted_client: recollect.Client
) -> None:
    scripted.script = [CANCELLED]
    assert scripted_client.recall.search("disk").hits == ()
    assert scripted.methods == ["Search", "Search"]


@pytest.mark.parametrize(
    "reason", ["LIMIT_EXCEEDED", "TOO_MANY_SPACES", "TOO_MANY_ANSWERS", "RATE_LIMITED", "OF_2031"]
)
def test_a_limit_is_waited_for_as_long_as_the_server_says(
    scripted: Scripted, scripted_client: recollect.Client, waits: Waits, reason: str
) -> None:
    info = error_info(f"ERROR_REASON_{reason}", limit="calls_per_second", of="token")
    limited = Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, [info, retry_info(2)])
    scripted.script = [limited, limited]
    scripted_client.conversations.append_turn(CONVERSATION, [recollect.Message.user("Hi")])
    assert scripted.methods == ["AppendTurn"] * 3
    assert waits.seconds == pytest.approx([2.1, 2.2])


def test_a_refusal_that_no_wait_lifts_is_raised_at_once(
    scripted: Scripted, scripted_client: recollect.Client, waits: Waits
) -> None:
    info = error_info("ERROR_REASON_CONVERSATION_FULL")
    scripted.script = [Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, [info])]
    with pytest.raises(recollect.ResourceExhausted):
        scripted_client.conversations.append_turn(CONVERSATION, [recollect.Message.user("Hi")])
    assert (scripted.methods, waits.seconds) == (["AppendTurn"], [])


READERS: dict[str, Callable[[str], object]] = {
    "history": lambda target: read_history(_client(target).conversations.load, CONVERSATION),
    "session": lambda target: asyncio.run(_session(target).get_items()),
}


FOUND = pb.ListResponse(
    conversations=[
        conversation_pb2.Conversation(id=CONVERSATION, channel="agents", message_count=2)
    ]
)
"""The conversation of a session."""


def _client(target: str) -> recollect.Client:
    return recollect.Client(target, timeout=10)


def _session(target: str) -> RecollectSession:
    return RecollectSession(CONVERSATION, client=recollect.AsyncClient(target, timeout=10))


@pytest.mark.parametrize("reader", READERS)
def test_only_a_page_that_is_too_large_is_asked_for_in_smaller_ones(
    scripted: Scripted, reader: str
) -> None:
    info = error_info("ERROR_REASON_TOO_MANY_ANSWERS")
    soon, late = (
        Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, [info, retry_info(seconds)])
        for seconds in (0.01, 3600)
    )
    too_large = Fault(grpc.StatusCode.RESOURCE_EXHAUSTED)

    def pages(*script: Fault) -> list[int]:
        scripted.requests.clear()
        answer = [] if reader == "history" else [FOUND]
        scripted.script = [*answer, *script]
        with suppress(recollect.ResourceExhausted):
            READERS[reader](scripted.target)
        return [it.request.max_turns for it in scripted.requests if it.method == "Load"]

    first, second = pages(soon)
    assert first == second
    assert pages(late) == [first]
    assert pages(too_large) == [first, first // 4]


def test_a_limit_that_lifts_after_the_timeout_is_raised_at_once(
    scripted: Scripted, scripted_client: recollect.Client, waits: Waits
) -> None:
    info = error_info("ERROR_REASON_LIMIT_EXCEEDED", limit="bytes_per_day", of="space")
    scripted.script = [Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, [info, retry_info(3600)])]
    with pytest.raises(recollect.LimitExceeded) as raised:
        scripted_client.conversations.get(CONVERSATION)
    assert (raised.value.metadata["limit"], raised.value.retry_delay) == ("bytes_per_day", 3600)
    assert waits.seconds == []


def test_the_servers_retry_info_is_the_shortest_wait(
    scripted: Scripted, scripted_client: recollect.Client, waits: Waits
) -> None:
    info = error_info("ERROR_REASON_INDEX_UNAVAILABLE")
    scripted.script = [Fault(grpc.StatusCode.UNAVAILABLE, [info, retry_info(1.5)]), UNAVAILABLE]
    scripted_client.recall.search("disk")
    assert waits.seconds == pytest.approx([1.6, 0.2])


def test_the_last_error_is_raised_when_the_attempts_are_used_up(
    scripted: Scripted, scripted_client: recollect.Client, waits: Waits
) -> None:
    scripted.script = [UNAVAILABLE] * 10
    with pytest.raises(recollect.Unavailable) as caught:
        scripted_client.conversations.get(CONVERSATION)
    assert caught.value.code == "UNAVAILABLE"
    assert len(scripted.requests) == FULL_JITTER.max_attempts
    assert waits.seconds == pytest.approx([0.1, 0.2, 0.3])


def test_a_wait_that_would_pass_the_deadline_is_not_begun(
    scripted: Scripted, scripted_client: recollect.Client, waits: Waits
) -> None:
    scripted.script = [Fault(grpc.StatusCode.UNAVAILABLE, [retry_info(3600)])]
    with pytest.raises(recollect.Unavailable) as caught:
        scripted_client.conversations.get(CONVERSATION)
    assert caught.value.retry_delay == 3600
    assert (len(scripted.requests), waits.seconds) == (1, [])


def test_an_attempt_that_has_no_time_for_an_answer_is_not_begun(scripted: Scripted) -> None:
    late = recollect.RetryPolicy(initial_delay=0.96, random=lambda: 1.0)
    info = error_info("ERROR_REASON_INDEX_UNAVAILABLE")
    scripted.script = [Fault(grpc.StatusCode.UNAVAILABLE, [info])]
    with (
        recollect.Client(scripted.target, timeout=1, retry=late) as client,
        pytest.raises(recollect.Unavailable),
    ):
        client.conversations.get(CONVERSATION)
    assert len(scripted.requests) == 1


def test_the_deadline_bounds_all_attempts_together(scripted: Scripted, waits: Waits) -> None:
    always = recollect.RetryPolicy(max_attempts=1_000_000, random=lambda: 0.0)
    scripted.script = [UNAVAILABLE] * 100_000
    with (
        recollect.Client(scripted.target, timeout=0.6, retry=always, sleep=waits.sleep) as client,
        pytest.raises((recollect.Unavailable, recollect.DeadlineExceeded)),
    ):
        client.conversations.get(CONVERSATION)
    left = [received.time_remaining for received in scripted.requests]
    assert len(left) > 3
    assert left[-1] < 0.3 < left[0] <= 0.601  # gRPC sends whole milliseconds, rounded up


def test_a_call_that_hangs_ends_at_its_own_time_out(
    scripted: Scripted, scripted_client: recollect.Client
) -> None:
    scripted.hang.clear()
    with pytest.raises(recollect.DeadlineExceeded) as caught:
        scripted_client.conversations.get(CONVERSATION, timeout=0.05)
    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert len(scripted.requests) <= 1


def test_every_call_has_the_clients_time_out_or_its_own(scripted: Scripted) -> None:
    with recollect.Client(scripted.target, timeout=20) as client:
        client.conversations.get(CONVERSATION)
        client.conversations.get(CONVERSATION, timeout=200)
    assert 10 < scripted.requests[0].time_remaining < 22
    assert 190 < scripted.requests[1].time_remaining < 210


@pytest.mark.parametrize(
    "code",
    [code for code in grpc.StatusCode if code.name not in {"OK", "UNAVAILABLE", "CANCELLED"}],
    ids=lambda code: code.name,
)
def test_no_other_failure_is_tried_again(
    scripted: Scripted, scripted_client: recollect.Client, code: grpc.StatusCode
) -> None:
    scripted.script = [Fault(code)]
    with pytest.raises(recollect.RecollectError) as caught:
        scripted_client.conversations.get(CONVERSATION)
    assert caught.value.code == code.name
    assert len(scripted.requests) == 1


def test_retries_can_be_turned_off(scripted: Scripted) -> None:
    scripted.script = [UNAVAILABLE]
    with (
        recollect.Client(scripted.target, retry=None) as client,
        pytest.raises(recollect.Unavailable),
    ):
        client.conversations.get(CONVERSATION)
    assert len(scripted.requests) == 1


def test_a_server_that_is_not_there_is_unavailable(waits: Waits) -> None:
    with recollect.Client("127.0.0.1:1", retry=FULL_JITTER, sleep=waits.sleep) as client:
        with pytest.raises(recollect.Unavailable) as caught:
            client.conversations.get(CONVERSATION)
        assert caught.value.reason is None
        assert len(waits.seconds) == FULL_JITTER.max_attempts - 1


def test_the_jitter_takes_a_part_of_the_longest_wait() -> None:
    policy = recollect.RetryPolicy(initial_delay=1, multiplier=3, max_delay=5, random=lambda: 0.5)
    assert [policy.delay(failures, None) for failures in (1, 2, 3, 4, 1000)] == [
        0.5,
        1.5,
        2.5,
        2.5,
        2.5,
    ]
    assert all(0 <= recollect.RetryPolicy().delay(2, None) <= 0.2 for _ in range(100))


@pytest.mark.parametrize(
    "wrong", [{"max_attempts": 0}, {"initial_delay": -1}, {"max_delay": -1}, {"multiplier": 0.5}]
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(recollect.InvalidArgument):
        recollect.RetryPolicy(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan"), "5"])
def test_a_time_out_is_a_number_above_zero(scripted: Scripted, timeout: float) -> None:
    with (
        recollect.Client(scripted.target) as client,
        pytest.raises(recollect.InvalidArgument, match="timeout"),
    ):
        client.conversations.get(CONVERSATION, timeout=timeout)
    with pytest.raises(recollect.InvalidArgument, match="timeout"):
        recollect.Client(timeout=timeout)
    assert scripted.requests == []


async def test_the_async_client_repeats_as_the_sync_one_does(
    scripted: Scripted, waits: Waits
) -> None:
    scripted.script = [UNAVAILABLE, CANCELLED, pb.GetResponse()]
    async with recollect.AsyncClient(
        scripted.target, retry=FULL_JITTER, sleep=waits.sleep_async
    ) as client:
        await client.conversations.get(CONVERSATION)
        scripted.script = [UNAVAILABLE]
        with pytest.raises(recollect.Unavailable):
            await client.conversations.rename(CONVERSATION, "Title", request_id="")
    assert scripted.methods == ["Get", "Get", "Get", "Rename"]
    assert waits.seconds == pytest.approx([0.1, 0.2])


async def test_the_async_client_keeps_its_deadline(scripted: Scripted, waits: Waits) -> None:
    scripted.hang.clear()
    async with recollect.AsyncClient(scripted.target, sleep=waits.sleep_async) as client:
        with pytest.raises(recollect.DeadlineExceeded):
            await client.conversations.get(CONVERSATION, timeout=0.05)
    assert waits.seconds == []
