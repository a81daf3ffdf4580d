"""Collect the retrievers' scores of every candidate of labelled questions, for `bench/learn.py`.

A server over each group's history runs in this process, and the arrays that it passes to
`recall.fusion` are kept. Every conversation has an abbreviation, as in a server with its
defaults: the set's, or one of the offline writer. Vectors are cached by their word pieces in a
file, so a second run takes a minute or two.
"""

import pickle
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from recollect import Client
from recollect.imports.plans import Event, Plan
from recollect_server.recall import fusion, recall, retrieval
from recollect_server.recall.candidates import Candidates
from recollect_server.recall.fusion import Match, Sections
from recollect_server.recall.meaning import Meaning, Scans
from recollect_server.recall.model.embedder import EmbeddedPiece, Embedder, Piece
from recollect_server.recall.retrievers import ConversationLegs, Fused, MessageLegs
from recollect_server.recall.retrievers import Question as Put
from recollect_server.run import app
from recollect_server.run.settings import Settings

from bench.abbreviations import written
from bench.recall import Ask, Question, Service, figures, plain_fts5
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
    id: str
    sections: Sections | None
    """The legs of messages by the sections of long conversations."""
    plain_messages: list[float]
    """Figures of plain FTS5, as `bench.recall.figures` returns them; empty without gold."""
    plain_conversations: list[float]


class RememberedVectors:
    """Vectors and codes by word pieces, in a file: what was embedded once is not embedded again."""

    def __init__(self, path: Path | None) -> None:
        """Without a path they are remembered until the end of the run."""
        self._path = path
        self._embedded: dict[bytes, EmbeddedPiece] = (
            pickle.loads(path.read_bytes()) if path and path.exists() else {}  # noqa: S301 - our own file
        )
        self._count = len(self._embedded)
        self._embed = Embedder.embed_pieces

    def embed(self, embedder: Embedder, pieces: Sequence[Piece]) -> list[EmbeddedPiece]:
        """Embed as `Embedder.embed_pieces`."""
        # of each model: their vocabularies differ, and one has more than 65,536 pieces
        model = embedder.identity.encode()
        keys = [model + np.array(piece, np.uint32).tobytes() for piece in pieces]
        missing = {
            key: piece for key, piece in zip(keys, pieces, strict=True) if key not in self._embedded
        }
        if missing:
            made = self._embed(embedder, [*missing.values()])
            self._embedded |= zip(missing, made, strict=True)
        return [self._embedded[key] for key in keys]

    def save(self) -> None:
        """Write the file if there is anything new."""
        if self._path and len(self._embedded) > self._count:
            self._path.write_bytes(pickle.dumps(self._embedded))


def collect(
    kind: str, plans: list[Plan], questions: list[Question], vectors: RememberedVectors
) -> list[Labelled]:
    """Put a group's questions to a server of its own in this process."""
    gathered: list[Candidates] = []
    put: list[tuple[Put, ConversationLegs, Sections | None]] = []
    gather, fuse = retrieval.gather, fusion.fuse

    def watched_gather(*arguments: Any) -> Candidates:
        gathered.append(gather(*arguments))
        return gathered[-1]

    def watched_fuse(
        question: Put,
        messages: MessageLegs,
        conversations: ConversationLegs,
        sections: Sections | None = None,
        match: Match | None = None,
    ) -> Fused:
        put.append((question, conversations, sections))
        return fuse(question, messages, conversations, sections, match)

    def remembered(embedder: Embedder, pieces: Sequence[Piece]) -> list[EmbeddedPiece]:
        return vectors.embed(embedder, pieces)

    ask = Meaning.ask
    meant: list[str | None] = [None]

    def meaning_what_is_meant(
        self: Meaning, text: str, *arguments: Any, **options: Any
    ) -> Future[Scans]:
        return ask(self, meant[0] or text, *arguments, **options)

    labelled: list[Labelled] = []
    plans = [_with_notes(plan) for plan in plans]
    plain = plain_fts5(plans)
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(recall, "gather", watched_gather),
        patch.object(retrieval, "fuse", watched_fuse),
        patch.object(Embedder, "embed_pieces", remembered),
        patch.object(Meaning, "ask", meaning_what_is_meant),
    ):
        server = app.start(
            Settings.load(
                None,
                {
                    "listen": "127.0.0.1:0",
                    "data_dir": Path(folder),
                    "durability": "os",
                    "abbreviator": "off",
                    "log_level": "error",
                },
            )
        )
        try:
            with Client(server.address) as client:
                service = Service(client, plans)
                embedded(Path(folder))
                for question in questions:
                    put.clear()
                    meant[0] = question.meant
                    service.ask(question)
                    if put and gathered:
                        labelled.append(
                            _labelled(kind, question, put[-1], gathered[-1], service, plain)
                        )
        finally:
            server.stop()
    return labelled


def _with_notes(plan: Plan) -> Plan:
    """Return the plan with an abbreviation of the offline writer if it has none."""
    if any(isinstance(step, Event) for step in plan.steps):
        return plan
    event = Event("notes", {"text": written(plan)[1]}, plan.where)
    return replace(plan, steps=[*plan.steps, event]) if event.fields["text"] else plan


def _labelled(
    kind: str,
    question: Question,
    put: tuple[Put, ConversationLegs, Sections | None],
    candidates: Candidates,
    service: Service,
    plain: Ask,
) -> Labelled:
    conversations = [service.conversations[it.id] for it in candidates.conversations]
    messages = [
        service.messages[candidates.conversation_of(at).id, it.place[0]]
        for at, it in enumerate(candidates.messages)
    ]
    baseline = plain(question)
    return Labelled(
        kind,
        question.group,
        put[0],
        candidates.message_legs,
        put[1],
        np.isin(messages, question.gold_messages),
        np.isin(conversations, question.gold_conversations),
        len(set(question.gold_messages)),
        len(set(question.gold_conversations)),
        question.id,
        put[2],
        figures(baseline.messages, question.gold_messages) if question.gold_messages else [],
        figures(baseline.conversations, question.gold_conversations),
    )
