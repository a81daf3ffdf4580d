"""Channels, told as stories: who writes where, and what the owner sees."""

import itertools

import structlog
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.message_pb2 import Attachment

from tests.channels.conftest import ALEX, SAM, Post, here, home, reply
from tests.conftest import MovableClock
from tests.server.conftest import agent, failure_of, moment, user


def test_a_contact_writes_resets_writes_again_is_linked_to_mail_and_is_found_from_the_web(
    post: Post,
) -> None:
    first = home(post.whatsapp("The boiler is leaking"))
    assert home(post.whatsapp("It drips on the floor", "1555000@s.whatsapp.net")) == first
    post.append(first, agent("I called the plumber."))
    second = home(post.whatsapp("/new"))
    assert second != first
    assert home(post.whatsapp("What about the plumber?", "001555000")) == second
    assert [post.get(it).pinned for it in (first, second)] == [False, True]
    third = home(post.mail("The plumber sent his bill", "<bill@mail>", subject="Bill"))
    assert set(post.found("plumber", participants=[ALEX])) == {first, second}
    post.link("Alex", ("whatsapp", "+1555000"), ("email", "alex@example.org"))
    assert set(post.found("plumber", participants=["Alex"])) == {first, second, third}
    assert set(post.found("plumber", participants=["alex@example.org"])) == {first, second, third}
    assert post.said(first) == [
        "The boiler is leaking",
        "It drips on the floor",
        "I called the plumber.",
    ]
    assert post.said(third) == ["The plumber sent his bill"]


def test_what_came_in_is_stored_as_it_was_said(post: Post, clock: MovableClock) -> None:
    picture = Attachment(media_type="image/png", uri="https://example.org/1", bytes_length=7)
    answer = post.whatsapp("", attachments=[picture], time=moment(clock.now - 60_000))
    (message,) = answer.conversation.messages
    assert (message.sender, message.turn_number, message.sequence, message.attachments[0]) == (
        "1555000",
        1,
        2,
        picture,
    )
    assert message.timestamp == moment(clock.now - 60_000)
    conversation = here(answer)
    assert (conversation.channel, conversation.party.contact, conversation.pinned) == (
        "whatsapp",
        "1555000",
        True,
    )
    assert list(conversation.participants) == ["1555000"]
    assert post.get(conversation.id) == conversation
    later = post.whatsapp("And this?").conversation.messages[0]
    assert (later.turn_number, later.timestamp) == (2, moment(clock.now))


def test_two_people_write_in_a_group_and_alone(post: Post) -> None:
    post.own("whatsapp", SAM)
    group = home(post.whatsapp("Who brings the cake?", group="1203@g.us"))
    alone = home(post.whatsapp("A secret"))
    assert home(post.whatsapp("I do", SAM, group="1203@G.US")) == group
    assert home(post.whatsapp("My secret", SAM)) not in (group, alone)
    assert home(post.whatsapp("Another secret")) == alone
    assert home(post.whatsapp("Which group?", group="1204@g.us")) not in (group, alone)
    conversation = post.get(group)
    assert (
        list(conversation.participants),
        conversation.party.group_id,
        conversation.party.contact,
    ) == (
        ["1555000", "1555111"],
        "1203@g.us",
        "",
    )
    assert [it.sender for it in post.load(group).messages] == ["1555000", "1555111"]


def test_a_reset_of_a_group_leaves_its_people_alone(post: Post) -> None:
    group, alone = home(post.whatsapp("Cake?", group="1203@g.us")), home(post.whatsapp("Hello"))
    anew = home(post.whatsapp("/new", group="1203@g.us"))
    assert home(post.whatsapp("Pie?", group="1203@g.us")) == anew != group
    assert home(post.whatsapp("Hello again")) == alone


def test_a_pinned_conversation_is_read_only_for_the_web_and_goes_on_once_it_is_not(
    post: Post,
) -> None:
    first = home(post.whatsapp("From the phone"))
    before = kept_state(post, first)
    for call in (
        lambda: post.web("From the web", first),
        lambda: post.web("/new", first),
        lambda: post.append(first, user("From the web", channel="web")),
        lambda: post.append(first, user("From the phone"), agent("From the web", channel="web")),
    ):
        failure = failure_of(call)
        assert (failure.code, failure.reason) == ("FAILED_PRECONDITION", "CONVERSATION_READ_ONLY")
        assert failure.metadata == {"conversation_id": first, "channel": "whatsapp"}
    assert kept_state(post, first) == before
    post.append(first, agent("The agent answers where it is pinned."))
    post.append(first, user("A delayed one", channel="whatsapp"))
    second = home(post.whatsapp("/new"))
    assert home(post.web("Goes on at the desk", first)) == first
    message = post.load(first).messages[-1]
    assert (message.content, message.channel) == ("Goes on at the desk", "web")
    post.append(first, user("And so", channel="web"))
    assert home(post.whatsapp("The phone is elsewhere")) == second


def kept_state(post: Post, conversation_id: str) -> tuple[object, list[str]]:
    return post.get(conversation_id), post.said(conversation_id)


def test_pinned_conversations_can_be_listed(post: Post) -> None:
    old = home(post.whatsapp("Old"))
    new = home(post.whatsapp("/new"))
    desk = home(post.web("At the desk"))
    assert {it.id for it in post.listed(pinned=True).conversations} == {new}
    assert {it.id for it in post.listed(pinned=False).conversations} == {old, desk}


def test_who_watches_sees_a_conversation_begin_and_what_was_said(post: Post) -> None:
    first = home(post.whatsapp("Before"))
    cursor = post.append(first, agent("Hello.")).cursor
    new = home(post.whatsapp("/new"))
    post.whatsapp("Hi there")
    stream = post.conversations.StreamUpdates(api.StreamUpdatesRequest(cursor=cursor))
    watched = (
        element.update for element in stream if element.update.WhichOneof("kind") != "heartbeat"
    )
    updates = list(itertools.islice(watched, 3))
    stream.cancel()
    assert [(it.WhichOneof("kind"), it.conversation_id) for it in updates] == [
        ("conversation_created", new),
        ("conversation_updated", first),
        ("conversation_updated", new),
    ]
    assert updates[0].conversation_created.conversation.pinned
    assert not updates[1].conversation_updated.conversation.pinned
    assert [it.content for it in updates[2].conversation_updated.messages] == ["Hi there"]


def test_the_log_says_where_a_message_went_and_not_what_it_says(post: Post) -> None:
    with structlog.testing.capture_logs() as logs:
        went = home(post.whatsapp("A secret word"))
        post.whatsapp("/model haiku")
    assert [(it["method"], it["conversation"]) for it in logs if it["event"] == "call"] == [
        ("ChannelService.Receive", went)
    ] * 2
    assert "secret" not in str(logs)


def test_an_agent_answers_what_came_in(post: Post) -> None:
    received = post.whatsapp("How warm is it?")
    post.append(home(received), agent("21 degrees."), expected_turn=here(received).turn_count)
    assert reply(post.whatsapp("/history 2")).endswith("21 degrees.")
    assert [it.turn_number for it in post.load(home(received)).messages] == [1, 1]
