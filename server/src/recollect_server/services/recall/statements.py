"""Statements of users in the texts that were embedded: which sentences say something lasting of
their writer.

They are worked out behind the embedding, from the codes of word pieces, and kept beside these as
places in the text: no words. A text that is gone takes them with it.
"""

import orjson

from recollect_server.domain.profile import StatementKind, StatementSpan
from recollect_server.inference.embedder import Embedder
from recollect_server.services.recall.embedding_plan import Plan
from recollect_server.services.recall.embedding_texts import Text, TextReader
from recollect_server.storage.vectors.store import VectorStore

_AT_ONCE = 128  # texts of a turn
_THROUGH, _FORM = "statements through", "statements"
"""Facts in the file of vectors, for each model: the number of the last text that was looked at, and
the classifier that did.
"""


class StatementFinder:
    """Finder of the statements of a space. One thread calls it."""

    def __init__(self, texts: TextReader) -> None:
        self._texts = texts
        self._through: dict[int, int] = {}
        self._store: VectorStore | None = None

    def begin(self, plan: Plan) -> None:
        """Drop statements that another classifier statements."""
        if self._store is not plan.store:
            self._store, self._through = plan.store, {}
        for model, embedder in plan.embedders():
            if model in self._through:
                continue
            store, form = plan.store, embedder.statements_identity
            if store.fact(f"{_FORM} {model}") != form:
                store.drop_statements(model)
                store.add_statements({}, {f"{_FORM} {model}": form, f"{_THROUGH} {model}": "0"})
            self._through[model] = int(store.fact(f"{_THROUGH} {model}") or 0)

    def find_some(self, plan: Plan) -> bool:
        """Look at the next texts that have codes. Return False if there are none. Raises
        DataUnavailable, CannotEmbed.
        """
        statements = [self._find_some(plan, *it) for it in plan.embedders()]
        return any(statements)

    def _find_some(self, plan: Plan, model: int, embedder: Embedder) -> bool:
        store, through = plan.store, self._through[model]
        newest = store.newest_text()
        if newest <= through or not embedder.statements_identity:
            return False
        coded = store.coded(model, through, _AT_ONCE)
        statements: dict[int, bytes] = {}
        for it in coded:
            text = self._texts.at(plan.index, *it.place)
            if text is not None and text.hash == it.hash:
                statements |= self.of(embedder, it.text, text, it.codes)
        through = coded[-1].text if len(coded) == _AT_ONCE else newest
        store.add_statements(statements, {f"{_THROUGH} {model}": str(through)})
        self._through[model] = through
        return len(coded) == _AT_ONCE

    def add(self, plan: Plan, embedder: Embedder, made: dict[int, tuple[Text, bytes]]) -> None:
        """Find the statements of texts that have their codes later than others, by number."""
        statements: dict[int, bytes] = {}
        for number, (text, codes) in made.items():
            statements |= self.of(embedder, number, text, codes)
        plan.store.add_statements(statements, {})

    @staticmethod
    def of(embedder: Embedder, number: int, text: Text, codes: bytes) -> dict[int, bytes]:
        """Return the statements of a text, by its number; none of one without any."""
        first = len(text.text) - len(text.content)  # behind the name of the sender
        statements = embedder.statements(text.text, first, codes)
        return {number: written(statements, first)} if statements else {}


def written(statements: list[StatementSpan], first: int) -> bytes:
    """Return statements as bytes, with places in what begins at a character of their text."""
    return orjson.dumps([
        (it.start - first, it.end - first, it.kind, round(it.probability, 3)) for it in statements
    ])  # fmt: skip


def read_statements(blob: bytes) -> list[StatementSpan]:
    """Return the statements that `written` gave."""
    return [
        StatementSpan(start, end, StatementKind(kind), probability)
        for start, end, kind, probability in orjson.loads(blob)
    ]
