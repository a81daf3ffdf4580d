"""Turns texts into vectors with an ONNX model, on the processor, in the threads of those who call.

A text is cut into pieces that the model can take, which overlap: nothing of it is left out. The
vectors of the same text have the same bytes, whatever it is embedded with: a batch holds pieces of
one padded length, and never one alone (the matrix product of a batch of one takes another path and
rounds otherwise).
"""

import ctypes
import hashlib
import os
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect_server.domain.embedding import DIMENSIONS
from recollect_server.inference.pieces import pieces_of
from recollect_server.inference.weights import TOKENIZER, NoWeights, Weights, WrongWeights, look

PIECE = 254
"""Word pieces that the model takes at once, beside its two marks. Trained at 128 and documented for
256.
"""
OVERLAP = 32
"""Word pieces that a piece has in common with the next one."""
_STEP = 8  # lengths are padded to a multiple of this
# word pieces in one batch: bounds the memory of the attention, and how long a stop waits
_BATCH = 2048
_QUESTION = 4  # pieces of a question that are embedded: some 800 words
# questions whose vectors are kept: an agent that builds a context often searches for the same text
# next
_REMEMBERED = 32

_REFUSALS = (
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "NoSuchFile",
    "NotImplemented",
    "RuntimeException",
)

Piece = tuple[int, ...]
"""Numbers of word pieces, with the marks of beginning and end."""
Vectors = NDArray[np.float32]
"""Unit vectors, of shape [n, 384]."""


class CannotEmbed(Exception):
    """The model failed over a text; the text says how."""


class _Model:
    """A model in memory: its session and its tokenizer."""

    def __init__(self, weights: Weights) -> None:
        """Load it. Raises NoWeights, WrongWeights, ImportError."""
        # Before it is imported: else it makes up an id of this machine and tells its maker which
        # models are run (its Privacy.md).
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as failures
        from tokenizers import Tokenizer

        profile = weights.profile
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # it would keep the memory of the largest batch for ever
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 3
        self.refusals = tuple(getattr(failures, name) for name in _REFUSALS)
        self.session: Any
        self.tokenizer: Any
        try:
            model, tokenizer = (
                (weights.folder / name).read_bytes() for name in (profile.model, TOKENIZER)
            )
            centres = (
                np.load(weights.folder / profile.centres)
                if profile.centres
                else np.zeros((2, DIMENSIONS), np.float32)
            )
            self.session = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
            self.tokenizer = Tokenizer.from_buffer(tokenizer)
        except OSError as error:
            raise NoWeights(f"the embedding model cannot be read: {error.strerror}") from error
        except (ValueError, *self.refusals) as error:
            raise WrongWeights(
                f"the embedding model in {weights.folder} cannot be used: {error}"
            ) from error
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        shape = self.session.get_outputs()[0].shape
        if shape[-1] != DIMENSIONS:
            raise WrongWeights(
                f"the embedding model in {weights.folder} gives {shape[-1]} dimensions, and {DIMENSIONS} are kept: name another"
                " with --embedding-model"
            )
        begin, self.end = self.tokenizer.encode("").ids
        passage, question = (
            (begin, *self.tokenizer.encode(prefix, add_special_tokens=False).ids)
            for prefix in (profile.passage, profile.question)
        )
        self.pieces = pieces_of(model, self.tokenizer)
        self.passage_marks: Piece = passage
        self.question_marks: Piece = question
        self.passage_centre: NDArray[np.float32] = centres[0]
        self.question_centre: NDArray[np.float32] = centres[1]
        self.directions: NDArray[np.float32] = centres[2:]


class Embedder:
    """An embedding model. Safe to call from any thread; each call computes in its caller's thread.

    `release` takes one that was not used for a while out of memory; the next use loads it again.
    """

    def __init__(self, weights: Weights) -> None:
        """Load the model, which takes some 0.6 s and 120 MB. Raises NoWeights, WrongWeights,
        ImportError.
        """
        self.identity, self.folder = weights.identity, weights.folder
        self.profile = weights.profile
        self._loading = threading.Lock()  # guards `_model` and `_used`; held while it is loaded
        self._model: _Model | None = _Model(weights)
        self._used = time.monotonic()
        self._guard = threading.Lock()  # guards `_questions`
        # by hash: no text is kept
        self._questions: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        _return_freed_memory()

    def release(self, idle: float) -> bool:
        """Release the model's memory if it was not used for `idle` seconds. Return True if it was
        released now. A computation that runs at this moment keeps it until its end.
        """
        with self._loading:
            if self._model is None or time.monotonic() - self._used < idle:
                return False
            self._model = None
        _return_freed_memory()
        return True

    def _loaded(self) -> _Model:
        """Return the model, loaded again if it was released. Raises CannotEmbed."""
        with self._loading:
            if self._model is None:
                try:
                    weights = look(self.folder, self.profile)
                    if weights.identity != self.identity:
                        raise WrongWeights(
                            f"the embedding model in {self.folder} was replaced: restart the server"
                        )
                    self._model = _Model(weights)
                except (NoWeights, WrongWeights, ImportError) as error:
                    raise CannotEmbed(str(error)) from error
                _return_freed_memory()
            self._used = time.monotonic()
            return self._model

    def cut(self, text: str) -> list[Piece]:
        """Split a text into pieces of about equal length, each overlapping the next; at least
        one.
        """
        model = self._loaded()
        return self._cut(model, text, model.passage_marks)

    def _cut(self, model: _Model, text: str, marks: Piece, most: int | None = None) -> list[Piece]:
        # As a batch: for one text alone the library keeps Python's global lock, for a MiB almost a
        # second.
        ids = model.tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids[:most]
        count = max(1, -(-(len(ids) - OVERLAP) // (PIECE - OVERLAP)))
        length = -(-(len(ids) + (count - 1) * OVERLAP) // count)
        starts = [
            min(number * (length - OVERLAP), max(0, len(ids) - length)) for number in range(count)
        ]
        return [(*marks, *ids[start : start + length], model.end) for start in starts]

    def embed_pieces(self, pieces: Sequence[Piece]) -> Vectors:
        """Return a vector for each piece. This and its callers raise CannotEmbed."""
        model = self._loaded()
        return self._centred(model, self._embed_pieces(model, pieces), model.passage_centre)

    def _centred(self, model: _Model, vectors: Vectors, centre: NDArray[np.float32]) -> Vectors:
        """Return the directions of the vectors as seen from a centre, without their parts along
        the directions that the model's file names: those tell languages apart, not meanings.
        """
        if not self.profile.centres:
            return vectors
        centred = vectors - centre
        for direction in model.directions:  # by sums of rows, which do not depend on their number
            centred -= (centred * direction).sum(axis=1, keepdims=True) * direction
        return unit(centred)

    def _embed_pieces(self, model: _Model, pieces: Sequence[Piece]) -> Vectors:
        vectors = np.zeros((len(pieces), DIMENSIONS), np.float32)
        for chosen, length in _batches(pieces):
            rows = chosen if len(chosen) > 1 else chosen * 2
            ids = np.zeros((len(rows), length), np.int64)
            mask = np.zeros_like(ids)
            for row, number in enumerate(rows):
                piece = pieces[number]
                ids[row, : len(piece)] = piece
                mask[row, : len(piece)] = 1
            vectors[chosen] = self._run(model, ids, mask)[: len(chosen)]
        return vectors

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text: the mean of its pieces' vectors."""
        cut = [self.cut(text) for text in texts]
        vectors = self.embed_pieces([piece for pieces in cut for piece in pieces])
        ends = np.cumsum([len(pieces) for pieces in cut])
        return (
            unit(np.stack([part.sum(axis=0) for part in np.split(vectors, ends[:-1])]))
            if texts
            else vectors
        )

    def question(self, text: str, most: int | None = None) -> NDArray[np.float32]:
        """Return the vector of a question, of shape [384]. Of more than `_QUESTION` pieces, or of
        more than `most` tokens, only the first ones count.
        """
        model = self._loaded()
        pieces = self._cut(model, text, model.question_marks, most)[:_QUESTION]
        name = hashlib.blake2b(repr(pieces).encode(), digest_size=16).digest()
        with self._guard:
            if (cached := self._questions.get(name)) is not None:
                self._questions.move_to_end(name)
                return cached
        vector = self._question(model, pieces)
        vector.flags.writeable = False
        with self._guard:
            self._questions[name] = vector
            if len(self._questions) > _REMEMBERED:
                self._questions.popitem(last=False)
        return vector

    def nearest_words(
        self, words: Sequence[str], texts: Sequence[str]
    ) -> NDArray[np.float32] | None:
        """Return how near each word comes to any word of each text (`PieceVectors.nearest`). None
        if the model has no vectors of words.
        """
        pieces = self._loaded().pieces
        return pieces.nearest(words, texts) if pieces else None

    def _question(self, model: _Model, pieces: list[Piece]) -> NDArray[np.float32]:
        if len(pieces) > 1:
            embedded = self._embed_pieces(model, pieces)
            vectors = self._centred(model, embedded, model.question_centre)
            return unit(vectors.sum(axis=0))
        # Alone, not twice: it is compared with vectors and with no other question.
        ids = np.array(pieces, np.int64)
        embedded = self._run(model, ids, np.ones_like(ids))
        return np.array(self._centred(model, embedded, model.question_centre)[0])

    def _run(self, model: _Model, ids: NDArray[np.int64], mask: NDArray[np.int64]) -> Vectors:
        try:
            vectors: Vectors = model.session.run(None, {"input_ids": ids, "attention_mask": mask})[
                0
            ]
        except model.refusals as error:
            raise CannotEmbed(f"the embedding model failed: {error}") from error
        return vectors


def _return_freed_memory() -> None:
    """Return freed memory to the system where the C library can: loading a model leaves as much
    behind as it needs.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors scaled to length 1 along the last axis; zero stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def quantised(vectors: Vectors) -> NDArray[np.int8]:
    """Quantise the directions of vectors to a byte a dimension. On labelled questions this ranks as
    floats do.
    """
    highest = np.abs(vectors).max(axis=1, keepdims=True)
    return np.rint(vectors / np.where(highest > 0, highest, 1) * 127).astype(np.int8)


def _batches(pieces: Sequence[Piece]) -> Iterator[tuple[list[int], int]]:
    """Yield batches of pieces of similar padded length: their indices, and that length."""
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    for number, piece in enumerate(pieces):
        by_length[-(-len(piece) // _STEP) * _STEP].append(number)
    for length, numbers in sorted(by_length.items()):
        size = max(2, _BATCH // length)
        for start in range(0, len(numbers), size):
            yield numbers[start : start + size], length
