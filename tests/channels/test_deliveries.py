"""Deliveries that come twice, at once, or after a delete: stored once and answered alike."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
from recollect_server.kernel.log.lines import Line, seal, unseal

from tests.channels.conftest import (
    ALEX,
    ALEX_MAIL,
    SAM,
    STRANGER,
    Post,
    Reach,
    Response,
    home,
    reply,
)
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import at_once, delete_index, files_with, kept_by, moment
from tests.server.test_redact import redact


def test_a_provider_delivers_a_message_three_times(post: Post, clock: MovableClock) -> None:
    first = post.whatsapp("Only once", delivery="wamid.1")
    clock.move(60_000)
    post.whatsapp("And then this", delivery="wamid.2")
    again = post.whatsapp(
        "Only once", "1555000@s.whatsapp.net", delivery="wamid.1", time=moment(clock.now)
    )
    changed = post.whatsapp("Only once, edited", delivery="wamid.1")
    assert (first.duplicate, again.duplicate, changed.duplicate) == (False, True, True)
    assert first.conversation == again.conversation
    # an answer holds nothing that its caller did not send: here another text
    assert (home(changed), list(changed.conversation.messages)) == (home(first), [])
    assert post.said(home(first)) == ["Only once", "And then this"]


def test_one_id_of_several_senders_or_places_is_as_many_messages(post: Post) -> None:
    """A sender of mail chooses its Message-ID, and messengers number the messages of each chat."""
    post.own("whatsapp", SAM)
    post.own("discord", "77")

    def deliveries() -> list[tuple[str, Response]]:
        mallory = "mallory@example.net"
        return [
            ("a", post.mail("a", "<m1@x>", delivery="<m1@x>")),
            ("b", post.mail("b", "<m1@x>", delivery="<m1@x>", sender=mallory)),
            ("c", post.mail("c", "<m2@x>", delivery="<m2@x>", sender=mallory)),
            ("d", post.mail("d", "<m2@x>", delivery="<m2@x>")),
            ("e", post.whatsapp("e", delivery="7")),
            ("f", post.whatsapp("f", SAM, delivery="7")),
            ("g", post.whatsapp("g", delivery="7", group="1@g.us")),
            ("h", post.whatsapp("h", delivery="7", group="2@g.us")),
            ("i", post.whatsapp("i", STRANGER, delivery="7")),
            ("j", post.whatsapp("j", STRANGER, delivery="7", group="1@g.us")),
            ("k", post.discord("k", delivery="7", dm_user_id="77")),
            ("l", post.discord("l", delivery="7", channel_id="1")),
            ("m", post.discord("m", delivery="7", thread_id="1")),
            ("n", post.cli("n", delivery="7")),
            ("o", post.cli("o", "other", delivery="7")),
            ("p", post.deliver("telegram", "p", "1001", delivery="7")),
            ("q", post.deliver("telegram", "q", "1002", delivery="7")),
        ]

    def texts(response: Response) -> list[str]:
        if response.WhichOneof("outcome") == "external":
            return [response.external.message.text]
        return [it.content for it in response.conversation.messages]

    first, again = deliveries(), deliveries()
    assert [texts(it) for _, it in first] == [[text] for text, _ in first]
    assert not any(it.duplicate for _, it in first)
    assert [texts(it) for _, it in again] == [[text] for text, _ in again]
    assert all(it.duplicate for _, it in again)
    owners = {text for text, it in first if it.WhichOneof("outcome") == "conversation"}
    assert owners == set("adefghklmno")
    assert sorted(chain.from_iterable(post.everything().values())) == sorted(owners)


@pytest.mark.files
def test_what_a_version_before_stored_by_channel_and_id_alone_is_known_again(
    start_server: Start, reach: Reach
) -> None:
    server = start_server()
    post = reach(server)
    post.own("whatsapp", ALEX)
    post.own("whatsapp", SAM)
    post.own("email", ALEX_MAIL)

    def deliveries(sender: str = ALEX, mail: str = ALEX_MAIL, group: str = "1@g.us") -> list[bool]:
        return [
            post.whatsapp("Alone", sender, delivery="1").duplicate,
            post.whatsapp("/history", sender, delivery="2").duplicate,
            post.whatsapp("Together", sender, group, delivery="3").duplicate,
            post.mail("By mail", "<m1@x>", delivery="<m1@x>", sender=mail).duplicate,
            post.whatsapp("Of a stranger", f"{sender}9", delivery="4").duplicate,
            post.whatsapp("Forgotten", sender, "3@g.us", delivery="5").duplicate,
        ]

    deliveries()
    forgotten = next(it for it, texts in post.everything().items() if texts == ["Forgotten"])
    server.stop()
    for path in server.folder.glob("conv-*.jsonl"):
        lines = map(unseal, path.read_bytes().splitlines())
        path.write_bytes(b"".join(seal(_as_before(line)) for line in lines))
    delete_index(server)
    server = start_server()
    post = reach(server)
    post.delete(forgotten)
    assert deliveries() == [True] * 6
    before = post.everything()
    # neither another sender nor another place is a repeat of them
    assert deliveries(SAM, "mallory@example.net", "2@g.us")[:5] == [False] * 5
    assert before == {name: texts for name, texts in post.everything().items() if name in before}


def _as_before(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line as a version before wrote it: its delivery named the channel and the id."""
    words = line.get("requestId", "").split(" ", 2)
    return line | {"requestId": f"{words[0][1:]} {words[2]}"} if len(words) == 3 else line


def test_a_repeat_with_other_words_is_answered_without_words(post: Post) -> None:
    post.whatsapp("The door code is 4711")
    commanded = post.whatsapp("/history", delivery="1")
    assert "4711" in reply(commanded)
    for text in ("/help", "What did I say?"):
        other = post.whatsapp(text, delivery="1")
        assert (other.duplicate, reply(other), home(other)) == (True, "", home(commanded))
    stranger = post.whatsapp("A secret", STRANGER, delivery="2").external
    other = post.whatsapp("What did I write?", STRANGER, delivery="2")
    assert (other.duplicate, other.external.communication.id, "secret" in str(other)) == (
        True,
        stranger.communication.id,
        False,
    )


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


@pytest.mark.one_server  # an append follows the other server after a quarter of a second only
def test_a_repeat_beside_a_redaction_leaves_no_text_for_the_next_one(
    post: Post, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ("Please book a table at Florbtangle", "For two", "At eight")
    for at, text in enumerate(texts):
        name = home(post.web(text, delivery=f"w-{at}"))
    store = server.app.spaces.open_now()[0]._space.store
    read = store.read

    def read_and_redact(*of: Any) -> Iterator[Line]:
        monkeypatch.undo()
        lines = list(read(*of))
        redact(post, name, sequence=2)
        return iter(lines)

    monkeypatch.setattr(store, "read", read_and_redact)
    post.web(texts[0], delivery="w-0")
    again = post.web(texts[1], delivery="w-1")
    assert again.duplicate
    assert "Florbtangle" not in str(again)
