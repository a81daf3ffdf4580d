"""Standing instructions found by their occasion: "Always name the author when I ask about books" is
found by a question about books, whatever its words.

What the profile learned says which messages have one (`embedding.statements`). Of those that are
sure the nearest to the question in meaning governs it; it stands among the first hits, and takes
the place of none of the best.
"""

from recollect_server.anchors.service import KeptAnchors
from recollect_server.kernel.space.space import Space
from recollect_server.recall.embedding.statements import read_statements
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.model.statement import (
    SURE_INSTRUCTION,
    StatementKind,
    statement_key,
)
from recollect_server.recall.vectors.file import VectorsUnavailable


class StandingInstructions:
    """The messages of a space with a sure instruction. Safe to call from any thread."""

    def __init__(self, space: Space, meaning: Meaning) -> None:
        self._meaning = meaning
        self._ledger = space.part(KeptAnchors).ledger
        self._read: tuple[object, list[tuple[str, int]]] = (None, [])

    def places(self) -> list[tuple[str, int]]:
        """Return the conversation and the line of each, without those that were left out of the
        profile; none where nothing is embedded.
        """
        if not self._meaning.on:
            return []
        try:
            store = self._meaning.store()
            version = store, store.statements_version, self._ledger.version
            read_at, places = self._read
            if read_at != version:
                left_out = self._ledger.forgotten()
                places = [
                    (it.conversation_id, it.line)
                    for it in store.stated()
                    if any(
                        one.kind is StatementKind.INSTRUCTION
                        and one.probability >= SURE_INSTRUCTION
                        and statement_key(it.conversation_id, it.line, one.start) not in left_out
                        for one in read_statements(it.statements)
                    )
                ]
                self._read = version, places
        except VectorsUnavailable:
            return []
        return places
