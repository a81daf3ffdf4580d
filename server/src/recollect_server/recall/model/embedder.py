"""Turns texts into vectors with an ONNX model, on the processor, in the threads of those who call.

A text is cut into pieces that the model can take, which overlap: nothing of it is left out. The
vectors of the same text have the same bytes, whatever it is embedded with: a batch holds pieces of
one padded length, and a short piece is never alone in one (the matrix product of a batch of one
takes another path and rounds otherwise). A long piece always is: with others it takes no less time.
"""

import ctypes
import hashlib
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.domain.last_used import LastUsed
from recollect_server.recall.model.marks import DIMENSIONS
from recollect_server.recall.model.own_words import MOST_TEXT
from recollect_server.recall.model.questions import asking_ranges
from recollect_server.recall.model.statement import StatementSpan
from recollect_server.recall.model.statement_classes import (
    OwnSentence,
    StatementClassifier,
    sentences_of,
)
from recollect_server.recall.model.weights import TOKENIZER, NoWeights, Weights, WrongWeights, look
from recollect_server.recall.model.word_codes import (
    NO_CODES,
    WIDTH,
    Codes,
    QuestionPieces,
    WordCodes,
    unit,
)

T = TypeVar("T")

PIECE = 254
"""Word pieces that the model takes at once, beside its two marks. Trained at 128 and documented for
256.
"""
OVERLAP = 32
"""Word pieces that a piece has in common with the next one."""
_STEP = 8  # lengths are padded to a multiple of this
_ALONE = 64  # padded length from which on a piece is a batch by itself
# word pieces in one batch: bounds the memory of the attention, and how long a stop waits
_BATCH = 2048
_QUESTION = 4  # pieces of a question that are embedded: some 800 words
# questions whose vectors are kept: an agent that builds a context often searches for the same text
# next
_REMEMBERED = 32
# texts of which is kept where the words of their pieces are, in 8 bytes for each piece; and the
# pieces of one at the most
_CUT_TEXTS, _CUT_PIECES = 1024, 1024

_LIBRARIES = ("onnxruntime", "tokenizers")  # imported with the first model that is loaded
_REFUSALS = (
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "NoSuchFile",
    "NotImplemented",
    "RuntimeException",
)

_WORD = re.compile(r"\w+")
_NO_WORD = (0, 0)
# Numbers of the fields of an ONNX file (onnx.proto, which is protobuf)
_GRAPH, _OUTPUT, _NAME, _TYPE, _TENSOR_OF_FLOATS = 7, 12, 1, 2, b"\x0a\x02\x08\x01"

Piece = tuple[int, ...]
"""Numbers of word pieces, with the marks of beginning and end."""
Vectors = NDArray[np.float32]
"""Unit vectors, of shape [n, 384]."""


@dataclass(frozen=True, slots=True)
class EmbeddedPiece:
    """Result of a run of the model over a piece."""

    vector: NDArray[np.float32]
    """Of length 1: [384]."""
    codes: Codes = field(default_factory=lambda: NO_CODES)
    """Of its word pieces, the marks left out; none where the model has no constants for them."""


@dataclass(frozen=True, slots=True)
class AskedWith:
    """A question as a model reads it."""

    vector: NDArray[np.float32]
    words: QuestionPieces | None
    """Its word pieces, those of its first piece; None where the model has no constants for them."""


class CannotEmbed(Exception):
    """The model failed over a text; the text says how."""


class _Model:
    """A model in memory: its session and its tokenizer."""

    def __init__(self, weights: Weights, words: WordCodes | None) -> None:
        """Load it; with `words` its runs give states too. Raises NoWeights, WrongWeights,
        ImportError.
        """
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
                model + _output(profile.states) if words else model,
                options,
                providers=["CPUExecutionProvider"],
            )
            self.tokenizer = Tokenizer.from_buffer(tokenizer)
        except OSError as error:
            raise NoWeights(f"the embedding model cannot be read: {error.strerror}") from error
        except (ValueError, *self.refusals) as error:
            raise WrongWeights(_cannot_use(weights, error)) from error
        self.cut_texts: LastUsed[bytes, NDArray[np.int32]] = LastUsed(_CUT_TEXTS)
        """Places of the words of the pieces of texts, by the hash of each: no text is kept."""
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
        self.passage_marks: Piece = passage
        self.question_marks: Piece = question
        self.passage_centre: NDArray[np.float32] = centres[0]
        self.question_centre: NDArray[np.float32] = centres[1]
        self.directions: NDArray[np.float32] = centres[2:]


class Embedder:
    """An embedding model. Safe to call from any thread; each call computes in its caller's thread.

    The first use loads it. `release` takes one that was not used for a while out of memory; the
    next use loads it again.
    """

    def __init__(self, weights: Weights) -> None:
        """Take the weights. Raises NoWeights, WrongWeights; ImportError if a library that runs them
        is missing.
        """
        for library in _LIBRARIES:
            if find_spec(library) is None:
                raise ImportError(f"the embedding model needs {library}, which is not installed")
        self.identity, self.folder = weights.identity, weights.folder
        self.profile = weights.profile
        self.word_codes = _part(weights, self.profile.words, WordCodes)
        self.words_identity = self.word_codes.identity if self.word_codes else ""
        """Names the constants of its word codes; empty where its runs give none."""
        self._question_means = _question_means(weights)
        self._classifier: StatementClassifier | None = None
        if self.word_codes is not None:
            read = partial(StatementClassifier, codes=self.word_codes)
            self._classifier = _part(weights, self.profile.statements, read)
        self.statements_identity = self._classifier.identity if self._classifier else ""
        """Names the classifier of its statements; empty where it has none."""
        self._loading = threading.Lock()  # guards `_model` and `_used`; held while it is loaded
        self._model: _Model | None = None
        self._used = time.monotonic()
        self._guard = threading.Lock()  # guards `_questions`, and the model's `cut_texts`
        # by hash: no text is kept
        self._questions: LastUsed[bytes, AskedWith] = LastUsed(_REMEMBERED)

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

    def load(self) -> None:
        """Load the model if it is not in memory: some 0.6 s and 120 MB. Raises NoWeights,
        WrongWeights, ImportError.
        """
        with self._loading:
            self._in_memory()

    def _in_memory(self) -> _Model:
        if self._model is None:
            weights = look(self.folder, self.profile)
            if weights.identity != self.identity:
                raise WrongWeights(
                    f"the embedding model in {self.folder} was replaced: restart the server"
                )
            self._model = _Model(weights, self.word_codes)
            _return_freed_memory()
        self._used = time.monotonic()
        return self._model

    def _loaded(self) -> _Model:
        """Return the model, loaded if it is not in memory. Raises CannotEmbed."""
        with self._loading:
            try:
                return self._in_memory()
            except (NoWeights, WrongWeights, ImportError) as error:
                raise CannotEmbed(str(error)) from error

    def cut(self, text: str) -> list[Piece]:
        """Split a text into pieces of about equal length, each overlapping the next; at least
        one.
        """
        model = self._loaded()
        # As a batch: for one text alone the library keeps Python's global lock, for a MiB almost a
        # second.
        encoded = model.tokenizer.encode_batch_fast([text], add_special_tokens=False)[0]
        return self._pieces(model, encoded.ids, model.passage_marks)

    @staticmethod
    def _pieces(model: _Model, ids: list[int], marks: Piece) -> list[Piece]:
        count = max(1, -(-(len(ids) - OVERLAP) // (PIECE - OVERLAP)))
        length = -(-(len(ids) + (count - 1) * OVERLAP) // count)
        starts = [
            min(number * (length - OVERLAP), max(0, len(ids) - length)) for number in range(count)
        ]
        return [(*marks, *ids[start : start + length], model.end) for start in starts]

    def embed_pieces(self, pieces: Sequence[Piece]) -> list[EmbeddedPiece]:
        """Return what the model says of each piece. This and its callers raise CannotEmbed."""
        model = self._loaded()
        vectors, states = self._embed_pieces(model, pieces)
        centred = self._centred(model, vectors, model.passage_centre)
        codes = [NO_CODES] * len(pieces)
        if self.word_codes is not None:
            codes = [self.word_codes.codes(it) for it in states]
        return [EmbeddedPiece(*it) for it in zip(centred, codes, strict=True)]

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

    def _embed_pieces(
        self, model: _Model, pieces: Sequence[Piece]
    ) -> tuple[Vectors, list[NDArray[np.float32]]]:
        """Return the vector of each piece, and the states of its word pieces without the marks, if
        the model gives them.
        """
        vectors = np.zeros((len(pieces), DIMENSIONS), np.float32)
        states = [np.zeros((0, DIMENSIONS), np.float32)] * len(pieces)
        for chosen, length in _batches(pieces):
            rows = chosen if len(chosen) > 1 or length >= _ALONE else chosen * 2
            ids = np.zeros((len(rows), length), np.int64)
            mask = np.zeros_like(ids)
            for row, number in enumerate(rows):
                piece = pieces[number]
                ids[row, : len(piece)] = piece
                mask[row, : len(piece)] = 1
            answer = self._run(model, ids, mask)
            vectors[chosen] = answer[0][: len(chosen)]
            for number, of in zip(chosen, answer[1] if self.word_codes else (), strict=False):
                states[number] = of[len(model.passage_marks) : len(pieces[number]) - 1].copy()
        return vectors, states

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text: the mean of its pieces' vectors."""
        cut = [self.cut(text) for text in texts]
        embedded = self.embed_pieces([piece for pieces in cut for piece in pieces])
        vectors = np.array([it.vector for it in embedded]).reshape(-1, DIMENSIONS)
        ends = np.cumsum([len(pieces) for pieces in cut])
        return (
            unit(np.stack([part.sum(axis=0) for part in np.split(vectors, ends[:-1])]))
            if texts
            else vectors
        )

    def question(self, text: str, most: int | None = None) -> NDArray[np.float32]:
        """Return the vector of a question, as `ask` does."""
        return self.ask(text, most).vector

    def ask(self, text: str, most: int | None = None) -> AskedWith:
        """Return the vector of a question, of shape [384], and its words. Of more than `_QUESTION`
        pieces, or of more than `most` tokens, only the first ones count.
        """
        model = self._loaded()
        encoding = _encoding(model, text)
        pieces = self._pieces(model, encoding.ids[:most], model.question_marks)[:_QUESTION]
        count = len(pieces[0]) - len(model.question_marks) - 1 if self.word_codes is not None else 0
        words = [text[slice(*it)].lower() for it in _words_at(text, encoding.offsets[:count])]
        # What the model reads, and not the text: capitals and spaces change neither. The same
        # pieces may be of words in other letters, which have other rarities.
        name = hashlib.blake2b(f"{pieces} {words}".encode(), digest_size=16).digest()
        with self._guard:
            if (cached := self._questions.get(name)) is not None:
                self._questions.move_to_end(name)
                return cached
        answer = self._asked(model, pieces, words)
        answer.vector.flags.writeable = False
        with self._guard:
            self._questions.keep(name, answer)
        return answer

    def _asked(self, model: _Model, pieces: list[Piece], words: list[str]) -> AskedWith:
        if len(pieces) > 1:
            embedded, parts = self._embed_pieces(model, pieces)
            vectors = self._centred(model, embedded, model.question_centre)
            vector = self._without_form(unit(vectors.sum(axis=0)))
            states = parts[0][len(model.question_marks) - len(model.passage_marks) :]
        else:
            # Alone, not twice: it is compared with vectors and with no other question.
            ids = np.array(pieces, np.int64)
            answer = self._run(model, ids, np.ones_like(ids))
            vector = np.array(self._centred(model, answer[0], model.question_centre)[0])
            vector = self._without_form(vector)
            states = answer[1][0, len(model.question_marks) : -1] if self.word_codes else vector[:0]
        if self.word_codes is None:
            return AskedWith(vector, None)
        return AskedWith(vector, self.word_codes.question(words, states))

    def _without_form(self, question: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the direction of a question's vector without what questions of its language have
        in common, whatever they are about: that is near to any short text of the language.
        """
        means = self._question_means
        if means is None:
            return question
        form = unit(means[(means @ question).argmax()])
        return unit(question - max(0.0, float(question @ form)) * form)

    def statements(self, text: str, first: int, codes: bytes) -> list[StatementSpan]:
        """Return what the writer of a text says of themself from a character on, by the codes of
        its word pieces. Of a text of more pieces than the model takes at once, the beginning
        counts. Raises CannotEmbed.
        """
        if self._classifier is None:
            return []
        return self._classifier.statements(self.sentences(text, first, codes))

    def sentences(self, text: str, first: int, codes: bytes) -> list[OwnSentence]:
        """Return the sentences of a text from a character on that may be its writer's own, by
        the codes of its word pieces. Raises CannotEmbed.
        """
        assert self.word_codes is not None  # it has codes
        offsets = self._places(text, first, codes)
        pieces = np.frombuffer(codes, np.uint8).reshape(-1, WIDTH)[: len(offsets)]
        directions = self.word_codes.values(pieces)
        is_mail = "@" in text[:first]  # the name of the sender
        return sentences_of(text, first, directions, offsets, is_mail=is_mail)

    def asking(self, text: str, first: int, codes: bytes) -> list[tuple[int, int]]:
        """Return the ranges of the word pieces of a text that ask (`asking_ranges`), as far as
        `statements` reads it. Raises CannotEmbed.
        """
        return asking_ranges(text[: first + MOST_TEXT], first, self._places(text, first, codes))

    def _places(self, text: str, first: int, codes: bytes) -> list[tuple[int, int]]:
        """Return where the word pieces of the beginning of a text stand that these codes are of."""
        offsets: list[tuple[int, int]] = _encoding(
            self._loaded(), text[: first + MOST_TEXT]
        ).offsets
        count = len(codes) // WIDTH
        return offsets[: count if count <= PIECE else PIECE // 2]

    def is_talk(self, message: str) -> bool:
        """Return whether a short message is small talk (`StatementClassifier.is_talk`). Raises
        CannotEmbed.
        """
        if self._classifier is None:
            return False
        words = self.ask(message).words  # a search that follows asks for the same
        return words is not None and self._classifier.is_talk(message, words)

    def word_spans(self, text: str, pieces: Iterable[int]) -> set[tuple[int, int]]:
        """Return where the words are that pieces of a text are of, by the indices of the pieces;
        signs are of none. Raises CannotEmbed.
        """
        spans = self._spans(text)
        chosen = [at for at in sorted(pieces) if at < len(spans)]
        return {(first, last) for first, last in spans[chosen].tolist()} - {_NO_WORD}

    def _spans(self, text: str) -> NDArray[np.int32]:
        """Return where the word of each piece of a text is: [n, 2]. Cutting one costs 0.1 ms, and
        the messages of a small history are shown again and again.
        """
        model = self._loaded()
        name = hashlib.blake2b(text.encode(), digest_size=16).digest()
        with self._guard:
            if (places := model.cut_texts.get(name)) is not None:
                model.cut_texts.move_to_end(name)
                return places
        words = _words_at(text, _encoding(model, text).offsets)
        spans = np.array(words, np.int32).reshape(-1, 2)
        if len(spans) <= _CUT_PIECES:
            with self._guard:
                model.cut_texts.keep(name, spans)
        return spans

    def _run(
        self, model: _Model, ids: NDArray[np.int64], mask: NDArray[np.int64]
    ) -> list[NDArray[np.float32]]:
        try:
            answer: list[NDArray[np.float32]] = model.session.run(
                None, {"input_ids": ids, "attention_mask": mask}
            )
        except model.refusals as error:
            raise CannotEmbed(f"the embedding model failed: {error}") from error
        return answer


def _question_means(weights: Weights) -> NDArray[np.float32] | None:
    """Return the mean vectors of questions, one a language, None if the model has none. Raises
    NoWeights, WrongWeights.
    """
    name = weights.profile.questions
    means = _part(weights, name, _array)
    if means is not None and (means.ndim != 2 or means.shape[1] != DIMENSIONS or not len(means)):
        raise WrongWeights(_cannot_use(weights, f"{name} has the shape {means.shape}"))
    return means


def _array(data: bytes) -> NDArray[np.float32]:
    return np.asarray(np.load(BytesIO(data), allow_pickle=False), np.float32)


def _part(weights: Weights, name: str, read: Callable[[bytes], T]) -> T | None:
    """Return what a file of a model says, None if the model has none of that name. Raises
    NoWeights, WrongWeights.
    """
    file = weights.folder / name
    if not name or not file.is_file():
        return None
    try:
        return read(file.read_bytes())
    except OSError as error:
        raise NoWeights(f"the embedding model cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        raise WrongWeights(_cannot_use(weights, error)) from error


def _cannot_use(weights: Weights, error: Exception | str) -> str:
    return f"the embedding model in {weights.folder} cannot be used: {error}"


def _output(name: str) -> bytes:
    """Return what makes a value inside an ONNX graph one of its outputs, put behind the file: a
    message of protobuf whose fields are there twice has both.
    """

    def of(number: int, value: bytes) -> bytes:
        return bytes((number << 3 | 2, len(value))) + value

    value = of(_NAME, name.encode()) + of(_TYPE, _TENSOR_OF_FLOATS)
    return of(_GRAPH, of(_OUTPUT, value))


def _encoding(model: _Model, text: str) -> Any:
    """Return the pieces of a text with their places in it."""
    return model.tokenizer.encode_batch([text], add_special_tokens=False)[0]


def _words_at(text: str, places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return where the words are that the pieces at these places are of, in order; `_NO_WORD` for a
    sign. Most pieces are of the word of the piece before.
    """
    spans: list[tuple[int, int]] = []
    word = _NO_WORD
    for first, end in places:
        if not word[0] <= first < end <= word[1]:
            word = _word_at(text, first, end)
        spans.append(word)
    return spans


def _word_at(text: str, first: int, end: int) -> tuple[int, int]:
    if (part := _WORD.search(text, first, end)) is None:
        return _NO_WORD
    start = part.start()
    while start and _WORD.match(text, start - 1, start):
        start -= 1
    word = _WORD.match(text, start)
    assert word is not None
    return word.span()


def _return_freed_memory() -> None:
    """Return freed memory to the system where the C library can: loading a model leaves as much
    behind as it needs.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


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
        size = 1 if length >= _ALONE else _BATCH // length
        for start in range(0, len(numbers), size):
            yield numbers[start : start + size], length
