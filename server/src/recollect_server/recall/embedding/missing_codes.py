"""Codes of word pieces for texts that were embedded without: by a server of before, or a text that
is so long that it was embedded a slice at a time.

They are made once nothing waits to be embedded, those of the newest texts first. Until most of what
a search finds has them, words are not compared.
"""

from dataclasses import dataclass

from recollect_server.recall.embedding.statements import StatementFinder
from recollect_server.recall.embedding.texts import Plan, TextReader
from recollect_server.recall.embedding.vector_writer import EmbeddedElsewhere, VectorWriter
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.model.embedder import Embedder
from recollect_server.recall.model.marks import USER
from recollect_server.recall.vectors.store import VectorStore

_AT_ONCE = 16  # texts of a turn
CODES = "word codes"
"""Fact in the file of vectors: the constants of its codes by the main model."""
CODES_BESIDE = "word codes beside"
"""The same by the model of other languages."""
_ALL = 1 << 62


@dataclass(slots=True)
class _Looked:
    """The texts of a model that were looked at."""

    store: VectorStore
    form: str
    """The constants of its codes; empty where none are kept."""
    newest: int
    """Number of the newest text when all were looked at last."""
    above: int = 0
    below: int = _ALL
    """Numbers of texts between which some may lack codes."""


class MissingCodes:
    """The texts of a space whose word pieces have no codes. One thread calls it."""

    def __init__(
        self,
        meaning: Meaning,
        writer: VectorWriter,
        texts: TextReader,
        statements: StatementFinder,
    ) -> None:
        self._statements = statements
        self._meaning = meaning
        self._writer = writer
        self._texts = texts
        self._looked: dict[int, _Looked] = {}  # by model

    def begin(self, plan: Plan) -> None:
        """Drop codes that cannot be compared, before others are made: of other constants, or all
        where none are kept any more.
        """
        for model, embedder in plan.embedders():
            form = embedder.words_identity if self._meaning.compares_words(embedder) else ""
            looked = self._looked.get(model)
            if looked is not None and looked.store is plan.store and looked.form == form:
                continue
            fact = CODES if model == plan.model else CODES_BESIDE
            if plan.store.fact(fact) != form:
                plan.store.drop_codes(model)
                plan.store.note(fact, form)
            self._looked[model] = _Looked(plan.store, form, plan.store.newest_text())

    def make_some(self, plan: Plan) -> bool:
        """Make the codes of the next texts, those of the main model first: nearly all searches
        compare them. Return False if none lack them, as far as is known. Raises EmbeddedElsewhere
        where another process makes those of one model and none of the other are missing.
        """
        elsewhere: EmbeddedElsewhere | None = None
        for model, embedder in reversed(plan.embedders()):
            try:
                if self._make_some(plan, model, embedder):
                    return True
            except EmbeddedElsewhere as error:
                elsewhere = error
        if elsewhere is not None:
            raise elsewhere
        return False

    def _make_some(self, plan: Plan, model: int, embedder: Embedder) -> bool:
        looked = self._looked[model]
        if not looked.form:
            return False
        missing = plan.store.uncoded(model, (looked.above, looked.below), _AT_ONCE)
        if not missing:
            looked.above, looked.below = looked.newest, _ALL
            looked.newest = plan.store.newest_text()
            return looked.newest > looked.above
        texts = {}
        for it in missing:
            for place in it.places:  # the first one may be of a conversation that is being deleted
                text = self._texts.at(plan.index, *place)
                if text is not None and text.hash == it.hash:
                    texts[it.text] = text
                    break
        made = self._writer.codes(plan, embedder, [*texts.values()]) if texts else {}
        plan.store.add_codes({number: made[text.hash] for number, text in texts.items()})
        read = {n: (it, made[it.hash], it.marks & 3 == USER) for n, it in texts.items()}
        self._statements.add(plan, embedder, read)
        looked.below = missing[-1].text
        return True
