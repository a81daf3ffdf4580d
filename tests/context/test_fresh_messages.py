"""Contexts right after a message was appended, before the embedder has come to it."""

import threading
from collections.abc import Iterator, Sequence

import pytest
from recollect_server.recall.model.embedder import EmbeddedPiece, Embedder, Piece

from tests.conftest import RunningServer, Start
from tests.context.conftest import built, said
from tests.server.conftest import Connect, Service
from tests.waiting import until_embedded

# each conversation as the user's message and the answer
EMBEDDED = (
    ("Why was the server so slow last night?", "The disk is almost full, most of it old logs."),
    ("Then let us rotate the logs daily.", "Done: logrotate runs every night at three."),
    ("Umbrella forgotten in tram 6.", "I noted it."),
    ("Haircut next Tuesday at five with Denise.", "I noted it."),
)
FRESH = (
    ("The backup of the photo server runs every night at three.", "Noted."),
    ("Ottokar the zebra moved to Ghent in May.", "I will remember."),
    ("Our landlord is called Mr. Petridis and lives upstairs.", "Noted."),
)
ANSWERED = (
    ("When does the backup of the photos run?", 0),
    ("Where did the zebra Ottokar move?", 1),
    ("What is the name of our landlord?", 2),
)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold the embedding of messages once the event is set. A question of one piece is embedded by
    another function, so searches by meaning go on.
    """
    hold, released = threading.Event(), threading.Event()
    embed = Embedder.embed_pieces

    def embed_or_wait(embedder: Embedder, pieces: Sequence[Piece]) -> list[EmbeddedPiece]:
        if hold.is_set():
            released.wait()
        return embed(embedder, pieces)

    monkeypatch.setattr(Embedder, "embed_pieces", embed_or_wait)
    yield hold
    hold.clear()
    released.set()


@pytest.fixture
def fresh(start_server: Start, connect: Connect, held: threading.Event) -> Service:
    """Return a server with messages of which the last ones are not embedded."""
    server: RunningServer = start_server(embedder="onnx")
    service = connect(server)
    for texts in EMBEDDED:
        service.conversation_of(*texts)
    until_embedded(service, server)
    held.set()
    for texts in FRESH:
        service.conversation_of(*texts)
    return service


def test_a_message_is_recalled_by_its_words_before_it_is_embedded(fresh: Service) -> None:
    here = fresh.create().id
    missed = []
    for question, at in ANSWERED:
        assert "vector_messages" in fresh.search(question).legs_run
        if FRESH[at][0] not in said(built(fresh, here, question, total=120).cold)[:3]:
            missed.append(question)
    assert not missed
