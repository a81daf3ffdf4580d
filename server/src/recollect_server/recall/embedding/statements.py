"""Sentences of the texts that were embedded: which of a user's say something lasting of their
writer, and which ask.

They are worked out behind the embedding, from the codes of word pieces, and kept beside these as
places in the text: no words. A text that is gone takes them with it.
"""

from collections.abc import Mapping
from types import MappingProxyType

import orjson

from recollect_server.recall.embedding.texts import Plan, Text, TextReader
from recollect_server.recall.model.embedder import Embedder
from recollect_server.recall.model.questions import written as written_ranges
from recollect_server.recall.model.statement import StatementKind, StatementSpan
from recollect_server.recall.vectors.store import Coded, VectorStore
from recollect_server.text.text import asks

_AT_ONCE = 128  # texts of a turn
NO_FACTS: Mapping[str, str] = MappingProxyType({})
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
        """Note up to which text each model's statements were found, and drop those that another
        version of the classifier found.
        """
        if self._store is not plan.store:
            self._store, self._through = plan.store, {}
        for model, embedder in plan.embedders():
            if model in self._through:
                continue
            store, form = plan.store, embedder.statements_identity
            if store.fact(f"{_FORM} {model}") != form:
                store.drop_statements(model)
                store.add_statements({}, {}, {f"{_FORM} {model}": form, f"{_THROUGH} {model}": "0"})
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
        made: dict[int, tuple[Text, bytes, bool]] = {}
        for it in coded:
            if (text := self._text(plan, it)) is not None:
                made[it.text] = text, it.codes, it.is_users
        through = coded[-1].text if len(coded) == _AT_ONCE else newest
        self.add(plan, embedder, made, {f"{_THROUGH} {model}": str(through)})
        self._through[model] = through
        return len(coded) == _AT_ONCE

    def _text(self, plan: Plan, coded: Coded) -> Text | None:
        """Return a text from the first place that has it: one may be of a conversation that is
        being deleted. None if none has.
        """
        first = self._texts.at(plan.index, *coded.place)
        if first is not None and first.hash == coded.hash:
            return first
        others = (self._texts.at(plan.index, *it) for it in plan.store.places_of(coded.text))
        return next((it for it in others if it is not None and it.hash == coded.hash), None)

    @staticmethod
    def add(
        plan: Plan,
        embedder: Embedder,
        made: Mapping[int, tuple[Text, bytes, bool]],
        facts: Mapping[str, str] = NO_FACTS,
    ) -> None:
        """Look at texts with the codes of their pieces, by number, each with whether it is a
        user's, and note facts.
        """
        statements: dict[int, bytes] = {}
        asking: dict[int, bytes] = {}
        for number, (text, codes, is_users) in made.items():
            first = len(text.text) - len(text.content)  # behind the name of the sender
            if is_users and (own := embedder.statements(text.text, first, codes)):
                statements[number] = written(own, first)
            if asks(text.content) and (ranges := embedder.asking(text.text, first, codes)):
                asking[number] = written_ranges(ranges)
        plan.store.add_statements(statements, asking, facts)


def written(statements: list[StatementSpan], first: int) -> bytes:
    """Return statements as JSON: start, end, kind and probability of each. The places count from
    `first`, the character at which the stored piece of text begins.
    """
    return orjson.dumps([
        (it.start - first, it.end - first, it.kind, round(it.probability, 3)) for it in statements
    ])  # fmt: skip


def read_statements(blob: bytes) -> list[StatementSpan]:
    """Return the statements that `written` gave."""
    return [
        StatementSpan(start, end, StatementKind(kind), probability)
        for start, end, kind, probability in orjson.loads(blob)
    ]
