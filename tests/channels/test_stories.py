"""Channels, told as stories."""

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path

import grpc
import orjson
import pytest
import structlog
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.message_pb2 import Attachment
from recollect_server.services import routes

from tests.channels.conftest import ALEX, SAM, Post, here, home, reply
from tests.conftest import MovableClock, RunningServer
from tests.server.conftest import (
    agent,
    at_once,
    delete_index,
    failure_of,
    files_with,
    kept_by,
    moment,
    server_process,
    transcript,
    user,
)

Start = Callable[..., RunningServer]
Reach = Callable[[RunningServer], Post]


def test_a_contact_writes_resets_writes_again_is_linked_to_mail_and_is_found_from_the_web(post: Post) -> None:
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
    assert post.said(first) == ["The boiler is leaking", "It drips on the floor", "I called the plumber."]
    assert post.said(third) == ["The plumber sent his bill"]


def test_what_came_in_is_stored_as_it_was_said(post: Post, clock: MovableClock) -> None:
    picture = Attachment(media_type="image/png", uri="https://example.org/1", bytes_length=7)
    answer = post.whatsapp("", attachments=[picture], time=moment(clock.now - 60_000))
    (message,) = answer.conversation.messages
    assert (message.sender, message.turn_number, message.sequence, message.attachments[0]) == ("1555000", 1, 2, picture)
    assert message.timestamp == moment(clock.now - 60_000)
    conversation = here(answer)
    assert (conversation.channel, conversation.party.contact, conversation.pinned) == ("whatsapp", "1555000", True)
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
    found = post.get(group)
    assert (list(found.participants), found.party.group_id, found.party.contact) == (["1555000", "1555111"], "1203@g.us", "")
    assert [it.sender for it in post.load(group).messages] == ["1555000", "1555111"]


def test_a_reset_of_a_group_leaves_its_people_alone(post: Post) -> None:
    group, alone = home(post.whatsapp("Cake?", group="1203@g.us")), home(post.whatsapp("Hello"))
    anew = home(post.whatsapp("/new", group="1203@g.us"))
    assert home(post.whatsapp("Pie?", group="1203@g.us")) == anew != group
    assert home(post.whatsapp("Hello again")) == alone


def test_a_provider_delivers_a_message_three_times(post: Post, clock: MovableClock) -> None:
    first = post.whatsapp("Only once", delivery="wamid.1")
    clock.move(60_000)
    post.whatsapp("And then this", delivery="wamid.2")
    again = post.whatsapp("Only once", "1555000@s.whatsapp.net", delivery="wamid.1", time=moment(clock.now))
    changed = post.whatsapp("Only once, edited", delivery="wamid.1")
    assert (first.duplicate, again.duplicate, changed.duplicate) == (False, True, True)
    assert first.conversation == again.conversation == changed.conversation
    assert post.said(home(first)) == ["Only once", "And then this"]


def test_the_same_delivery_on_another_channel_is_another_message(post: Post) -> None:
    post.own("signal", ALEX)
    first, second = post.whatsapp("One", delivery="1"), post.deliver("signal", "Two", ALEX, delivery="1")
    assert not second.duplicate
    assert home(first) != home(second)


def test_a_provider_delivers_again_after_a_restart_and_with_a_new_index(start_server: Start, reach: Reach) -> None:
    server = start_server()
    post = reach(server)
    post.own("whatsapp", ALEX)
    first = post.whatsapp("Only once", delivery="wamid.1")
    commanded = post.whatsapp("/history", delivery="wamid.2")
    new = post.whatsapp("/new", delivery="wamid.3")
    kept = post.everything()
    for lose_the_index in (False, True):
        server.stop()
        if lose_the_index:
            delete_index(server)
        server = start_server()
        post = reach(server)
        for said, before in (("Only once", first), ("/history", commanded), ("/new", new)):
            again = post.whatsapp(said, delivery=f"wamid.{1 + [first, commanded, new].index(before)}")
            assert again.duplicate
            assert (again.conversation, again.command_reply) == (before.conversation, before.command_reply)
        assert post.everything() == kept


def test_messages_that_come_at_the_same_moment_begin_one_conversation(post: Post) -> None:
    for round_ in range(5):
        sender = f"+4930{round_}"
        post.own("whatsapp", sender)
        homes = at_once(8, lambda number, sender=sender: home(post.whatsapp(f"Message {number}", sender)))  # type: ignore[misc]
        assert len(set(homes)) == 1
        assert sorted(post.said(homes[0])) == [f"Message {number}" for number in range(8)]


def test_a_message_that_is_delivered_by_eight_at_once_is_stored_once(post: Post) -> None:
    answers = at_once(8, lambda _: post.whatsapp("Once", delivery="wamid.9"))
    assert sorted(it.duplicate for it in answers) == [False] + [True] * 7
    assert post.everything() == {home(answers[0]): ["Once"]}


def test_a_command_that_is_delivered_by_eight_at_once_is_run_once(post: Post) -> None:
    first = home(post.whatsapp("Hello"))
    answers = at_once(8, lambda _: post.whatsapp("/new", delivery="wamid.9"))
    assert len({home(it) for it in answers}) == 1
    assert set(post.everything()) == {first, home(answers[0])}


def test_everything_is_found_where_it_was_after_the_index_was_deleted(start_server: Start, reach: Reach) -> None:
    server = start_server()
    post = reach(server)
    for channel, identity in (("whatsapp", ALEX), ("email", "alex@example.org"), ("discord", "77"), ("matrix", "@alex:x")):
        post.own(channel, identity)
    numbers = itertools.count()

    def everywhere(post: Post) -> list[str]:
        number = next(numbers)
        return [
            home(post.whatsapp("Hi")),
            home(post.whatsapp("Hi", group="1203@g.us")),
            home(post.discord("Hi", dm_user_id="77")),
            home(post.discord("Hi", channel_id="77")),
            home(post.discord("Hi", thread_id="77")),
            home(post.cli("Hi")),
            home(post.cli("Hi", "work")),
            home(post.deliver("matrix", "Hi", "@alex:x")),
            home(post.web("Hi")),
            home(post.mail("Hi", f"<{number}@mail>", "<first@mail>")),
            home(post.mail("Hi", f"<other-{number}@mail>", "<third@mail>")),
        ]

    post.whatsapp("Before")
    post.whatsapp("/new")
    post.mail("One", "<first@mail>")
    post.mail("Two", "<second@mail>")
    post.mail("Both are one", "<both@mail>", references=["<first@mail>", "<second@mail>"])
    post.mail("Three", "<third@mail>")
    post.mail("/new", "<reset@mail>", "<third@mail>")
    before = everywhere(post)
    assert len(set(before)) == len(before)
    server.stop()
    server = start_server()
    assert everywhere(reach(server)) == before
    server.stop()
    delete_index(server)
    server = start_server()
    post = reach(server)
    assert everywhere(post) == before
    assert home(post.mail("Of the second", "<x@mail>", "<second@mail>")) == before[-2]


def test_a_server_that_is_killed_knows_what_it_answered(tmp_path: Path) -> None:
    data = tmp_path / "data"
    homes: list[str] = []
    for round_ in range(3):
        with server_process(data) as (process, target), Post(target) as post:
            post.own("whatsapp", ALEX)
            for earlier in range(round_):
                assert post.whatsapp(f"Round {earlier}", delivery=f"wamid.{earlier}").duplicate
            homes.append(home(post.whatsapp(f"Round {round_}", delivery=f"wamid.{round_}")))
            assert post.said(homes[0]) == [f"Round {number}" for number in range(round_ + 1)]
            os.kill(process.pid, signal.SIGKILL)
    assert len(set(homes)) == 1


@pytest.mark.parametrize("point", ["create.written", "index.put", "append.written"])
def test_a_server_killed_between_the_disk_and_the_answer_takes_the_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    data = tmp_path / "data"
    with server_process(data) as (_, target), Post(target) as post:
        post.own("whatsapp", ALEX)
        if point == "append.written":
            post.whatsapp("Hello", delivery="wamid.0")
    monkeypatch.setenv("RECOLLECT_KILL_AT", point)
    with server_process(data) as (process, target):
        with Post(target) as post, pytest.raises(grpc.RpcError):
            post.whatsapp("Stored and not answered", delivery="wamid.1")
        assert process.wait(30) == -signal.SIGKILL
    monkeypatch.delenv("RECOLLECT_KILL_AT")
    with server_process(data) as (_, target), Post(target) as post:
        assert post.whatsapp("Stored and not answered", delivery="wamid.1").duplicate
        assert [it.count("Stored and not answered") for it in post.everything().values()] == [1]


def test_a_first_message_is_one_write_and_whole_or_not_there(server: RunningServer, post: Post) -> None:
    file = transcript(server, home(post.whatsapp("All in one", delivery="wamid.1")))
    began, said = (orjson.loads(line) for line in file.read_bytes().splitlines())
    assert (began["type"], began["pinned"], began["batch"], began["requestId"]) == ("meta", True, [1, 2], "whatsapp wamid.1")
    assert (said["type"], said["batch"], said["requestId"], said["turnNumber"]) == ("turn", [2, 2], "whatsapp wamid.1", 1)


def test_a_first_message_cut_off_by_a_crash_was_never_there(start_server: Start, reach: Reach) -> None:
    server = start_server()
    post = reach(server)
    post.own("whatsapp", ALEX)
    file = transcript(server, home(post.whatsapp("Half of it", delivery="wamid.1")))
    server.stop()
    data = file.read_bytes()
    file.write_bytes(data[: data.index(b"\n") + 20])
    delete_index(server)
    post = reach(start_server())
    again = post.whatsapp("Half of it", delivery="wamid.1")
    assert not again.duplicate
    assert post.everything() == {home(again): ["Half of it"]}


def test_discord_keeps_direct_messages_channels_and_threads_apart(post: Post) -> None:
    post.own("discord", "77")
    post.own("discord", "<@78>")
    names = [{"dm_user_id": "77"}, {"channel_id": "77"}, {"thread_id": "77"}, {"channel_id": "78"}]
    homes = [home(post.discord("Hi", **name)) for name in names]
    assert len(set(homes)) == 4
    assert [home(post.discord("Again", **name)) for name in names] == homes
    assert home(post.discord("I too", "<@!78>", channel_id="77")) == homes[1]
    assert home(post.deliver("discord", "Direct", "77")) == homes[0]
    assert [post.get(it).party.thread_id for it in homes[:3]] == ["discord:dm:77", "discord:channel:77", "discord:thread:77"]


def test_the_command_line_has_its_sessions_by_name(post: Post) -> None:
    default, work = home(post.cli("Hi")), home(post.cli("Hi", "work"))
    assert default != work
    assert home(post.cli("Again", "default")) == home(post.deliver("cli", "Without an origin")) == default
    anew = home(post.cli("/new", "work"))
    assert home(post.cli("Hi", "work")) == anew
    assert home(post.cli("Hi")) == default
    assert [post.get(it).party.thread_id for it in (default, anew)] == ["cli:default", "cli:work"]


def test_the_web_goes_on_with_the_most_recent_one_or_the_one_named(post: Post, clock: MovableClock) -> None:
    first = home(post.web("Hello"))
    clock.move(1000)
    second = post.create("web").id
    assert home(post.web("To the newer one")) == second
    clock.move(1000)
    assert home(post.web("To the older one", first)) == first
    clock.move(1000)
    assert home(post.web("Which is the most recent now")) == first
    clock.move(1000)
    third = home(post.web("/new"))
    assert home(post.web("Anew")) == third not in (first, second)
    assert not post.get(third).pinned
    assert failure_of(lambda: post.web("To nobody", "conv-01J00000000000000000000000")).reason == "CONVERSATION_NOT_FOUND"


def test_any_other_channel_has_a_conversation_for_each_sender(post: Post) -> None:
    post.own("matrix", "@alex:example.org")
    post.own("matrix", "@sam:example.org")
    alex, sam = (home(post.deliver("matrix", "Hi", f"@{name}:example.org")) for name in ("alex", "sam"))
    assert alex != sam
    assert home(post.deliver("matrix", "Again", " @alex:example.org ")) == alex
    assert post.get(alex).party.contact == "@alex:example.org"


def test_a_pinned_conversation_is_read_only_for_the_web_and_goes_on_once_it_is_not(post: Post) -> None:
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


def test_a_deleted_message_that_is_delivered_again_does_not_come_back(start_server: Start, reach: Reach) -> None:
    server = start_server()
    post = reach(server)
    post.own("whatsapp", ALEX)
    gone = home(post.whatsapp("Forget the tangerines", delivery="wamid.1"))
    post.delete(gone)
    for lose_the_index in (False, False, True):
        again = post.whatsapp("Forget the tangerines", delivery="wamid.1")
        assert (again.duplicate, again.WhichOneof("outcome")) == (True, None)
        assert gone not in post.everything()
        server.stop()
        if lose_the_index:
            delete_index(server)
        server = start_server()
        post = reach(server)
    assert (post.whatsapp("Forget the tangerines", delivery="wamid.1")).duplicate
    fresh = home(post.whatsapp("Something else"))
    assert fresh != gone
    kept_by(post, server)
    assert not files_with(server.data_dir, "tangerines", "wamid.1", gone)


def test_a_contact_whose_conversation_is_deleted_meanwhile_begins_a_new_one(post: Post) -> None:
    for _ in range(5):
        old = home(post.whatsapp("Hello"))
        homes = at_once(4, lambda number, old=old: home(post.whatsapp("And on")) if number else post.delete(old) and "")  # type: ignore[misc]
        assert old not in post.everything()
        assert home(post.whatsapp("Still there?")) in {*homes, *post.everything()}
        assert len(post.listed(pinned=True).conversations) == 1


def test_who_watches_sees_a_conversation_begin_and_what_was_said(post: Post) -> None:
    first = home(post.whatsapp("Before"))
    cursor = post.append(first, agent("Hello.")).cursor
    new = home(post.whatsapp("/new"))
    post.whatsapp("Hi there")
    stream = post.conversations.StreamUpdates(api.StreamUpdatesRequest(cursor=cursor))
    told = (element.update for element in stream if element.update.WhichOneof("kind") != "heartbeat")
    updates = list(itertools.islice(told, 3))
    stream.cancel()
    assert [(it.WhichOneof("kind"), it.conversation_id) for it in updates] == [
        ("conversation_created", new),
        ("conversation_updated", first),
        ("conversation_updated", new),
    ]
    assert updates[0].conversation_created.conversation.pinned
    assert not updates[1].conversation_updated.conversation.pinned
    assert [it.content for it in updates[2].conversation_updated.messages] == ["Hi there"]


def test_a_place_has_its_new_conversation_also_where_the_old_one_was_looked_up(
    start_server: Start, reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "_PRUNE", 0)  # what the index has taken in is asked of it
    post = reach(start_server())
    places = ("+1 555-001", "+1 555-002")
    for place in (ALEX, *places):
        post.own("whatsapp", place)

    def settle() -> None:
        for place in places:
            post.whatsapp("/new", place)
            post.listed()  # answered once the index has taken in everything

    first = home(post.whatsapp("Before"))
    settle()
    assert home(post.whatsapp("Still here")) == first
    second = home(post.whatsapp("/new"))
    settle()
    assert home(post.whatsapp("And now here")) == second != first


def test_the_log_says_where_a_message_went_and_not_what_it_says(post: Post) -> None:
    with structlog.testing.capture_logs() as logs:
        went = home(post.whatsapp("A secret word"))
        post.whatsapp("/model haiku")
    assert [(it["method"], it["conversation"]) for it in logs if it["event"] == "call"] == [("ChannelService.Receive", went)] * 2
    assert "secret" not in str(logs)


def test_an_agent_answers_what_came_in(post: Post) -> None:
    received = post.whatsapp("How warm is it?")
    post.append(home(received), agent("21 degrees."), expected_turn=here(received).turn_count)
    assert reply(post.whatsapp("/history 2")).endswith("21 degrees.")
    assert [it.turn_number for it in post.load(home(received)).messages] == [1, 1]
