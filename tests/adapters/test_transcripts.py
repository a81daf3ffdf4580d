"""The transcript that the thin adapters share: messages of another toolkit as a conversation."""

import threading
from base64 import b64encode
from typing import Any

import pytest
from recollect import Client, Party, Role
from recollect._shared.history import read_history
from recollect._sync.invoker import Invoker
from recollect.adapters.packing import FILES
from recollect.adapters.transcripts import Transcript, Words, delete_all

from tests.conftest import RunningServer
from tests.server.conftest import files_with


def test_programs_that_begin_a_transcript_at_once_lose_nothing(
    server: RunningServer, client: Client
) -> None:
    at_once = threading.Barrier(4)

    def add(number: int) -> None:
        with Client(server.target) as own:
            for name in range(5):
                at_once.wait(30)
                transcript = Transcript(own, "web", Party(group_id=f"s{name}"), "test")
                transcript.add([({"text": f"{number}"}, Words(role=Role.USER, texts=[["text"]]))])

    threads = [threading.Thread(target=add, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in range(5):
        transcript = Transcript(client, "web", Party(group_id=f"s{name}"), "test")
        assert sorted(it.item["text"] for it in transcript.read()) == ["0", "1", "2", "3"]
        assert transcript.delete()
        assert not transcript.delete()
        transcript.add([({"text": "anew"}, Words(role=Role.USER, texts=[["text"]]))])
        assert [it.item for it in transcript.read()] == [{"text": "anew"}]


def test_a_transcript_that_is_kept_asks_for_its_conversation_once(
    server: RunningServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    run = Invoker.run

    def counted(self: Invoker, call: Any, timeout: float | None) -> Any:
        made.append(call.method.path.rpartition("/")[2])
        return run(self, call, timeout)

    monkeypatch.setattr(Invoker, "run", counted)
    words = Words(role=Role.USER, texts=[["text"]])
    transcript = Transcript(client, "web", Party(group_id="kept"), "test")
    transcript.add([({"text": "a"}, words)])
    made.clear()
    transcript.add([({"text": "b"}, words)])
    rows = transcript.read()
    transcript.take_back([rows[0].sequence])
    assert [it.item["text"] for it in transcript.read(latest=5)] == ["b"]
    assert made == ["AppendTurn", "Load", "AppendTurn", "Load"]
    # Another process deletes it and begins it anew.
    with Client(server.target) as other:
        again = Transcript(other, "web", Party(group_id="kept"), "test")
        assert again.delete()
        assert transcript.read() == []
        transcript.add([({"text": "c"}, words)])
        assert again.delete()
        again.add([({"text": "d"}, words)])
        transcript.add([({"text": "e"}, words)])
        assert [it.item["text"] for it in transcript.read()] == ["d", "e"]


def test_a_repeat_of_what_takes_several_calls_is_kept_once(client: Client) -> None:
    transcript = Transcript(client, "web", Party(group_id="large"), "test")
    words = Words(role=Role.USER, texts=[["text"]])
    texts = [letter * 900_000 for letter in "abcdefgh"]
    for _ in range(2):
        transcript.add([({"text": it}, words) for it in texts], request_id="r-1")
    assert [it.item["text"] for it in transcript.read()] == texts
    assert transcript.read(latest=0) == []


def test_a_message_of_many_short_texts_comes_back(client: Client) -> None:
    transcript = Transcript(client, "web", Party(group_id="many"), "test")
    items = [
        {"text": "zeppelin", "lines": [f'line {it} "\0' for it in range(count)]}
        for count in (9, 9000)
    ]
    for role in (Role.USER, Role.ASSISTANT):
        transcript.add([(it, Words(role=role, texts=[["text"]])) for it in items])
    assert [it.item for it in transcript.read()] == [*items, *items]
    [conversation] = client.conversations.list()
    messages = client.conversations.load(conversation.id).messages
    assert [it.content for it in messages if it.content] == ["zeppelin"] * 4


def test_a_party_without_names_is_its_own_and_not_that_of_every_conversation(
    client: Client,
) -> None:
    words = Words(role=Role.USER, texts=[["text"]])
    parties = [
        Party(group_id="s1"),
        Party(),
        Party(thread_id="t"),
        Party(group_id="s1", thread_id="t"),
    ]
    for party in parties:
        transcript = Transcript(client, "web", party, "test")
        assert transcript.read() == []
        transcript.add([({"text": f"{party}"}, words)])
    for party in parties:
        transcript = Transcript(client, "web", party, "test")
        assert [it.item["text"] for it in transcript.read()] == [f"{party}"]
    delete_all(client, "web", "")
    assert {it.party and it.party.group_id for it in client.conversations.list()} == {"s1"}
    delete_all(client, "web")
    assert not [*client.conversations.list()]


def test_words_that_are_too_long_for_a_message_stand_in_parts_in_every_script(
    client: Client,
) -> None:
    transcript = Transcript(client, "web", Party(group_id="long"), "test")
    words = Words(role=Role.USER, texts=[["text"]], kind="text", overflow=FILES)
    texts = [letter * 600_000 for letter in ("a", "ü", "字", "🎈")]
    transcript.add([({"text": it}, words) for it in texts])
    assert [it.item["text"] for it in transcript.read()] == texts
    [conversation] = client.conversations.list()
    stored = read_history(client.conversations.load, conversation.id).messages
    assert [it.content for it in stored if it.content] == ["[text]"] * 4


def test_a_replaced_message_keeps_its_place_and_leaves_no_word_or_file(
    server: RunningServer, client: Client
) -> None:
    transcript = Transcript(client, "web", Party(group_id="replaced"), "test")
    words = Words(role=Role.USER, texts=[["text"]])
    picture = {"type": "image", "data": b64encode(b"kazoo" * 200_000).decode()}
    first = {"text": "a xylophone", "picture": picture}
    transcript.add([(it, words) for it in ({"text": "0"}, first, first, {"text": "3"})])
    place = transcript.read()[1].sequence
    for number in range(2):
        transcript.replace(place, {"text": f"changed {number}"}, words)
    rows = [it for it in transcript.read() if isinstance(it.item, dict)]
    assert [it.item for it in rows] == [
        {"text": "0"},
        {"text": "changed 1"},
        first,
        {"text": "3"},
    ]
    assert rows[1].sequence == place
    transcript.replace(rows[2].sequence, {"text": "changed too"}, words)
    transcript.take_back([place])
    items = [it.item for it in transcript.read() if isinstance(it.item, dict)]
    assert items == [{"text": "0"}, {"text": "changed too"}, {"text": "3"}]
    server.stop()
    kazoos = b64encode(b"kazoo" * 99).decode()
    assert not files_with(server.data_dir, "xylophone", "changed 0", kazoos)
