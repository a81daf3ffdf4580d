"""Classify the sentences of a user's message: what the user says of themself, and of what; and tell
small talk.

A sentence is read from the directions of its word pieces, as their codes keep them (`word_codes`):
nothing is embedded for it. A network with one hidden layer reads each piece, with whether it stands
at the sentence's beginning or end; a softmax regression over the mean and the largest of each
hidden value, the mean direction and a few marks of the sentence's writing tells its class. The
largest sees one word that says what kind of sentence it is ("always", "trying"), which a mean loses
among the others. So it works in each language that the model reads. The weights are learned from
sentences written for it (`bench/statements`), and lie beside the model's.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from io import BytesIO
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect_server.recall.model.own_words import LONGEST, own_sentences
from recollect_server.recall.model.statement import StatementKind, StatementSpan
from recollect_server.recall.model.word_codes import QuestionPieces, WordCodes
from recollect_server.text.languages import is_of_now, says_it_lasts, speaks_of_asker

_ASKING, _CALLING = ("?", "？", "؟"), ("!", "！")
_QUOTED = re.compile('["“”«»„「」]')
_CODED = re.compile(r"[{}\[\]<>=_/\\|]")
_FORM = "/5"  # of what is read of a message: of another one all are read again
LEAST, LEAST_INSTRUCTION = 0.65, 0.8
"""Probability that a sentence says something lasting, from which on it is kept: of an instruction
more is asked, for a task that is taken for one governs every answer.
"""


def marks_of(sentence: str) -> NDArray[np.float32]:
    """Return what the writing of a sentence shows: [MARKS]."""
    end = sentence.rstrip()[-1:]
    shown = (
        speaks_of_asker(sentence),
        end in _ASKING,
        end in _CALLING,
        _QUOTED.search(sentence) is not None,
        _CODED.search(sentence) is not None,
        ":" in sentence or "：" in sentence,
        min(len(sentence.encode()), LONGEST) / LONGEST,
        sum(map(str.isdigit, sentence)) / len(sentence),
        says_it_lasts(sentence),
        is_of_now(sentence),
    )
    return np.array(shown, np.float32)


MARKS = 10
"""Number of the marks of a sentence's writing."""
_PLACES = 3
"""Numbers that say where a piece stands in its sentence."""


def talk_features(message: str, directions: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the features of small talk: the mean of a message's directions [n, directions], and
    behind it the marks of its writing.
    """
    return np.concatenate([directions.mean(axis=0), marks_of(message)])


class OwnSentence(NamedTuple):
    """A sentence of a text, by its first character and the one behind its last."""

    start: int
    end: int
    directions: NDArray[np.float32]
    """Those of its word pieces: [n, directions]."""
    marks: NDArray[np.float32]


class Pieces(NamedTuple):
    """The word pieces of several sentences, one sentence behind the other."""

    values: NDArray[np.float32]
    """Direction and place of each: [pieces, directions + 3]."""
    starts: NDArray[np.int64]
    """The first piece of each sentence."""
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, sentences: Sequence[NDArray[np.float32]]) -> "Pieces":
        """Return those of sentences, each by its directions [n, directions]."""
        counts = np.array([len(it) for it in sentences], np.int64)
        starts = np.cumsum(counts) - counts
        places = np.zeros((counts.sum(), _PLACES), np.float32)
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            places[start : start + min(2, count), 0] = 1
            places[start + min(2, count) : start + min(6, count), 1] = 1
            places[start + max(0, count - 3) : start + count, 2] = 1
        return cls(np.c_[np.concatenate(sentences), places], starts, counts)

    def mean(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the mean of values of each piece, for each sentence."""
        sums = np.add.reduceat(values, self.starts)
        return np.asarray(sums / self.counts[:, None], np.float32)


def sentences_of(
    text: str,
    first: int,
    directions: NDArray[np.float32],
    offsets: Sequence[tuple[int, int]],
    *,
    is_mail: bool,
) -> list[OwnSentence]:
    """Return the sentences of a text from a character on that are its writer's own (see
    `own_words`). `directions` are those of its word pieces, `offsets` where these stand.
    """
    places = np.array(offsets[: len(directions)], np.int64).reshape(-1, 2)
    sentences: list[OwnSentence] = []
    for start, end in own_sentences(text, first, is_mail=is_mail):
        inside = (places[:, 0] < end) & (places[:, 1] > start) & (places[:, 1] > places[:, 0])
        if places[-1:, 1].max(initial=0) >= end and inside.any():
            own = directions[: len(places)][inside]
            sentences.append(OwnSentence(start, end, own, marks_of(text[start:end])))
    return sentences


LEAST_TALK = 0.8
"""Probability from which a message is small talk: one that is not, and is taken so, recalls
nothing.
"""


class Network(NamedTuple):
    """The weights that tell the class of a sentence; the constants are the last row of each."""

    hidden: NDArray[np.float32]
    """[directions + 3 + 1, hidden]."""
    classes: NDArray[np.float32]
    """[2 * hidden + directions + marks + 1, classes]."""

    def probabilities(self, pieces: Pieces, marks: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the probability of each class for each sentence: [sentences, classes]."""
        hidden = np.maximum(pieces.values @ self.hidden[:-1] + self.hidden[-1], 0)
        largest = np.maximum.reduceat(hidden, pieces.starts)
        directions = pieces.mean(pieces.values[:, :-_PLACES])
        return _probabilities(self.classes, np.c_[pieces.mean(hidden), largest, directions, marks])


class StatementClassifier:
    """The weights of a model's classifier."""

    def __init__(self, file: bytes, codes: WordCodes) -> None:
        """Read them from a file of numpy's. Raises ValueError, KeyError, BadZipFile."""
        with np.load(BytesIO(file), allow_pickle=False) as arrays:
            read = {name: arrays[name].astype(np.float32) for name in arrays.files}
        self._network = Network(read["hidden"], read["classes"])
        self._talk = read["talk"]
        self._codes = codes
        size, hidden = codes.directions + MARKS + 1, self._network.hidden.shape[-1]
        if [it.shape for it in (*self._network, self._talk)] != [
            (codes.directions + _PLACES + 1, hidden),
            (2 * hidden + size, len(StatementKind) + 1),
            (size, 2),
        ]:
            raise ValueError(
                "the weights of its statements are not of its word codes, or of another version"
            )
        self.identity = blake2b(file, digest_size=8).hexdigest() + codes.identity + _FORM

    def statements(self, sentences: Sequence[OwnSentence]) -> list[StatementSpan]:
        """Return the statements among sentences."""
        if not sentences:
            return []
        pieces = Pieces.of([it.directions for it in sentences])
        chances = self._network.probabilities(pieces, np.array([it.marks for it in sentences]))
        kinds = chances[:, 1:].argmax(axis=1) + 1
        return [
            StatementSpan(it.start, it.end, StatementKind(kind), 1 - none)
            for it, kind, none in zip(
                sentences, kinds.tolist(), chances[:, 0].tolist(), strict=True
            )
            if 1 - none >= (LEAST_INSTRUCTION if kind == StatementKind.INSTRUCTION else LEAST)
        ]

    def is_talk(self, message: str, pieces: QuestionPieces) -> bool:
        """Return whether a short message is small talk or a command about what is at hand, for
        which nothing from other conversations can help.
        """
        features = talk_features(message, self._codes.values_of(pieces))
        return float(_probabilities(self._talk, features[None])[0, 1]) >= LEAST_TALK


def _probabilities(
    weights: NDArray[np.float32], features: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the probability of each class for each row of features: [n, classes]."""
    logits = features @ weights[:-1] + weights[-1]
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
