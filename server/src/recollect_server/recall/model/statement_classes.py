"""Classify the sentences of a user's message: what the user says of themself, and of what; and tell
small talk.

The vector of a sentence is the mean of the directions of its word pieces, as their codes keep them
(`word_codes`): nothing is embedded for it. A softmax regression with one class for each kind of
statement reads that vector and a few marks of its writing, so it works in each language that the
model reads. Its weights are
learned from sentences written for it (`bench/profile`), and lie beside the model's.
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
from recollect_server.text.languages import speaks_of_asker

_ASKING, _CALLING = ("?", "？", "؟"), ("!", "！")
_QUOTED = re.compile('["“”«»„「」]')
_CODED = re.compile(r"[{}\[\]<>=_/\\|]")
_FORM = "/3"  # of what is read of a message: of another one all are read again
LEAST = 0.45
"""Probability that a sentence is of a class, from which on it is kept."""


def features_of(sentence: str, directions: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the features of a sentence: the mean of its word pieces' directions [n, directions],
    and behind it what its writing shows.
    """
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
    )
    return np.concatenate([directions.mean(axis=0), np.array(shown, np.float32)])


class SentenceFeatures(NamedTuple):
    """A sentence of a text, by its first character and the one behind its last."""

    start: int
    end: int
    features: NDArray[np.float32]


def sentences_of(
    text: str,
    first: int,
    directions: NDArray[np.float32],
    offsets: Sequence[tuple[int, int]],
    *,
    is_mail: bool,
) -> list[SentenceFeatures]:
    """Return the sentences of a text from a character on that are its writer's own (see
    `own_words`). `directions` are those of its word pieces, `offsets` where these stand.
    """
    places = np.array(offsets[: len(directions)], np.int64).reshape(-1, 2)
    sentences: list[SentenceFeatures] = []
    for start, end in own_sentences(text, first, is_mail=is_mail):
        inside = (places[:, 0] < end) & (places[:, 1] > start) & (places[:, 1] > places[:, 0])
        if places[-1:, 1].max(initial=0) >= end and inside.any():
            features = features_of(text[start:end], directions[: len(places)][inside])
            sentences.append(SentenceFeatures(start, end, features))
    return sentences


SHOWN = 8
"""Number of the features of a sentence's writing."""


LEAST_TALK = 0.8
"""Probability from which a message is small talk: one that is not, and is taken so, recalls
nothing.
"""


class StatementClassifier:
    """The weights of a model's classifier."""

    def __init__(self, file: bytes, codes: WordCodes) -> None:
        """Read them from a file of numpy's. Raises ValueError, KeyError, BadZipFile."""
        with np.load(BytesIO(file), allow_pickle=False) as arrays:
            self._weights: NDArray[np.float32] = arrays["weights"].astype(np.float32)
            self._talk: NDArray[np.float32] = arrays["talk"].astype(np.float32)
        self._codes = codes
        size = codes.directions + SHOWN + 1
        if (self._weights.shape, self._talk.shape) != ((size, len(StatementKind) + 1), (size, 2)):
            raise ValueError("the weights of its statements are not of its word codes")
        self.identity = blake2b(file, digest_size=8).hexdigest() + codes.identity + _FORM

    def statements(self, sentences: Sequence["SentenceFeatures"]) -> list[StatementSpan]:
        """Return the statements among sentences."""
        if not sentences:
            return []
        chances = _probabilities(self._weights, np.array([it.features for it in sentences]))
        kinds = chances[:, 1:].argmax(axis=1) + 1
        return [
            StatementSpan(it.start, it.end, StatementKind(kind), 1 - none)
            for it, kind, none in zip(
                sentences, kinds.tolist(), chances[:, 0].tolist(), strict=True
            )
            if 1 - none >= LEAST
        ]

    def is_talk(self, message: str, pieces: QuestionPieces) -> bool:
        """Return whether a short message is small talk or a command about what is at hand, for
        which nothing from other conversations can help.
        """
        features = features_of(message, self._codes.values_of(pieces))
        return float(_probabilities(self._talk, features[None])[0, 1]) >= LEAST_TALK


def _probabilities(
    weights: NDArray[np.float32], features: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the probability of each class for each row of features: [n, classes]."""
    logits = features @ weights[:-1] + weights[-1]
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))
