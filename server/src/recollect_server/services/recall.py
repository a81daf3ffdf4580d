"""Recall: conversations and messages found again by their words, by what they mean, by time, and the turns around them."""

from dataclasses import dataclass, field, replace

import numpy as np

from recollect_server.domain.conversation import Conversation, opening_of
from recollect_server.domain.errors import IndexUnavailable, InvalidField, StorageUnavailable
from recollect_server.domain.legs import Array
from recollect_server.domain.message import Message
from recollect_server.services.candidates import KEYWORD_LEGS, VECTOR_LEGS, Candidates, conversation_parts, gather, message_parts
from recollect_server.services.channels.identities import Identities
from recollect_server.services.meaning import Asked, Meaning
from recollect_server.services.showing import Showing
from recollect_server.services.space import Space
from recollect_server.services.tiers import Tiers
from recollect_server.services.working_context import Turns, read_places, turns_of
from recollect_server.storage.index.conversations import Filter
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.search import Found, Scope
from recollect_server.storage.index.turns import Place
from recollect_server.storage.index.words import Term

_TURNS = 10  # matched turns named in a result
_FOUND = 3  # conversations of an answer that count as recalled
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
    legs_run: tuple[str, ...] = KEYWORD_LEGS
    degraded: dict[str, str] = field(default_factory=dict)
    """Why a leg could not answer."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What FetchContext answers."""

    conversation: Conversation
    turns: Turns


class Recall:
    """The work of RecallService. Raises the errors of `domain.errors`; safe to call from any thread."""

    def __init__(self, space: Space, meaning: Meaning, tiers: Tiers, identities: Identities) -> None:
        self._space = space
        self._identities = identities
        self._meaning = meaning
        self._tiers = tiers

    @property
    def _index(self) -> Index:
        return self._space.index

    def search(self, query: str, scope: Scope, limit: int, *, explain: bool) -> Answer:
        """The conversations and the messages that fit best."""
        legs = KEYWORD_LEGS + (VECTOR_LEGS if self._meaning.on else ())
        scope = replace(scope, conversations=self._identities.widened(scope.conversations))
        try:
            index = self._index
            terms = index.terms(query)
            candidates = gather(index, self._meaning, query, terms, scope, 2 * limit + 50)
            showing = Showing(index, terms, candidates.asked)
            hits = self._hits(candidates, showing, limit, explain=explain)
            results = self._results(candidates, showing, scope, limit, explain=explain)
        except IndexUnavailable as error:
            return Answer(legs_run=(), degraded=dict.fromkeys(legs, str(error)))
        run = legs if candidates.asked else KEYWORD_LEGS
        self._tiers.found(result.conversation.id for result in results[:_FOUND])
        return Answer(results, hits, candidates.total, run, self._behind() | candidates.degraded)

    def _behind(self) -> dict[str, str]:
        """Why the words may miss what was said last, if the index is behind."""
        count = len(self._space.behind.conversations())
        return dict.fromkeys(KEYWORD_LEGS, f"the newest messages of {count} conversations are not indexed yet") if count else {}

    def fetch_context(self, conversation_id: str, turns: tuple[int, int] | None) -> Fetched:
        """Some turns of a conversation, by default the last ones."""
        with self._space.locks.hold(conversation_id):
            head = self._space.head(conversation_id)
        count = head.conversation.turn_count
        first, last = turns or (max(1, count - DEFAULT_TURNS + 1), max(1, count))
        if turns and first > count:
            raise InvalidField.of("turn_range.first", f"is {first}, and the conversation has {count} turns")
        self._tiers.fetched(conversation_id)
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

    # Answers ------------------------------------------------------------------------------------------------------------

    def _hits(self, candidates: Candidates, showing: Showing, limit: int, *, explain: bool) -> list[Hit]:
        scores = np.round(candidates.fused.messages, 9).tolist()
        shown = [candidates.shown[identity] for identity in candidates.ids]
        known = candidates.known
        legs = message_parts(candidates) if explain else {}
        hits: list[Hit] = []
        for at in sorted(range(len(scores)), key=lambda at: (-scores[at], known[shown[at].number].id, shown[at].place[0])):
            if len(hits) == limit or scores[at] <= 0:
                break
            number = shown[at].number
            read = self._read(known[number].id, [shown[at].place])
            if not read or (conversation := showing.conversation(number)) is None:
                continue
            hits += [
                Hit(conversation, message, showing.snippet(conversation.id, message), scores[at], _explain(legs, at))
                for message in read
            ]
        return hits

    def _results(self, candidates: Candidates, showing: Showing, scope: Scope, limit: int, *, explain: bool) -> list[Result]:
        of_messages = dict(zip(candidates.ids, np.round(candidates.fused.messages, 9).tolist(), strict=True))
        by_conversation: dict[int, list[int]] = {}
        for identity in candidates.ids:
            by_conversation.setdefault(candidates.shown[identity].number, []).append(identity)
        scores = np.round(candidates.fused.conversations, 9).tolist()
        known, numbers = candidates.known, candidates.numbers
        legs = conversation_parts(candidates) if explain else {}
        results: list[Result] = []
        for at in sorted(range(len(numbers)), key=lambda at: (-scores[at], known[numbers[at]].id)):
            if len(results) == limit or scores[at] <= 0:
                break
            best = [
                candidates.shown[identity]
                for identity in sorted(
                    by_conversation.get(numbers[at], ()), key=lambda identity: (-of_messages[identity], identity)
                )
            ] or self._best_within(showing.terms, candidates.asked, scope, numbers[at])
            read = self._read(known[numbers[at]].id, [found.place for found in best[:1]])
            if not read:  # it has the words, and none of them in a message that may be shown
                continue
            if (conversation := showing.conversation(numbers[at])) is None:
                continue
            turns = list(dict.fromkeys(found.turn_number for found in best))[:_TURNS]
            snippet, date = showing.snippet(conversation.id, read[0]), read[0].timestamp
            results.append(Result(conversation, snippet, turns, date, scores[at], _explain(legs, at)))
        return results

    def _best_within(self, terms: list[Term], asked: Asked | None, scope: Scope, number: int) -> list[Found]:
        """The best messages of a conversation none of which is among the best of all: by their words, else by their meaning."""
        scores = self._index.message_scores(terms, scope, _TURNS, within=number) if terms else {}
        if not scores and asked:
            scores = asked.messages.within(number, _TURNS)
        shown = self._index.showable({*scores}, scope)
        return [shown[key] for key in sorted(scores, key=lambda key: (-scores[key], key)) if key in shown]

    def _read(self, conversation_id: str, places: list[Place]) -> list[Message]:
        """The messages at these places; none of a conversation that was deleted since the index named it."""
        try:
            return read_places(self._space, conversation_id, places).messages
        except StorageUnavailable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return []
            raise


def _explain(legs: dict[str, Array], at: int) -> list[LegScore]:
    """What each leg gave, and how many of those that were found it gave more."""
    return [
        LegScore(leg, 1 + int((values > values[at]).sum()), float(values[at]))
        for leg, values in legs.items()
        if values[at] > 0  # nan is not
    ]
