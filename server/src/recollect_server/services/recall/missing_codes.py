"""Codes of word pieces for texts that were embedded without: by a server of before, or a text that
is so long that it was embedded a slice at a time.

They are made once nothing waits to be embedded, those of the newest texts first. Until most of what
a search finds has them, words are not compared.
"""

from recollect_server.services.recall.embedding_plan import Plan
from recollect_server.services.recall.embedding_texts import TextReader
from recollect_server.services.recall.meaning import Meaning
from recollect_server.services.recall.vector_writer import VectorWriter
from recollect_server.storage.vectors.store import ABBREVIATION, VectorStore

_AT_ONCE = 16  # texts of a turn
CODES = "word codes"
"""Fact in the file of vectors: the constants of its codes."""
_ALL = 1 << 62
_NONE = b""  # codes of a text without any


class MissingCodes:
    """The texts of a space whose word pieces have no codes. One thread calls it."""

    def __init__(self, meaning: Meaning, writer: VectorWriter, texts: TextReader) -> None:
        self._meaning = meaning
        self._writer = writer
        self._texts = texts
        self._store: VectorStore | None = None
        self._form = ""
        self._above, self._below, self._newest = 0, _ALL, 0
        """Numbers of texts: between the first two some may lack codes, and the newest one when that
        was so."""

    def begin(self, plan: Plan) -> None:
        """Drop codes that cannot be compared, before others are made: of other constants, or all
        where none are kept any more.
        """
        embedder = plan.main
        form = embedder.words_identity if self._meaning.compares_words(embedder) else ""
        if self._store is plan.store and self._form == form:
            return
        if plan.store.fact(CODES) != form:
            plan.store.drop_codes()
            plan.store.note(CODES, form)
        self._store, self._form = plan.store, form
        self._above, self._below, self._newest = 0, _ALL, plan.store.newest_text()

    def make_some(self, plan: Plan) -> bool:
        """Make the codes of the next texts. Return False if none lack them, as far as is known.
        Raises EmbeddedElsewhere.
        """
        if not self._form:
            return False
        missing = plan.store.uncoded(plan.model, (self._above, self._below), _AT_ONCE)
        if not missing:
            self._above, self._below = self._newest, _ALL
            self._newest = plan.store.newest_text()
            return self._newest > self._above
        texts = {}
        for it in missing:
            if it.line != ABBREVIATION:
                text = self._texts.at(plan.index, it.conversation_id, it.line)
                if text is not None and text.hash == it.hash:
                    texts[it.text] = text
        made = self._writer.codes(plan, [*texts.values()]) if texts else {}
        plan.store.add_codes({
            it.text: made[it.hash] if it.text in texts else _NONE for it in missing
        })  # fmt: skip
        self._below = missing[-1].text
        return True
