"""Deliveries that come twice, at once, or after a delete: stored once and answered alike."""

from tests.channels.conftest import ALEX, Post, Reach, home
from tests.conftest import MovableClock, Start
from tests.server.conftest import at_once, delete_index, files_with, kept_by, moment


def test_a_provider_delivers_a_message_three_times(post: Post, clock: MovableClock) -> None:
    first = post.whatsapp("Only once", delivery="wamid.1")
    clock.move(60_000)
    post.whatsapp("And then this", delivery="wamid.2")
    again = post.whatsapp(
        "Only once", "1555000@s.whatsapp.net", delivery="wamid.1", time=moment(clock.now)
    )
    changed = post.whatsapp("Only once, edited", delivery="wamid.1")
    assert (first.duplicate, again.duplicate, changed.duplicate) == (False, True, True)
    assert first.conversation == again.conversation == changed.conversation
    assert post.said(home(first)) == ["Only once", "And then this"]


def test_the_same_delivery_on_another_channel_is_another_message(post: Post) -> None:
    post.own("signal", ALEX)
    first, second = (
        post.whatsapp("One", delivery="1"),
        post.deliver("signal", "Two", ALEX, delivery="1"),
    )
    assert not second.duplicate
    assert home(first) != home(second)


def test_a_provider_delivers_again_after_a_restart_and_with_a_new_index(
    start_server: Start, reach: Reach
) -> None:
    server = start_server()
    post = reach(server)
    post.own("whatsapp", ALEX)
    first = post.whatsapp("Only once", delivery="wamid.1")
    commanded = post.whatsapp("/history", delivery="wamid.2")
    new = post.whatsapp("/new", delivery="wamid.3")
    texts = post.everything()
    for lose_the_index in (False, True):
        server.stop()
        if lose_the_index:
            delete_index(server)
        server = start_server()
        post = reach(server)
        for text, before in (("Only once", first), ("/history", commanded), ("/new", new)):
            again = post.whatsapp(
                text, delivery=f"wamid.{1 + [first, commanded, new].index(before)}"
            )
            assert again.duplicate
            assert (again.conversation, again.command_reply) == (
                before.conversation,
                before.command_reply,
            )
        assert post.everything() == texts


def test_messages_that_come_at_the_same_moment_begin_one_conversation(post: Post) -> None:
    for round_ in range(5):
        sender = f"+4930{round_}"
        post.own("whatsapp", sender)
        homes = at_once(
            8,
            lambda number, sender=sender: home(post.whatsapp(f"Message {number}", sender)),  # type: ignore[misc]
        )
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


def test_a_deleted_message_that_is_delivered_again_does_not_come_back(
    start_server: Start, reach: Reach
) -> None:
    server = start_server()
    post = reach(server)
    post.own("whatsapp", ALEX)
    deleted = home(post.whatsapp("Forget the tangerines", delivery="wamid.1"))
    post.delete(deleted)
    for lose_the_index in (False, False, True):
        again = post.whatsapp("Forget the tangerines", delivery="wamid.1")
        assert (again.duplicate, again.WhichOneof("outcome")) == (True, None)
        assert deleted not in post.everything()
        server.stop()
        if lose_the_index:
            delete_index(server)
        server = start_server()
        post = reach(server)
    assert (post.whatsapp("Forget the tangerines", delivery="wamid.1")).duplicate
    fresh = home(post.whatsapp("Something else"))
    assert fresh != deleted
    kept_by(post, server)
    assert not files_with(server.data_dir, "tangerines", "wamid.1")
    # the audit says which conversation was deleted, by its id
    assert files_with(server.data_dir, deleted) == [f"audit.jsonl: {deleted}"]


def test_a_contact_whose_conversation_is_deleted_meanwhile_begins_a_new_one(post: Post) -> None:
    for _ in range(5):
        old = home(post.whatsapp("Hello"))
        homes = at_once(
            4,
            lambda number, old=old: (  # type: ignore[misc]
                home(post.whatsapp("And on")) if number else post.delete(old) and ""
            ),
        )
        assert old not in post.everything()
        assert home(post.whatsapp("Still there?")) in {*homes, *post.everything()}
        assert len(post.listed(pinned=True).conversations) == 1
