"""The questions that `bench.calibrate` learns from, and what the retrievers say of each.

Each group's history gets a server in this process, once without the model and once with it, and is
asked its own questions; those of other groups and other sets, which nothing in it answers; and
small talk (`calibration_talk.txt`).
"""

import pickle
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import orjson
from numpy.typing import NDArray
from recollect import Client
from recollect.imports import recall_sets
from recollect_server.recall import calibration, recall, retrieval
from recollect_server.recall.candidates import Candidates
from recollect_server.recall.fusion import Sections, fuse
from recollect_server.recall.model.embedder import EmbeddedPiece, Embedder, Piece
from recollect_server.recall.retrievers import ConversationLegs, Fused, Matches, MessageLegs
from recollect_server.recall.retrievers import Question as Put
from recollect_server.run import app
from recollect_server.run.settings import Settings
from recollect_server.text.words import QuestionWords

from bench import newcomers
from bench.legs import RememberedVectors
from bench.recall import QUERIES, Question, Service, read_conversations, read_questions
from bench.servers import embedded

OWN, STRANGER, TALK = "own", "stranger", "talk"
_KINDS = {newcomers.ANSWERED: OWN, "near": STRANGER, "far": STRANGER, "talk": TALK}
# questions: of the set's other groups, of each other set, of small talk
_FEW_SAME, _FEW_OTHER, _FEW_TALK = 40, 10, 45
_TALK_FILE = Path(__file__).with_name("calibration_talk.txt")


Fusing = tuple[Put, MessageLegs, ConversationLegs, Sections | None]
"""The arguments of `fuse` but for the comparison of words."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question that was put, what the retrievers gave, and which of the candidates are right."""

    kind: str
    set: str
    group: str
    text: str
    fusing: Fusing
    """Arguments of the ranking, which is computed anew: cases outlast the weights."""
    matches: Matches | None
    """The words of the best messages, compared with the question's."""
    words: QuestionWords
    messages: MessageLegs
    conversations: ConversationLegs
    right_messages: NDArray[np.bool_]
    right_conversations: NDArray[np.bool_]

    def fused(self) -> Fused:
        """Return the scores by the ranking's present weights."""
        return fuse(*self.fusing, lambda _: self.matches)


def collect(
    folder: Path, group: str, chosen: list[tuple[str, Question]], vectors: RememberedVectors | None
) -> list[Case]:
    """Put questions to a group's history, by words alone where there are no vectors."""
    plans = read_conversations(folder / recall_sets.FILE, abbreviations=False)[group]
    gathered: list[Candidates] = []
    calibrated: list[tuple[Fused, QuestionWords, MessageLegs, ConversationLegs]] = []
    fused: list[Any] = []
    gather, calibrate = retrieval.gather, calibration.calibrated

    def watched_gather(*arguments: Any) -> Candidates:
        gathered.append(gather(*arguments))
        return gathered[-1]

    def watched_fuse(*arguments: Any) -> Fused:
        fused.append(arguments[:4])
        return fuse(*arguments)

    def watched_calibrated(*arguments: Any, **options: Any) -> Fused:
        calibrated.append(arguments)
        return calibrate(*arguments, **options)

    def remembered(embedder: Embedder, pieces: Sequence[Piece]) -> list[EmbeddedPiece]:
        return vectors.embed(embedder, pieces) if vectors else embedder.embed_pieces(pieces)

    cases: list[Case] = []
    with (
        tempfile.TemporaryDirectory() as data,
        patch.object(recall, "gather", watched_gather),
        patch.object(retrieval, "fuse", watched_fuse),
        patch.object(retrieval, "calibrated", watched_calibrated),
        patch.object(Embedder, "embed_pieces", remembered),
    ):
        flags = {
            "listen": "127.0.0.1:0",
            "data_dir": Path(data),
            "durability": "os",
            "abbreviator": "off",
            "log_level": "error",
        }
        server = app.start(Settings.load(None, flags if vectors else flags | {"embedder": "off"}))
        try:
            with Client(server.address) as client:
                service = Service(client, plans)
                if vectors:
                    embedded(Path(data))
                    vectors.save()
                for kind, question in chosen:
                    service.ask(question)
                    if gathered and len(gathered[-1].messages):
                        cases.append(
                            _case_of(
                                folder.name,
                                kind,
                                question,
                                gathered[-1],
                                fused[-1],
                                calibrated[-1],
                                service,
                            )
                        )
                    for arguments in (gathered, fused, calibrated):
                        arguments.clear()
        finally:
            server.stop()
    return cases


def _case_of(
    name: str,
    kind: str,
    question: Question,
    candidates: Candidates,
    fusing: Fusing,
    given: Any,
    service: Service,
) -> Case:
    _, words, messages, conversations, *_ = given
    lines = [
        service.messages[candidates.conversation_of(at).id, it.place[0]]
        for at, it in enumerate(candidates.messages)
    ]
    # large, and no feature needs it
    conversations = replace(conversations, mean_vector=np.zeros((0, 0), np.float32))
    return Case(
        kind, name, question.group, question.query, fusing, candidates.matches, words, messages, conversations,
        np.isin(lines, question.gold_messages),
        np.isin([service.conversations[it.id] for it in candidates.conversations], question.gold_conversations),
    )  # fmt: skip


def questions_for(
    sets: Sequence[Path], folder: Path, group: str, most: int
) -> list[tuple[str, Question]]:
    """Return the questions that are put to a group's history, each with its kind. All are asked at
    the times of its own.

    A set of `bench.newcomers` brings the questions that nothing answers, and lends none to others.
    """
    chance = random.Random(group)
    if folder.parent == newcomers.FOLDER:
        return [(_KINDS[it.category], it) for it in read_questions(folder / QUERIES)[group][:most]]
    by_set = {
        path.name: read_questions(path / QUERIES)
        for path in sets
        if path.parent != newcomers.FOLDER
    }
    own = by_set[folder.name][group]
    own = chance.sample(own, min(most, len(own)))
    # Groups of one family (`design-0`, `design-4`) talk about the same things: nobody could tell
    # whose question it is.
    family = group.rsplit("-", 1)[0] if folder.name == "qmsum" else group
    # Sets that were made from others have some of their conversations, and answer their questions.
    there = conversations_of(folder)[group]
    near = [
        it
        for name, many in by_set[folder.name].items()
        if not name.startswith(family)
        for it in many
        if there.isdisjoint(it.gold_conversations)
    ]
    strange = chance.sample(near, min(_FEW_SAME, len(near)))
    for name, groups in by_set.items():
        if name != folder.name:
            far = [
                it
                for many in groups.values()
                for it in many
                if there.isdisjoint(it.gold_conversations)
            ]
            strange += chance.sample(far, min(_FEW_OTHER, len(far)))
    talk = chance.sample(_TALK_FILE.read_text().splitlines(), _FEW_TALK)
    nothing = [(STRANGER, it.query) for it in strange] + [(TALK, it) for it in talk]
    return [(OWN, it) for it in own] + [
        (kind, Question(group, text, text, kind, [], [], chance.choice(own).asked_at))
        for kind, text in nothing
    ]


@cache
def conversations_of(folder: Path) -> dict[str, set[str]]:
    """Return the names of a set's conversations by group."""
    names: dict[str, set[str]] = {}
    for line in (folder / recall_sets.FILE).read_bytes().splitlines():
        fields = orjson.loads(line)
        names.setdefault(fields["group"], set()).add(fields["id"])
    return names


def first_groups(questions: Mapping[str, Sequence[Question]], groups: int, most: int) -> list[str]:
    """Return the first groups of a set, and more of them until they have `most` questions for each
    of `groups`.

    The histories of `small` have ten questions or fewer each: two of them would be no sample of it.
    """
    chosen: list[str] = []
    count = 0
    for name in sorted(questions):
        if len(chosen) >= groups and count >= groups * most:
            break
        chosen.append(name)
        count += min(most, len(questions[name]))
    return chosen


def cached_cases(
    keep: Path, folder: Path, sets: Sequence[Path], groups: int, most: int, *, meaning: bool
) -> list[Case]:
    """Return what was asked of a set's first groups, from their files where there are any."""
    cases: list[Case] = []
    for group in first_groups(read_questions(folder / QUERIES), groups, most):
        file = keep / f"{folder.name}.{group}.{'meaning' if meaning else 'words'}"
        if not file.exists():
            vectors = (
                RememberedVectors(keep / f"{folder.name}.{group}.vectors") if meaning else None
            )
            file.write_bytes(
                pickle.dumps(
                    collect(folder, group, questions_for(sets, folder, group, most), vectors)
                )
            )
        cases += pickle.loads(file.read_bytes())  # noqa: S301 - our own file
    return cases
