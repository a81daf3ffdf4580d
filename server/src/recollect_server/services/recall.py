"""Recall: conversations and messages found again by their words, by time, and the turns around them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from recollect_server.domain.conversation import Conversation, opening_of
from recollect_server.domain.errors import IndexUnavailable, InvalidField, StorageUnavailable
from recollect_server.domain.message import Message
from recollect_server.domain.ranking import (
    Ranked,
    Scores,
    conversation_bm25,
    fuse_conversations,
    fuse_messages,
    highest,
    normalised,
    with_neighbours,
)
from recollect_server.domain.text import composed
from recollect_server.services.snippets import snippet
from recollect_server.services.space import Space
from recollect_server.services.working_context import Turns, read_places, turns_of
from recollect_server.storage.index.conversations import Filter
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.search import Found, Scope
from recollect_server.storage.index.turns import Place
from recollect_server.storage.index.words import Term

LEGS = ("keyword_messages", "keyword_conversations")
_MESSAGES = 200  # the best messages that are looked at; more did not change the answers
_TURNS = 10  # matched turns named in a result
DEFAULT_TURNS = 10  # of FetchContext


@dataclass(frozen=True, slots=True)
class LegScore:
    """What a leg gave: the place in it from 1, and its own score."""

    leg: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Result:
    """A conversation that was found."""

    conversation: Conversation
    snippet: str
    matched_turns: list[int]
    date: int
    score: float
    explanation: list[LegScore]


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found."""

    conversation: Conversation
    message: Message
    snippet: str
    score: float
    explanation: list[LegScore]


@dataclass(frozen=True, slots=True)
class Answer:
    """What Search answers."""

    results: list[Result] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    total_matches: int = 0
    legs_run: tuple[str, ...] = LEGS
    degraded: dict[str, str] = field(default_factory=dict)
    """Why a leg could not answer."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What FetchContext answers."""

    conversation: Conversation
    turns: Turns


@dataclass(frozen=True, slots=True)
class _Candidates:
    """What was found, scored."""

    messages: dict[int, Ranked]
    conversations: dict[int, Ranked]
    """Those that an answer can be made of: the best by all their words, and those of the messages."""
    shown: dict[int, Found]
    total: int
    """How many conversations were found."""


class Recall:
    """The work of RecallService. Raises the errors of `domain.errors`; safe to call from any thread."""

    def __init__(self, space: Space) -> None:
        self._space = space

    @property
    def _index(self) -> Index:
        return self._space.index

    def search(self, query: str, scope: Scope, limit: int, *, explain: bool) -> Answer:
        """The conversations and the messages that fit best."""
        try:
            terms = self._index.terms(query)
            if not terms:
                return Answer(degraded=self._behind())
            candidates = self._candidates(terms, scope, 2 * limit + 50)
            known = self._index.by_number({*candidates.conversations})
            hits = self._hits(candidates, terms, known, limit, explain=explain)
            results = self._results(candidates, terms, known, scope, limit, explain=explain)
        except IndexUnavailable as error:
            return Answer(legs_run=(), degraded=dict.fromkeys(LEGS, str(error)))
        return Answer(results, hits, total_matches=candidates.total, degraded=self._behind())

    def _behind(self) -> dict[str, str]:
        """Why both legs may miss what was said last, if the index is behind."""
        count = len(self._space.behind.conversations())
        return dict.fromkeys(LEGS, f"the newest messages of {count} conversations are not indexed yet") if count else {}

    def fetch_context(self, conversation_id: str, turns: tuple[int, int] | None) -> Fetched:
        """Some turns of a conversation, by default the last ones."""
        with self._space.locks.hold(conversation_id):
            head = self._space.head(conversation_id)
        count = head.conversation.turn_count
        first, last = turns or (max(1, count - DEFAULT_TURNS + 1), max(1, count))
        if turns and first > count:
            raise InvalidField.of("turn_range.first", f"is {first}, and the conversation has {count} turns")
        return Fetched(head.conversation, turns_of(self._space, head, first, last))

    def recent(self, chosen: Filter, limit: int, *, newest_first: bool) -> list[tuple[Conversation, str]]:
        """Conversations by time, each with the beginning of its newest message where it has no abbreviation."""
        found = self._index.select(chosen, limit, newest_first=newest_first)
        return [
            (
                stored.conversation,
                "" if stored.conversation.abbreviation else self._newest_words(stored.number, stored.conversation),
            )
            for stored in found
        ]

    def _newest_words(self, number: int, conversation: Conversation) -> str:
        places = self._index.newest_places(number, 1)
        messages = self._read(conversation.id, places)
        return opening_of(messages[-1].content) if messages else ""

    # Scoring ------------------------------------------------------------------------------------------------------------

    def _candidates(self, terms: list[Term], scope: Scope, most: int) -> _Candidates:
        numbers, scores = conversation_bm25((self._index.conversation_counts(term) for term in terms), *self._index.lengths())
        if (allowed := self._index.numbers_in(terms, scope)) is not None:
            inside = np.isin(numbers, allowed, assume_unique=True)
            numbers, scores = numbers[inside], scores[inside]
        messages = self._index.message_scores(terms, scope, _MESSAGES)
        around = {message: (message - 1, message + 1) for message in messages}
        shown = self._index.showable({*messages, *(near for pair in around.values() for near in pair)}, scope)
        windows = with_neighbours(
            {key: score for key, score in normalised(messages).items() if key in shown},
            {key: [near for near in pair if near in shown] for key, pair in around.items()},
        )
        best: Scores = {}
        for key, score in windows.items():
            number = shown[key].number
            best[number] = max(best.get(number, 0.0), score)
        # Of the others none can come before the first `most` by all their words: what a message gives is missing to them all.
        leading = np.isin(numbers, list(best))
        leading[highest(scores, most)] = True
        whole = normalised(dict(zip(numbers[leading].tolist(), scores[leading].tolist(), strict=True)))
        conversation_of = {key: shown[key].number for key in windows}
        return _Candidates(
            fuse_messages(windows, whole, conversation_of), fuse_conversations(whole, best), shown, max(len(numbers), len(best))
        )

    # Answers ------------------------------------------------------------------------------------------------------------

    def _hits(
        self, candidates: _Candidates, terms: list[Term], known: dict[int, Conversation], limit: int, *, explain: bool
    ) -> list[Hit]:
        def order(ranked: Ranked) -> tuple[float, str, int]:
            found = candidates.shown[ranked.id]
            return (-round(ranked.score, 9), known[found.number].id, found.place[0])

        chosen = [r for r in candidates.messages.values() if candidates.shown[r.id].number in known]
        hits: list[Hit] = []
        for ranked in sorted(chosen, key=order):
            if len(hits) == limit:
                break
            found = candidates.shown[ranked.id]
            conversation = known[found.number]
            for message in self._read(conversation.id, [found.place]):
                words = self._snippet(message, terms)
                hits.append(Hit(conversation, message, words, ranked.score, _explain(ranked, chosen) if explain else []))
        return hits

    def _results(
        self,
        candidates: _Candidates,
        terms: list[Term],
        known: dict[int, Conversation],
        scope: Scope,
        limit: int,
        *,
        explain: bool,
    ) -> list[Result]:
        by_conversation: dict[int, list[Ranked]] = {}
        for ranked in candidates.messages.values():
            by_conversation.setdefault(candidates.shown[ranked.id].number, []).append(ranked)
        chosen = [r for r in candidates.conversations.values() if r.id in known]
        results: list[Result] = []
        for ranked in sorted(chosen, key=lambda r: (-round(r.score, 9), known[r.id].id)):
            if len(results) == limit:
                break
            conversation = known[ranked.id]
            best = [
                candidates.shown[m.id] for m in sorted(by_conversation.get(ranked.id, []), key=lambda m: (-round(m.score, 9), m.id))
            ] or self._best_within(terms, scope, ranked.id)
            read = self._read(conversation.id, [found.place for found in best[:1]])
            if not read:  # it has the words, and none of them in a message that may be shown
                continue
            turns = list(dict.fromkeys(found.turn_number for found in best))[:_TURNS]
            explanation = _explain(ranked, chosen) if explain else []
            results.append(Result(conversation, self._snippet(read[0], terms), turns, read[0].timestamp, ranked.score, explanation))
        return results

    def _best_within(self, terms: list[Term], scope: Scope, number: int) -> list[Found]:
        """The best messages of a conversation whose words lie too far apart for any of them to be among the best of all."""
        scores = self._index.message_scores(terms, scope, _TURNS, within=number)
        shown = self._index.showable({*scores}, scope)
        return [shown[key] for key in sorted(scores, key=lambda key: (-scores[key], key)) if key in shown]

    def _snippet(self, message: Message, terms: list[Term]) -> str:
        stems = {term.stem for term in terms if not term.prefix}
        prefixes = {term.stem for term in terms if term.prefix}
        content = composed(message.content)
        return snippet(content, self._index.tokens(content), stems, prefixes)

    def _read(self, conversation_id: str, places: list[Place]) -> list[Message]:
        """The messages at these places; none of a conversation that was deleted since the index named it."""
        try:
            return read_places(self._space, conversation_id, places).messages
        except StorageUnavailable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return []
            raise


def _explain(ranked: Ranked, among: Iterable[Ranked]) -> list[LegScore]:
    """What each leg gave, and how many of those that were found it gave more."""
    return [
        LegScore(leg, 1 + sum(other.parts[leg] > score for other in among), score)
        for leg, score in ranked.parts.items()
        if score > 0
    ]
