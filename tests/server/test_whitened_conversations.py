"""In a space with many messages, conversations are compared without what all of these have in
common.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from recollect import Client, Message
from recollect_server.recall import fusion, recall, retrieval
from recollect_server.recall.candidates import Candidates
from recollect_server.recall.retrievers import ConversationLegs, Fused
from recollect_server.recall.vectors.matrix import Matrix

from tests.conftest import Start
from tests.server.conftest import Connect
from tests.waiting import until, until_embedded

_THINGS = "fence piano bicycle cake taxes cat coat insurance clock chess"
_SAYS = "Tell me about the {}|Where is the {} now?|Honestly, the {} can wait|Who pays for the {}?"

_GERMAN = (
    "Der Zahnarzt hat den Termin auf Donnerstag um halb neun verlegt, weil er krank ist.",
    "Mein Bruder zieht im Frühjahr nach Leipzig, er hat dort eine Stelle als Tischler gefunden.",
    "Wir haben uns für die blaue Küche entschieden, die Arbeitsplatte wird aus Eiche.",
    "Der Hund verträgt kein Hühnerfleisch, er bekommt davon Ausschlag.",
    "Die Katze schläft den ganzen Nachmittag auf der warmen Heizung und will nicht hinaus.",
)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ConversationLegs, Candidates]]:
    """Return for each search what the ranking compared, and what was gathered."""
    compared: list[ConversationLegs] = []
    both: list[tuple[ConversationLegs, Candidates]] = []
    fuse: Callable[..., Fused] = fusion.fuse
    gather: Callable[..., Candidates] = retrieval.gather

    def watched_fuse(*arguments: Any) -> Fused:
        compared.append(arguments[2])
        return fuse(*arguments)

    def watched_gather(*arguments: Any) -> Candidates:
        gathered = gather(*arguments)
        both.append((compared[-1], gathered))
        return gathered

    monkeypatch.setattr(retrieval, "fuse", watched_fuse)
    monkeypatch.setattr(recall, "gather", watched_gather)
    return both


@pytest.mark.parametrize("models", ["auto", "both"])
def test_conversations_are_compared_so_and_scored_by_their_cosines(
    start_server: Start,
    connect: Connect,
    compared: list[tuple[ConversationLegs, Candidates]],
    models: str,
) -> None:
    server = start_server(embedder="onnx", embedding_models=models)
    texts = [text.format(thing) for thing in _THINGS.split() for text in _SAYS.split("|")]
    with Client(server.target) as client:

        def write(conversations: int) -> None:
            for _ in range(conversations):
                name = client.conversations.create("web").id
                client.conversations.append_turn(name, [Message.user(text) for text in texts])

        write(7)  # 280 messages
        until_embedded(connect(server), server)
        client.recall.search("How do I mend the fence?")
        few, gathered = compared[-1]
        assert few is gathered.conversation_legs
        write(1)
        until_embedded(connect(server), server)

        def whitened() -> bool:
            client.recall.search("How do I mend the fence?")
            return compared[-1][0] is not compared[-1][1].conversation_legs

        until(whitened)  # right behind the last message
    many, gathered = compared[-1]
    legs = gathered.conversation_legs
    assert not np.allclose(many.vector, legs.vector, atol=0.001)
    assert gathered.scans is not None
    numbers = np.array([it.number for it in gathered.conversations])
    near = gathered.scans.messages.conversations(numbers)
    assert many.vector.tolist() == near.whitened.tolist()
    assert legs.vector.tolist() == near.best.tolist()


def test_with_both_models_they_are_compared_so_while_hardly_any_message_is_in_another_language(
    start_server: Start,
    connect: Connect,
    compared: list[tuple[ConversationLegs, Candidates]],
) -> None:
    server = start_server(embedder="onnx", embedding_models="both")
    service = connect(server)
    texts = [text.format(thing) for thing in _THINGS.split() for text in _SAYS.split("|")]

    def is_whitened() -> bool:
        service.search("How do I mend the fence?")
        return compared[-1][0] is not compared[-1][1].conversation_legs

    for _ in range(10):
        service.conversation_of(*texts)
    service.conversation_of(*_GERMAN[:4])  # of 404
    until_embedded(service, server)
    until(is_whitened)
    fifth = service.conversation_of(_GERMAN[4])
    until_embedded(service, server)
    until(lambda: not is_whitened())
    service.delete(fifth)
    until(is_whitened)
    legs, gathered = compared[-1]
    assert not np.allclose(legs.vector, gathered.conversation_legs.vector, atol=0.001)


@pytest.mark.parametrize(
    ("models", "suffixes"),
    [
        ("auto", [*_THINGS.split(), "boat", "garden", "school", "radio"]),
        ("both", ["boat", "garden"] * 4),  # a text is embedded once, and the second model is slow
    ],
)
def test_after_a_restart_with_nothing_but_the_logs_every_answer_is_the_same(
    start_server: Start,
    connect: Connect,
    compared: list[tuple[ConversationLegs, Candidates]],
    monkeypatch: pytest.MonkeyPatch,
    models: str,
    suffixes: list[str],
) -> None:
    under_way: list[Matrix] = []
    whiten = Matrix.whiten

    def watched(matrix: Matrix, *, settled: bool = True) -> None:
        under_way.append(matrix)
        whiten(matrix, settled=settled)
        under_way.remove(matrix)

    monkeypatch.setattr(Matrix, "whiten", watched)
    server = start_server(embedder="onnx", embedding_models=models)
    texts = [text.format(thing) for thing in _THINGS.split() for text in _SAYS.split("|")]
    questions = [f"What was it with the {thing}?" for thing in _THINGS.split()]

    def is_settled(client: Client) -> bool:
        client.recall.search("is anything to be done?")
        scans: Any = compared[-1][1].scans
        parts = scans.messages._parts if models == "both" else [(scans.messages, 1.0)]
        is_due = any(scan._matrix._basis.is_due(settled=True) for scan, _ in parts)
        return scans.messages.is_whitened and not is_due and not under_way

    def write(client: Client, texts: list[str]) -> str:
        name = client.conversations.create("web").id
        client.conversations.append_turn(name, [Message.user(text) for text in texts])
        return name

    with Client(server.target) as client:
        deleted_id = write(client, texts[::2])
        for suffix in suffixes:
            write(client, [f"{text} And the {suffix}?" for text in texts])
        until_embedded(connect(server), server)
        client.conversations.delete(deleted_id)
        write(client, texts[1::5])
        until_embedded(connect(server), server)
        until(lambda: is_settled(client))
        before = [scores_of(client, it) for it in questions]
    server.stop()
    for file in server.folder.glob("*.db*"):
        file.unlink()
    again = start_server(embedder="onnx", embedding_models=models)
    until_embedded(connect(again), again)
    with Client(again.target) as client:
        until(lambda: is_settled(client))
        assert [scores_of(client, it) for it in questions] == before


def scores_of(client: Client, query: str) -> list[tuple[str, float]]:
    """Return the conversations and the messages of an answer with their scores."""
    answer = client.recall.search(query, limit=20, explain=True)
    return [
        *((it.conversation_id, it.score) for it in answer.results),
        *((f"{it.conversation_id} {it.sequence}", it.score) for it in answer.hits),
    ]
