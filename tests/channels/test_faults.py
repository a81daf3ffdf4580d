"""Channels over a disk that refuses, and over an index that is lost or takes nothing in."""

import errno

import pytest

from tests.channels.conftest import Post, home, reply
from tests.conftest import RunningServer
from tests.faults.conftest import Disk, disk
from tests.faults.test_index_faults import refuse_all, remove, whole_again
from tests.server.conftest import failure_of, transcript
from tests.waiting import until

__all__ = ["disk"]


def test_a_first_message_that_the_disk_refuses_is_stored_when_it_is_delivered_again(
    post: Post, disk: Disk
) -> None:
    disk.refuse("pwrite", error=errno.ENOSPC)
    failure = failure_of(lambda: post.whatsapp("Hello", delivery="wamid.1"))
    assert (failure.code, failure.reason, failure.retry_ms) == (
        "UNAVAILABLE",
        "STORAGE_UNAVAILABLE",
        1000,
    )
    disk.restore()
    assert post.everything() == {}
    again = post.whatsapp("Hello", delivery="wamid.1")
    assert not again.duplicate
    assert post.everything() == {home(again): ["Hello"]}


def test_a_message_that_the_disk_refuses_is_held_and_stored_once(post: Post, disk: Disk) -> None:
    first = home(post.whatsapp("Hello"))
    disk.refuse("pwrite", error=errno.EIO)
    for _ in range(2):
        assert (
            failure_of(lambda: post.whatsapp("Again", delivery="wamid.2")).reason
            == "STORAGE_UNAVAILABLE"
        )
    disk.restore()
    assert post.whatsapp("Again", delivery="wamid.2").duplicate
    assert post.whatsapp("And again", delivery="wamid.3").conversation.conversation.turn_count == 3
    assert post.said(first) == ["Hello", "Again", "And again"]


def test_a_command_that_the_disk_refuses_changes_nothing_and_runs_when_it_comes_again(
    post: Post, disk: Disk
) -> None:
    first = home(post.whatsapp("Hello"))
    disk.refuse("pwrite", error=errno.EIO)
    for text, delivery in (("/model opus", "wamid.2"), ("/new", "wamid.3")):
        assert (
            failure_of(
                lambda text=text, delivery=delivery: post.whatsapp(text, delivery=delivery)  # type: ignore[misc]
            ).code
            == "UNAVAILABLE"
        )
    disk.restore()
    assert (post.get(first).model, post.get(first).pinned) == ("", True)
    assert (
        reply(post.whatsapp("/model opus", delivery="wamid.2")) == "The model is opus from here on."
    )
    assert home(post.whatsapp("/new", delivery="wamid.3")) != first


def test_an_old_conversation_that_cannot_be_unpinned_is_unpinned_by_the_repeat(
    server: RunningServer, post: Post, disk: Disk
) -> None:
    old = home(post.whatsapp("Hello"))
    disk.suffix = transcript(server, old).name
    disk.refuse("pwrite", error=errno.EIO)
    assert failure_of(lambda: post.whatsapp("/new", delivery="wamid.2")).code == "UNAVAILABLE"
    disk.restore()
    assert post.get(old).pinned
    again = post.whatsapp("/new", delivery="wamid.2")
    assert again.duplicate
    assert (post.get(old).pinned, home(post.whatsapp("Hello"))) == (False, home(again))


def test_an_identity_that_the_disk_refuses_is_none(post: Post, disk: Disk) -> None:
    disk.refuse("pwrite", error=errno.ENOSPC)
    assert (
        failure_of(lambda: post.own("whatsapp", "+2", request_id="r-1")).reason
        == "STORAGE_UNAVAILABLE"
    )
    disk.restore()
    assert post.identities(channel="whatsapp") == [("whatsapp", "1555000", "")]
    assert post.own("whatsapp", "+2", request_id="r-1").identity == "2"


def test_messages_find_their_conversations_when_the_index_was_lost_under_the_server(
    server: RunningServer, post: Post
) -> None:
    first, thread = (
        home(post.whatsapp("Hello", delivery="wamid.1")),
        home(post.mail("Hello", "<a@x>")),
    )
    file = server.folder / "conversations.db"
    inode = file.stat().st_ino
    remove(server.folder)
    until(lambda: file.exists() and file.stat().st_ino != inode and whole_again(post))
    assert post.whatsapp("Hello", delivery="wamid.1").duplicate
    assert home(post.whatsapp("Again")) == first
    assert home(post.mail("Again", "<b@x>", "<a@x>")) == thread


def test_messages_find_their_conversations_while_the_index_takes_nothing_in(
    server: RunningServer, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = refuse_all(monkeypatch)
    first, thread = (
        home(post.whatsapp("Hello", delivery="wamid.1")),
        home(post.mail("Hello", "<a@x>")),
    )
    assert home(post.whatsapp("Again")) == first
    assert home(post.mail("Again", "<b@x>", "<a@x>")) == thread
    assert post.whatsapp("Hello", delivery="wamid.1").duplicate
    refusing.clear()
    until(lambda: whole_again(post))
    assert home(post.whatsapp("Once more")) == first
    assert home(post.mail("Once more", "<c@x>", "<b@x>")) == thread
    assert post.said(first) == ["Hello", "Again", "Once more"]
