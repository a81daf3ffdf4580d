"""The vectors of a space where nobody has their file open: at a start, and in a verification. While
a space is open its events tell who has the file (`recall.meaning`).
"""

from collections.abc import Collection, Iterator
from contextlib import suppress

from recollect_server.kernel.compare.checks import Checker, Findings
from recollect_server.kernel.compare.comparison import Compared, Comparison
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.erase.erasing import Participant
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.store import Version
from recollect_server.kernel.space.conversation_logs import ConversationReading
from recollect_server.recall.embedding.texts import text_of
from recollect_server.recall.vectors.checking import outside
from recollect_server.recall.vectors.checking import problems as problems_of_file
from recollect_server.recall.vectors.file import NAME, VectorsUnavailable
from recollect_server.recall.vectors.store import (
    ABBREVIATION,
    forget_conversations,
    forget_lines,
    hash_of,
)


class VectorFile(Participant):
    """The file of vectors at a start. One that cannot be used is made anew."""

    def redact(self, conversation_id: str, sequences: Collection[int]) -> None:
        """Remove the vectors of messages, and of the notes, which may quote them."""
        with suppress(VectorsUnavailable):
            forget_lines(self.store.root, conversation_id, (*sequences, ABBREVIATION))

    def before_logs(self, index: Index) -> None:  # noqa: ARG002
        """Remove the vectors of conversations whose delete has begun."""
        deleted = [name for name, _ in self.store.logs(Kind.CONVERSATION, Version.DELETED)]
        with suppress(VectorsUnavailable):
            forget_conversations(self.store.root, deleted)

    def behind_logs(self, index: Index) -> None:
        """Remove the vectors of conversations that are unindexed, whether anything is embedded from
        now on or not.
        """
        with suppress(VectorsUnavailable):
            forget_conversations(self.store.root, index.conversations.unindexed())


class VectorChecker(Checker):
    """Comparison of the vectors with the transcripts."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(comparison)
        self._root = comparison.store.root
        self._embedded: dict[int, bytes] = {}
        self._looked_at = 0

    def of_files(self) -> list[str]:
        """Return the problems of the file by itself."""
        return [f"{NAME}: {problem}" for problem in problems_of_file(self._root)]

    def of_space(self, findings: Findings) -> None:
        """Name the vectors that are damaged."""

        def damaged() -> set[tuple[str, int]]:
            with outside(self._root) as vectors:
                return set(vectors.damaged()) if vectors else set()

        try:
            places = damaged()
            places = places and places & damaged()
        except VectorsUnavailable as error:
            findings.add("", [f"{NAME} cannot be used: {error}"])
            return
        for name in sorted({name for name, _ in places}):
            lines = sorted(line for it, line in places if it == name)
            problem = f"{NAME}: the vector of {{}} is missing or damaged"
            findings.add(name, [problem.format(_place(line)) for line in lines])

    def look(self, name: str) -> None:
        """Read what is embedded of a conversation, right before its log is."""
        self._embedded, self._looked_at = {}, 0
        # of a file that cannot be used: it is a problem of the space already
        with suppress(VectorsUnavailable), outside(self._root) as vectors:
            if vectors:
                self._embedded, self._looked_at = vectors.hashes(name)

    def differences(self, compared: Compared) -> Iterator[str]:
        """Yield vectors of other texts than the transcript has. A missing one is worked out while a
        server runs: no problem.
        """
        reading, embedded = compared.reading, self._embedded
        if not isinstance(reading, ConversationReading):
            return
        if (stored := compared.stored) is not None:
            embedded = {line: it for line, it in embedded.items() if line <= stored.lines}
            if self._looked_at < stored.lines:  # the notes may be newer than their vector
                embedded.pop(ABBREVIATION, None)
        texts: dict[int, str] = {}
        if reading.state is None or not reading.state.unindexed:
            texts = {message.sequence: text_of(message) for _, message in reading.messages_read}
            texts[ABBREVIATION] = reading.state.abbreviation if reading.state else ""
        for line, embedded_hash in sorted(embedded.items()):
            if line not in texts or embedded_hash != hash_of(texts[line]):
                yield f"{NAME} has another text than {_place(line)}"


def _place(line: int) -> str:
    return f"line {line}" if line != ABBREVIATION else "the abbreviation"
