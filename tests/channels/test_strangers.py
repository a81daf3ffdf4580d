"""Senders who are no owners: kept apart, limited when they flood, and accepted as soon as they are
added.
"""

import hypothesis
from click.testing import CliRunner
from hypothesis import strategies as st
from recollect.v1.external_communication_pb2 import TRUST_UNTRUSTED
from recollect_server.access.limits import Buckets, Rate
from recollect_server.run.commands import commands

from tests.channels.conftest import ALEX, STRANGER, Post, Reach, home
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import at_once, failure_of


def test_a_stranger_who_becomes_known_begins_a_conversation_and_moves_nothing(post: Post) -> None:
    before = post.whatsapp("I am Sam, from next door", STRANGER, delivery="wamid.1").external
    assert (before.communication.party, before.communication.trust) == ("49170999", TRUST_UNTRUSTED)
    assert before.escalation.sequence == before.message.sequence
    assert post.everything() == {}
    assert post.found("next door") == []
    post.own("whatsapp", STRANGER, "Sam")
    again = post.whatsapp("I am Sam, from next door", STRANGER, delivery="wamid.1")
    assert (again.duplicate, again.external.message) == (True, before.message)
    now = home(post.whatsapp("It is me again", STRANGER))
    assert post.everything() == {now: ["It is me again"]}
    post.disown("whatsapp", STRANGER)
    assert post.whatsapp("And now?", STRANGER).external.communication.id == before.communication.id
    assert post.whatsapp("It is me again", STRANGER).external.communication.message_count == 3
    assert post.said(now) == ["It is me again"]


def test_an_owners_message_delivered_again_after_the_identity_was_removed_is_the_same_message(
    post: Post,
) -> None:
    first = post.whatsapp("Mine", delivery="wamid.1")
    post.disown("whatsapp", ALEX)
    again = post.whatsapp("Mine", delivery="wamid.1")
    assert (again.duplicate, again.conversation) == (True, first.conversation)


def test_nobody_is_an_owner_until_somebody_says_so(server: RunningServer, reach: Reach) -> None:
    post = reach(server)
    assert post.whatsapp("Let me in").WhichOneof("outcome") == "external"
    assert post.deliver("matrix", "Let me in", "@alex:x").WhichOneof("outcome") == "external"
    assert post.cli("Always the owner").WhichOneof("outcome") == "conversation"
    assert post.web("Always the owner").WhichOneof("outcome") == "conversation"
    post.own("whatsapp", ALEX)
    assert post.mail("Another channel", "<a@mail>").WhichOneof("outcome") == "external"


def test_a_stranger_in_a_group_of_the_owners_stays_outside(post: Post) -> None:
    group = home(post.whatsapp("Dinner?", group="1203@g.us"))
    assert post.whatsapp("Me too!", STRANGER, group="1203@g.us").WhichOneof("outcome") == "external"
    assert post.said(group) == ["Dinner?"]


def test_a_stranger_who_answers_an_owners_thread_stays_outside(post: Post) -> None:
    thread = home(post.mail("The bill", "<a@mail>"))
    received = post.mail("Pay me", "<b@mail>", "<a@mail>", sender="mallory@example.org")
    assert received.external.communication.party == "mallory@example.org"
    assert post.said(thread) == ["The bill"]


def test_a_command_of_a_stranger_is_a_message(post: Post) -> None:
    old = home(post.whatsapp("Hello"))
    assert post.whatsapp("/clear confirm", STRANGER).external.message.text == "/clear confirm"
    assert post.said(old) == ["Hello"]


def test_a_stranger_who_floods_is_told_when_to_come_back_and_owners_are_not_slowed(
    start_server: Start, reach: Reach, clock: MovableClock
) -> None:
    post = reach(start_server(sender_rate=6, sender_burst=3))
    post.own("whatsapp", ALEX)
    for _ in range(3):
        post.whatsapp("Spam", STRANGER)
    first = post.whatsapp("Spam", "+44 2", delivery="first")
    for _ in range(5):
        assert (
            post.whatsapp("Spam", "+44 2", delivery="first").external.message
            == first.external.message
        )
    failure = failure_of(lambda: post.whatsapp("Spam", "0049170999", delivery="late"))
    assert (failure.code, failure.reason, failure.retry_ms) == (
        "RESOURCE_EXHAUSTED",
        "RATE_LIMITED",
        10_000,
    )
    assert failure.metadata == {"sender": "49170999"}
    assert post.whatsapp("Somebody else", "+44 1").WhichOneof("outcome") == "external"
    assert {home(it) for it in at_once(4, lambda _: [post.whatsapp("Mine") for _ in range(10)])[0]}
    assert home(post.whatsapp("Mine too"))
    clock.move(9_999)
    assert failure_of(lambda: post.whatsapp("Spam", STRANGER)).retry_ms == 1
    clock.move(1)
    assert (
        post.whatsapp("Spam", STRANGER, delivery="late").external.communication.message_count == 4
    )
    assert failure_of(lambda: post.whatsapp("Spam", STRANGER)).retry_ms == 10_000


def test_who_floods_is_named_in_the_stats(start_server: Start, reach: Reach) -> None:
    server = start_server(sender_rate=1, sender_burst=1)
    post = reach(server)
    post.whatsapp("Spam", STRANGER)
    for _ in range(4):
        failure_of(lambda: post.whatsapp("Spam", STRANGER))

    def said() -> str:
        result = CliRunner().invoke(commands, ["stats", "--data-dir", str(server.data_dir)])
        assert result.exit_code == 0, result.output
        return next(
            line for line in result.output.splitlines() if line.startswith("limited_senders")
        )

    # a flood of messages is none of writes
    assert said() == "limited_senders: 1, whatsapp 49170999 (1 refused)"
    server.stop()
    assert said() == "limited_senders: 1, whatsapp 49170999 (4 refused)"


def test_no_limit_is_no_limit(start_server: Start, reach: Reach) -> None:
    post = reach(start_server(sender_rate=0))
    answers = [post.whatsapp("Many", STRANGER) for _ in range(50)]
    # a line between asks the owner
    assert [it.external.message.sequence for it in answers] == [2, *range(4, 53)]


def test_buckets_are_bounded_and_forget_who_was_silent_longest() -> None:
    buckets = Buckets(Rate.of(1, 60_000, 1), most=100)
    assert [buckets.take(name, 0) for name in range(1000)] == [0] * 1000
    assert len(buckets) == 100
    assert buckets.take(999, 0) == 60_000
    assert buckets.take(0, 0) == 0


def test_a_clock_that_was_set_back_blocks_nobody_for_longer_than_a_bucket_takes_to_fill() -> None:
    buckets = Buckets(Rate.of(60, 60_000, 5))
    for _ in range(5):
        assert buckets.take("x", 1_000_000_000) == 0
    assert buckets.take("x", 0) == 1000
    assert buckets.take("x", 1000) == 0


@hypothesis.given(
    rate=st.integers(1, 1000),
    burst=st.integers(1, 50),
    pauses=st.lists(st.integers(0, 30_000), max_size=60),
)
def test_in_any_span_no_more_pass_than_the_rate_and_the_burst_allow(
    rate: int, burst: int, pauses: list[int]
) -> None:
    buckets, now = Buckets(Rate.of(rate, 60_000, burst)), 0
    passed: list[int] = []
    for pause in pauses:
        now += pause
        if wait := buckets.take("x", now):
            assert buckets.take("x", now) == wait
        else:
            passed.append(now)
    for first, start in enumerate(passed):
        for last, end in enumerate(passed[first:], start=first):
            assert last - first + 1 <= burst + (end - start) * rate / 60_000 + 1e-6
