"""Search by meaning: the file of vectors, the copy that searches read, and the model that embeds
questions.

Everything here may be missing or break while the service goes on: then `reason` says why, the
searches say so too, and the job that tends it (`embedding`) tries again.
"""

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import structlog
from numpy.typing import NDArray

from recollect_server.kernel.domain.ids import MAX_LINES, SEQUENCE_BITS, message_id
from recollect_server.kernel.domain.telemetry import UNMEASURED, Step, Telemetry
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.space.events import Deleted, Redacted, Resting, Unindexed
from recollect_server.recall.model.embedder import CannotEmbed, Embedder
from recollect_server.recall.model.models import FACTOR, EmbeddingModels, is_foreign
from recollect_server.recall.model.weights import MINILM
from recollect_server.recall.model.word_codes import QuestionPieces
from recollect_server.recall.search import Search
from recollect_server.recall.vectors.file import NAME, VectorsUnavailable, remove_files
from recollect_server.recall.vectors.joint import JointScan
from recollect_server.recall.vectors.matrix import Matrix
from recollect_server.recall.vectors.scan import Scan
from recollect_server.recall.vectors.store import ABBREVIATION, Loaded, VectorStore

log = structlog.get_logger("recollect.meaning")

# Age in seconds from which a message that is not embedded yet is reported as missing: the goal for
# a message to be found by meaning.
_LATE = 2.0
# Word pieces of a search's question that are embedded, in some 40 ms of the processor. 2 of the 728
# questions of RealMem have more.
_BRIEF = 192
# Share of messages in other languages up to which a space counts as English: beyond it, English
# questions find less of them where both models' vectors are whitened
# (`docs/decisions/embedding-models.md`).
_FOREIGN = 0.01
_FOREIGN_QUESTION = "the question looks like another language than English, and "
_UNREAD = "only the model of English has read this space: it is found by its words"


class MeaningUnavailable(Exception):
    """Nothing can be found by meaning now; the text says why."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy of the vectors that searches read: of one model, for one index, whose numbers the ids
    have.
    """

    model: int
    embedder: Embedder
    index: Index
    messages: Matrix
    abbreviations: Matrix
    beside: "Copy | None" = None
    """Copy of the vectors of other languages, where the space has any."""
    beside_reads_all: bool = False
    """True if the model of other languages reads English as well, because a question was asked in
    another language.
    """

    def of_model(self, model: int) -> "Copy | None":
        """Return the copy, or that beside it, that has the vectors of a model."""
        return next(
            (it for it in (self, self.beside) if it is not None and it.model == model), None
        )

    def is_english(self) -> bool:
        """Return whether hardly any message is in another language than English.

        Call it where the second model has read all messages: then those that the main model has
        not read are the foreign ones.
        """
        if self.beside is None:
            return True
        count = self.beside.messages.message_count
        return count - self.messages.message_count <= _FOREIGN * count

    def asked(self, *, foreign: bool) -> list[tuple["Copy", float]]:
        """Return the copies that a question is compared with, each with the factor for its cosines.

        A `foreign` question is compared with the vectors of the second model alone, where the space
        has any: to the main model it is near to whatever that has read of its language by mistake.
        Another question is compared with all vectors; but where the second model has read the
        English texts too, and hardly anything else is there, with those of the main model alone.
        """
        here = [(self, 1.0)]
        beside = [(self.beside, FACTOR)] if self.beside is not None else []
        if beside and foreign:
            return beside
        if self.beside_reads_all and self.is_english():
            return here
        fuller = _fuller(self)
        return [it for it in here + beside if it[0] is fuller or not it[0].is_empty()]

    def is_empty(self) -> bool:
        """Return whether it never had a vector."""
        return not len(self.messages) and not len(self.abbreviations)


AnyScan = Scan | JointScan


@dataclass(frozen=True, slots=True)
class Scans:
    """A question, put to what is known: to the messages, and to the abbreviations."""

    messages: AnyScan
    abbreviations: AnyScan
    words: "tuple[AskedWords, ...]" = ()
    """The question's words as each model reads them, to be compared one by one; none where that is
    left out.
    """
    lack: str = ""
    """Reason why the question's meaning is not understood; empty if it is."""


@dataclass(frozen=True, slots=True)
class AskedWords:
    """The word pieces of a question, and where the codes are that they are compared with."""

    question: QuestionPieces
    store: VectorStore
    model: int
    embedder: Embedder
    is_main: bool
    """True of the main model."""
    cosines: dict[tuple[str, int], NDArray[np.float32]] = field(default_factory=dict)
    """Cosines of the pieces of messages that were compared, by conversation and line: [pieces,
    pieces of the question]. None of a message without codes.
    """


@dataclass(frozen=True, slots=True)
class EmbeddingBacklog:
    """Conversations that are not embedded yet: their number, and since when the first one waits, on
    the monotonic clock.
    """

    conversations: int
    since: float


class Meaning:
    """State of search by meaning. Safe to call from any thread."""

    def __init__(self, folder: Path, models: EmbeddingModels | None) -> None:
        """`folder` is where `vectors.db` is; without models nothing is embedded, and nothing found
        so.
        """
        self._folder = folder
        self.models = models
        self._guard = threading.Lock()  # guards `_store` while it is opened, closed and made anew
        self._store: VectorStore | None = None
        self.copy: Copy | None = None
        self._hidden: list[Callable[[Copy], None]] | None = None
        """Removals from the copies since another one is being loaded; None: none is."""
        self.reason = "the embedding model is not loaded yet"
        self.failure = ""
        """Reason why nothing more is embedded; empty if there is none."""
        self.lack = ""
        """Reason why texts in other languages are not found by their meaning; empty if they are."""
        self._unasked = ""  # likewise, of the last question
        self.wants_languages = False
        """True once a question was asked in a language that no model has read the space in."""
        self.waiting: EmbeddingBacklog | None = None
        self.question_at = -math.inf
        """Time of the last search or context, on the monotonic clock."""

    @property
    def on(self) -> bool:
        """Return whether search by meaning is switched on."""
        return self.models is not None

    def compares_words(self, embedder: Embedder) -> bool:
        """Return whether the word pieces of texts that a model embeds are kept and compared."""
        return self.models is not None and self.models.words and bool(embedder.words_identity)

    def is_talk(self, message: str) -> bool:
        """Return whether a short message is small talk, as far as a loaded model tells."""
        copy = self.copy
        read_by = copy.beside if copy is not None and is_foreign(message) else copy
        if read_by is None:
            return False
        try:
            return read_by.embedder.is_talk(message)
        except CannotEmbed:
            return False

    def backlog(self) -> str:
        """Return why the newest messages are not found by meaning, or that they are late; empty if
        none is missing.

        Called with each search: an embedding may take long.
        """
        if reason := self.failure or self.lack or self._unasked:
            return reason
        waiting = self.waiting
        if waiting is None or time.monotonic() - waiting.since <= _LATE:
            return ""
        return f"words of {counted(waiting.conversations, 'conversation')} are not embedded yet"

    def lacking(self, index: Index) -> str:
        """Return the reason why a search by meaning misses something now; empty if it does not."""
        try:
            self._copy_for(index)
        except MeaningUnavailable as error:
            return str(error)
        return self.backlog()

    def _copy_for(self, index: Index) -> Copy:
        copy = self.copy
        if copy is None:
            raise MeaningUnavailable(self.reason)
        if copy.index is not index:
            raise MeaningUnavailable(
                "the index was made anew, and the vectors are still ordered by the one before"
            )
        return copy

    def ask(
        self,
        text: str,
        index: Index,
        numbers: NDArray[np.int64] | None,
        start: int | None,
        end: int | None,
        *,
        is_brief: bool = False,
        telemetry: Telemetry = UNMEASURED,
    ) -> Future[Scans]:
        """Begin to embed a question beside the calling thread, and return what will be the scans
        for it, limited to some conversations (None: all) and to a period.

        Of one that `is_brief`, the first `_BRIEF` word pieces count, and half as many for the model
        of other languages, which takes twice as long for each. This and the future raise
        MeaningUnavailable.
        """
        copy = self._copy_for(index)
        assert self.models is not None  # there is a copy
        within = numbers
        has_notes = any(it is not None and len(it.abbreviations) for it in (copy, copy.beside))
        if has_notes and (start is not None or end is not None):
            # An abbreviation is of a whole conversation: a time finds those of the conversations
            # that lie within it.
            within = Search(index).numbers_within(start, end)
            if numbers is not None:
                within = np.intersect1d(numbers, within, assume_unique=True)

        def scans() -> Scans:
            with telemetry.step(Step.QUESTION):
                return self._scans(copy, text, numbers, within, start, end, is_brief=is_brief)

        return self.models.threads.submit(copy_context().run, scans)

    def _scans(
        self,
        copy: Copy,
        text: str,
        numbers: NDArray[np.int64] | None,
        within: NDArray[np.int64] | None,
        start: int | None,
        end: int | None,
        *,
        is_brief: bool,
    ) -> Scans:
        """Embed a question and return its scans; `within` are the conversations whose notes may be
        found.
        """
        assert self.models is not None  # there is a copy
        parts: list[tuple[Scan, Scan, float]] = []
        words: tuple[AskedWords, ...] = ()
        self._unasked = ""
        foreign = copy.embedder.profile == MINILM and is_foreign(text)
        lack = self._unread(copy) if foreign else ""
        for it, factor in copy.asked(foreign=foreign):
            try:
                most = _BRIEF if it is copy else _BRIEF // 2
                prepared = it.embedder.ask(text, most if is_brief else None)
            except CannotEmbed as error:
                if it is copy:
                    raise MeaningUnavailable(str(error)) from error
                self._unasked = f"{it.embedder.profile.name}: {error}"
                continue
            messages = Scan(it.messages, prepared.vector, numbers, start, end)
            abbreviations = Scan(it.abbreviations, prepared.vector, within)
            store, is_main = self._store, it is copy
            # the main model reads no other language
            is_read = not (foreign and is_main) and self.compares_words(it.embedder)
            if prepared.words and is_read and store:
                words += (AskedWords(prepared.words, store, it.model, it.embedder, is_main),)
            parts.append((messages, abbreviations, factor))
        if not parts:
            raise MeaningUnavailable(self._unasked)
        if len(parts) == 1 and parts[0][2] == 1.0:
            return Scans(parts[0][0], parts[0][1], words, lack)
        return Scans(
            JointScan([(it[0], it[2]) for it in parts]),
            JointScan([(it[1], it[2]) for it in parts]),
            words,
            lack,
        )

    def _unread(self, copy: Copy) -> str:
        """Return what no model of its language has read of the space that a question in another
        language than English is put to; empty if that is nothing. The first such question has the
        model of other languages read it.
        """
        assert self.models is not None  # there is a copy
        if not copy.beside_reads_all:
            self.wants_languages = self.models.languages is not None
        if copy.beside is None:
            return _FOREIGN_QUESTION + _UNREAD
        read, all_ = (it.messages.message_count for it in (copy.beside, copy))
        if read >= all_:
            return ""
        return f"{_FOREIGN_QUESTION}the model of other languages has read {read} of {counted(all_, 'message')} so far"

    def whiten(self, copy: Copy | None, *, settled: bool = True) -> None:
        """Compute what all messages have in common, where that has changed; while messages wait to
        be embedded (not `settled`) only where much is new.

        Of the main model's vectors. With both models for English, of each one's, unless messages
        in other languages are more than a few.
        """
        if copy is None or self.models is None:
            return
        if not self.models.both or copy.beside is None:
            copy.messages.whiten(settled=settled)
        elif copy.is_english():
            copy.messages.whiten(settled=settled)
            copy.beside.messages.whiten(settled=settled)
        else:
            copy.messages.unwhiten()
            copy.beside.messages.unwhiten()

    def forget(self, event: Deleted) -> None:
        """Remove the vectors of deleted conversations. Raises nothing: a file that refuses is
        removed whole.
        """
        if removed := self._remove_from_file(lambda store: store.remove(*event.numbers)):
            event.removed["vectors"] = removed
        numbers = [number for number in event.numbers.values() if number is not None]
        self._hide(partial(_without_conversations, numbers))

    def redact(self, event: Redacted) -> None:
        """Remove the vectors of redacted messages and of the notes, which may be about them. Raises
        nothing: a file that refuses is removed whole.
        """
        lines = (*event.sequences, ABBREVIATION)
        self._remove_from_file(lambda store: store.forget_lines(event.conversation_id, lines))
        self._hide(partial(_without_messages, event.number, event.sequences))

    def unindex(self, event: Unindexed) -> None:
        """Remove the vectors of a conversation that is unindexed. Raises nothing: a file that
        refuses is removed whole.
        """
        self._remove_from_file(lambda store: store.remove(event.conversation_id))
        self._hide(partial(_without_conversations, [event.number]))

    def _remove_from_file(self, act: Callable[[VectorStore], int]) -> int:
        """Remove vectors from the file, if there is one. Return their number."""
        if self._store is None and not (self._folder / NAME).exists():
            return 0
        try:
            return act(self.store())
        except VectorsUnavailable as error:
            log.warning("vectors_removed", reason=str(error))
            self.drop()
            return 0

    def _hide(self, hide: Callable[[Copy], None]) -> None:
        """Take something out of what searches see: behind its removal from the file, so that the
        embedder, which adds to the file first, finds out that it is gone.
        """
        if (hidden := self._hidden) is not None:
            hidden.append(hide)  # first: who loads a copy looks here once searches see that
        for it in self._copies():
            hide(it)

    def _copies(self) -> list[Copy]:
        """Return what searches see, by model."""
        copy = self.copy
        return [it for it in (copy, copy.beside if copy else None) if it is not None]

    # For the job that tends it --------------------------------------------------------------------

    def store(self) -> VectorStore:
        """Return the open file of vectors. Raises VectorsUnavailable, VectorsDamaged: then `drop`
        helps.
        """
        with self._guard:
            if self._store is not None and self._store.lost():
                log.warning("vectors_lost", reason=f"{NAME} was removed or replaced")
                self._store.close()
                self._store = self.copy = None
            if self._store is None:
                self._store = VectorStore(self._folder)
            return self._store

    def drop(self) -> None:
        """Remove a file that is unusable, so that everything is embedded again."""
        with self._guard:
            if self._store is not None:
                self._store.close()
            self._store = self.copy = None
            self._remove()

    def _remove(self) -> None:
        try:
            remove_files(self._folder)
        except OSError as error:
            raise VectorsUnavailable(f"{NAME} cannot be removed: {error.strerror}") from error

    def load(self, store: VectorStore, model: int, embedder: Embedder, index: Index) -> Copy:
        """Read the copy that searches use. Raises VectorsUnavailable."""
        loaded = store.load(model)
        numbers = index.conversations.numbers(list(loaded.keys.values()))
        names = set(loaded.keys.values())
        store.remove(*(names - numbers.keys()))  # deleted while the file was closed
        unindexed = names.intersection(index.conversations.unindexed())
        store.clear(*unindexed)
        for name in unindexed:
            del numbers[name]
        messages, abbreviations = Matrix(SEQUENCE_BITS), Matrix(SEQUENCE_BITS)
        of_key = np.full(max(loaded.keys, default=0) + 1, -1, np.int64)
        for key, name in loaded.keys.items():
            of_key[key] = numbers.get(name, -1)
        owners = of_key[loaded.places >> SEQUENCE_BITS]
        lines = loaded.places & MAX_LINES
        for matrix, chosen in (
            (messages, lines != ABBREVIATION),
            (abbreviations, lines == ABBREVIATION),
        ):
            _fill(matrix, loaded, store, owners << SEQUENCE_BITS | lines, chosen & (owners >= 0))
        return Copy(model, embedder, index, messages, abbreviations)

    def replace(self, store: VectorStore, load: Callable[[], Copy | None]) -> None:
        """Let searches see a copy that `load` reads from the file, if it can, without what goes
        meanwhile. Raises VectorsUnavailable if the file goes.
        """
        self._hidden = hidden = list[Callable[[Copy], None]]()
        try:
            if (copy := load()) is None:
                return
            with self._guard:
                if self._store is not store:
                    raise VectorsUnavailable(f"{NAME} was removed while it was read")
                self.copy = copy
            for hide in hidden:
                for it in self._copies():
                    hide(it)
        finally:
            self._hidden = None

    def rest(self, _: Resting) -> None:
        """Close the file and drop the copy, until the job that tends it comes again."""
        with self._guard:
            if self._store is not None:
                self._store.close()
            self._store = self.copy = None
            self.reason = "the vectors are being loaded"

    def close(self) -> None:
        with self._guard:
            if self._store is not None:
                self._store.close()


def _without_conversations(numbers: Sequence[int], copy: Copy) -> None:
    copy.messages.remove(*numbers)
    copy.abbreviations.remove(*numbers)


def _without_messages(number: int, sequences: Collection[int], copy: Copy) -> None:
    """Take messages out of a copy, with the notes of their conversation."""
    copy.abbreviations.remove(number)
    copy.messages.remove_ids(*(message_id(number, sequence) for sequence in sequences))


def _fuller(copy: Copy) -> Copy:
    """Return the copy that is asked even if it is empty: one of both."""
    return copy.beside if copy.is_empty() and copy.beside is not None else copy


def _fill(
    matrix: Matrix,
    loaded: Loaded,
    store: VectorStore,
    ids: NDArray[np.int64],
    chosen: NDArray[np.bool_],
) -> None:
    """Load the chosen entries into a matrix, ordered by id."""
    entries = np.flatnonzero(chosen)
    if not len(entries):
        return
    entries = entries[np.argsort(ids[entries], kind="stable")]
    rows = loaded.rows[entries]
    order = np.argsort(rows, kind="stable")
    sorted_rows = rows[order]

    def parts() -> Iterator[tuple[NDArray[np.int64], NDArray[np.int8]]]:
        for there, vectors in store.chunks():
            first, last = (
                np.searchsorted(sorted_rows, there),
                np.searchsorted(sorted_rows, there, "right"),
            )
            counts = last - first  # a text that stands in several places has several entries
            places = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
            yield order[places], np.repeat(vectors, counts, axis=0)

    matrix.load(ids[entries], loaded.times[entries], loaded.marks[entries], parts())
