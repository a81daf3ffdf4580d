"""Collect the retrievers' scores of every candidate of labelled questions, for `bench/learn.py`.

A server over each group's history runs in this process, and the arrays that it passes to
`services.recall.fusion` are kept. Vectors are cached by their word pieces in a file, so a second
run takes a minute or two.
"""

import pickle
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from recollect import Client
from recollect.cli.plans import Plan
from recollect_server import app
from recollect_server.inference.embedder import Embedder, Piece, Vectors
from recollect_server.services.recall import candidates, fusion, recall
from recollect_server.services.recall.candidates import Candidates
from recollect_server.services.recall.retrievers import ConversationLegs, Fused, MessageLegs
from recollect_server.services.recall.retrievers import Question as Put
from recollect_server.settings import Settings

from bench.recall import Question, Service
from bench.servers import embedded


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question with what every leg says, and which of the candidates are right."""

    kind: str
    group: str
    question: Put
    messages: MessageLegs
    conversations: ConversationLegs
    right_messages: NDArray[np.bool_]
    right_conversations: NDArray[np.bool_]
    gold_messages: int
    gold_conversations: int


class RememberedVectors:
    """Vectors by word pieces, in a file: what was embedded once is not embedded again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._vectors: dict[bytes, NDArray[np.float32]] = (
            pickle.loads(path.read_bytes()) if path.exists() else {}  # noqa: S301 - our own file
        )
        self._embed = Embedder.embed_pieces

    def embed(self, embedder: Embedder, pieces: Sequence[Piece]) -> Vectors:
        """Embed as `Embedder.embed_pieces`."""
        keys = [np.array(piece, np.uint16).tobytes() for piece in pieces]
        missing = {
            key: piece for key, piece in zip(keys, pieces, strict=True) if key not in self._vectors
        }
        self._vectors |= zip(missing, self._embed(embedder, [*missing.values()]), strict=True)
        return np.stack([self._vectors[key] for key in keys])

    def save(self) -> None:
        """Write the file."""
        self._path.write_bytes(pickle.dumps(self._vectors))


def collect(
    kind: str, plans: list[Plan], questions: list[Question], vectors: RememberedVectors
) -> list[Labelled]:
    """Put a group's questions to a server of its own in this process."""
    gathered: list[Candidates] = []
    put: list[Put] = []
    gather, fuse = candidates.gather, fusion.fuse

    def watched_gather(*arguments: Any) -> Candidates:
        gathered.append(gather(*arguments))
        return gathered[-1]

    def watched_fuse(
        question: Put, messages: MessageLegs, conversations: ConversationLegs
    ) -> Fused:
        put.append(question)
        return fuse(question, messages, conversations)

    def remembered(embedder: Embedder, pieces: Sequence[Piece]) -> Vectors:
        return vectors.embed(embedder, pieces)

    labelled: list[Labelled] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(recall, "gather", watched_gather),
        patch.object(candidates, "fuse", watched_fuse),
        patch.object(Embedder, "embed_pieces", remembered),
    ):
        server = app.start(
            Settings.load(
                None, {"listen": "127.0.0.1:0", "data_dir": Path(folder), "durability": "os"}
            )
        )
        try:
            with Client(server.address) as client:
                service = Service(client, plans)
                embedded(Path(folder))
                for question in questions:
                    service.ask(question)
                    if put:
                        labelled.append(
                            _labelled(kind, question, put.pop(), gathered.pop(), service)
                        )
        finally:
            server.stop()
    return labelled


def _labelled(
    kind: str, question: Question, put: Put, candidates: Candidates, service: Service
) -> Labelled:
    conversations = [service.conversations[it.id] for it in candidates.conversations]
    messages = [
        service.messages[candidates.conversation_of(at).id, it.place[0]]
        for at, it in enumerate(candidates.messages)
    ]
    return Labelled(
        kind,
        question.group,
        put,
        candidates.message_legs,
        candidates.conversation_legs,
        np.isin(messages, question.gold_messages),
        np.isin(conversations, question.gold_conversations),
        len(set(question.gold_messages)),
        len(set(question.gold_conversations)),
    )
