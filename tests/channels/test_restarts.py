"""Channels across kills, crashes and a lost index: everything is found where it was, and nothing is
there twice.
"""

import itertools
import os
import signal
from pathlib import Path

import grpc
import orjson
import pytest
from recollect_server.people.received import key_of_delivery

from tests.channels.conftest import ALEX, Post, Reach, home
from tests.conftest import RunningServer, Start
from tests.server.conftest import delete_index, server_process, transcript


def test_everything_is_found_where_it_was_after_the_index_was_deleted(
    start_server: Start, reach: Reach
) -> None:
    server = start_server()
    post = reach(server)
    for channel, identity in (
        ("whatsapp", ALEX),
        ("email", "alex@example.org"),
        ("discord", "77"),
        ("matrix", "@alex:x"),
    ):
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
        assert process.wait() == -signal.SIGKILL
    monkeypatch.delenv("RECOLLECT_KILL_AT")
    with server_process(data) as (_, target), Post(target) as post:
        assert post.whatsapp("Stored and not answered", delivery="wamid.1").duplicate
        assert [it.count("Stored and not answered") for it in post.everything().values()] == [1]


def test_a_first_message_is_one_write_and_whole_or_not_there(
    server: RunningServer, post: Post
) -> None:
    file = transcript(server, home(post.whatsapp("All in one", delivery="wamid.1")))
    began, message = (orjson.loads(line) for line in file.read_bytes().splitlines())
    delivery = key_of_delivery("whatsapp", "1555000", "", "wamid.1")
    assert (began["type"], began["pinned"], began["batch"], began["requestId"]) == (
        "meta",
        True,
        [1, 2],
        delivery,
    )
    assert (message["type"], message["batch"], message["requestId"], message["turnNumber"]) == (
        "turn",
        [2, 2],
        delivery,
        1,
    )


def test_a_first_message_cut_off_by_a_crash_was_never_there(
    start_server: Start, reach: Reach
) -> None:
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
