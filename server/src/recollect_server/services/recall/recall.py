"""Recall: conversations and messages found again by their words, by what they mean, by time, and
the turns around them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from recollect_server.domain.conversation import Conversation, opening_of
from recollect_server.domain.deadline import UNLIMITED, Deadline
from recollect_server.domain.errors import IndexUnavailable, InvalidField
from recollect_server.domain.filters import Filter, Scope
from recollect_server.domain.frozen import frozen
from recollect_server.domain.message import Message
from recollect_server.domain.telemetry import Count
from recollect_server.services.channels.identities import Identities
from recollect_server.services.recall.candidates import (
    KEYWORD_LEGS,
    LEAST,
    VECTOR_LEGS,
    Candidates,
    gather,
    legs_of_conversations,
    legs_of_messages,
)
from recollect_server.services.recall.dates import read_dates, without_dates
from recollect_server.services.recall.meaning import Meaning
from recollect_server.services.recall.retrievers import Array
from recollect_server.services.recall.showing import Showing
from recollect_server.services.space.space import Space
from recollect_server.services.tiers import Tiers
from recollect_server.services.working_context import Turns, page_of_turns
from recollect_server.storage.index.conversations import Stored
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.messages import Place
from recollect_server.storage.index.search import Found
from recollect_server.storage.index.words import NO_TERMS

# conversations that are scored beside twice as many as are asked for: by other legs others may be
# better
_SPARE = 50
# Bytes of a query that are embedded, some 130 words: more would take the model most of the time
# that a search may take. 5 of the 728 questions of RealMem are longer.
_EMBEDDED = 800
_TURNS = 10  # matched turns named in a result
_NEAR = 5  # turns between two matches of one range, at the most
_FOUND = 3  # conversations of an answer that count as recalled
DEFAULT_TURNS = 10  # of FetchContext


@dataclass(frozen=True, slots=True)
class LegScore:
    """Score of a retriever: the rank in it from 1, and its own score."""

    leg: str
    rank: int
    score: float


@frozen
class Result:
    """A conversation that was found."""

    conversation: Conversation
    snippet: str
    from_notes: bool
    """True if the snippet is of the abbreviation, the title or the topics."""
    matched_turns: list[int]
    turn_range: tuple[int, int] | None
    date: int
    score: float
    explanation: list[LegScore]


@frozen
class Hit:
    """A message that was found."""

    conversation: Conversation
    message: Message
    snippet: str
    score: float
    explanation: list[LegScore]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of Search."""

    results: list[Result] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    total_matches: int = 0
    legs_run: tuple[str, ...] = KEYWORD_LEGS
    degraded: dict[str, str] = field(default_factory=dict)
    """Reasons why a retriever could not answer, by its name."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Answer of FetchContext."""

    conversation: Conversation
    turns: Turns
    has_more: bool


class Recall:
    """The work of RecallService. Raises the errors of `domain.errors`; safe to call from any
    thread.
    """

    def __init__(
        self, space: Space, meaning: Meaning, tiers: Tiers, identities: Identities
    ) -> None:
        self._space = space
        self._identities = identities
        self._meaning = meaning
        self._tiers = tiers

    @property
    def _index(self) -> Index:
        return self._space.index

    def search(
        self,
        query: str,
        scope: Scope,
        limit: int,
        *,
        explain: bool,
        least: float = 0.0,
        deadline: Deadline = UNLIMITED,
    ) -> Answer:
        """Return the conversations and the messages that fit best and score at `least`. Raises
        CallerGone, DeadlineExceeded.
        """
        deadline.check()
        legs = KEYWORD_LEGS + (VECTOR_LEGS if self._meaning.on else ())
        scope = replace(scope, conversations=self._identities.widened(scope.conversations))
        try:
            index = self._index
            with index.until(deadline):
                now = self._space.clock()
                terms = index.search.terms(without_dates(query, read_dates(query, now)))
                most = 2 * limit + _SPARE
                candidates = gather(
                    index,
                    self._meaning,
                    query,
                    terms,
                    scope,
                    most,
                    deadline,
                    now,
                    _EMBEDDED,
                    self._space.telemetry,
                )
                best, leading = candidates.best_messages(), candidates.best_conversations()
                showing = Showing(self._space, index, terms, candidates.scans, deadline)
                showing.prepare(_first_shown(candidates, best, leading, limit))
                hits = self._hits(candidates, best, showing, limit, least, explain=explain)
                results = self._results(
                    candidates, best, leading, showing, scope, limit, least, explain=explain
                )
        except IndexUnavailable as error:
            return Answer(legs_run=(), degraded=self._counted(dict.fromkeys(legs, str(error))))
        run = legs if candidates.scans else KEYWORD_LEGS
        if self._space.is_reading:  # the words of unindexed ones go last
            hits = [it for it in hits if not it.conversation.unindexed]
            results = [it for it in results if not it.conversation.unindexed]
        self._tiers.found(result.conversation.id for result in results[:_FOUND])
        degraded = self._behind() | candidates.degraded
        if showing.unread:
            degraded |= dict.fromkeys(
                run,
                f"the transcripts of {len(showing.unread)} conversations that were found cannot be read",
            )
        return Answer(results, hits, candidates.total, run, self._counted(degraded))

    def _counted(self, degraded: dict[str, str]) -> dict[str, str]:
        """Count the parts that answered less than they could, and return them."""
        for part in degraded:
            self._space.telemetry.count(Count.DEGRADED, label=part)
        return degraded

    def degraded(self) -> dict[str, str]:
        """Return each leg that is on with why a search would find less by it than it could; no
        reason where it would not.
        """
        legs = KEYWORD_LEGS + (VECTOR_LEGS if self._meaning.on else ())
        try:
            index = self._index
        except IndexUnavailable as error:
            return dict.fromkeys(legs, str(error))
        vectors = (
            dict.fromkeys(VECTOR_LEGS, self._meaning.lacking(index)) if self._meaning.on else {}
        )
        return dict.fromkeys(KEYWORD_LEGS, "") | self._behind() | vectors

    def _behind(self) -> dict[str, str]:
        """Return why the words may miss something: the index is behind, or not verified yet."""
        doubt = self._space.doubt
        return dict.fromkeys(KEYWORD_LEGS, doubt) if doubt else {}

    def fetch_context(
        self, conversation_id: str, turns: tuple[int, int] | None, after: int, max_bytes: int
    ) -> Fetched:
        """Return turns of a conversation, by default the last ones: the messages after line
        `after`, up to `max_bytes`.
        """
        head = self._space.read(conversation_id)
        count = head.conversation.turn_count
        first, last = turns or (max(1, count - DEFAULT_TURNS + 1), max(1, count))
        if turns and first > count:
            raise InvalidField.of(
                "turn_range.first", f"is {first}, and the conversation has {count} turns"
            )
        self._tiers.fetched(conversation_id)
        turns_read, has_more = page_of_turns(self._space, head, first, last, after, max_bytes)
        return Fetched(head.conversation, turns_read, has_more)

    def recent(
        self, chosen: Filter, limit: int, *, newest_first: bool
    ) -> list[tuple[Conversation, str]]:
        """Return conversations by time, each with its abbreviation or else the beginning of its
        newest message.
        """
        showing = Showing(self._space, self._index, NO_TERMS, None, UNLIMITED)
        rows = self._index.conversations.select(chosen, limit, newest_first=newest_first)
        return [
            (
                self._space.current(stored.conversation),
                "" if stored.conversation.abbreviation else self._newest_words(stored, showing),
            )
            for stored in rows
        ]

    def _newest_words(self, stored: Stored, showing: Showing) -> str:
        newest = self._index.messages.newest(stored.number)
        message = showing.message(stored.conversation.id, newest[0]) if newest else None
        return opening_of(message.content) if message else ""

    # Answers --------------------------------------------------------------------------------------

    def _hits(
        self,
        candidates: Candidates,
        best: list[int],
        showing: Showing,
        limit: int,
        least: float,
        *,
        explain: bool,
    ) -> list[Hit]:
        legs = legs_of_messages(candidates) if explain else {}
        hits: list[Hit] = []
        for at in best:
            if (
                len(hits) == limit
                or candidates.order.messages[at] <= 0
                or candidates.message_scores[at] < least
            ):
                break
            place, above = candidates.messages.place(at), candidates.conversation_of(at)
            message, conversation = (
                showing.message(above.id, place),
                showing.conversation(above.number),
            )
            if message is not None and conversation is not None:
                snippet = showing.snippet(conversation.id, above.number, message)
                hits.append(
                    Hit(
                        conversation,
                        message,
                        snippet,
                        candidates.message_scores[at],
                        _explain(legs, at),
                    )
                )
        return hits

    def _results(
        self,
        candidates: Candidates,
        best: list[int],
        leading: list[int],
        showing: Showing,
        scope: Scope,
        limit: int,
        least: float,
        *,
        explain: bool,
    ) -> list[Result]:
        fitting, has_words = (
            candidates.fitting().tolist(),
            (candidates.message_legs.keyword > 0).tolist(),
        )
        turn_numbers, owners = (
            candidates.messages.turn_numbers.tolist(),
            candidates.message_legs.conversation.tolist(),
        )
        within: list[list[int]] = [[] for _ in candidates.conversations]
        for message_at in best:
            within[owners[message_at]].append(message_at)
        legs = legs_of_conversations(candidates) if explain else {}
        results: list[Result] = []
        for at in leading:
            if (
                len(results) == limit
                or candidates.order.conversations[at] <= 0
                or candidates.conversation_scores[at] < least
            ):
                break
            number, conversation_id = (
                candidates.conversations[at].number,
                candidates.conversations[at].id,
            )
            there = within[at]
            fits = [message_at for message_at in there if fitting[message_at]]
            by_words = any(has_words[message_at] for message_at in there)
            turns = [turn_numbers[message_at] for message_at in there]
            shown: Iterable[Place] = map(
                candidates.messages.place, dict.fromkeys([*there[:1], *fits])
            )
            if not turns:
                matched, by_words = self._best_within(candidates, scope, number)
                shown, turns = [it.place for it in matched], [it.turn_number for it in matched]
            # What led here is shown: the notes where they have the words and no message does, or
            # are near and no message is.
            by_notes = not by_words and (
                number in candidates.noted
                or (bool(candidates.conversation_legs.abbreviation[at] >= LEAST) and not fits)
            )
            # The best one, or where that cannot be read another that fits. None: no message that
            # has the words may be shown.
            message = next(
                (read for it in shown if (read := showing.message(conversation_id, it))), None
            )
            conversation = showing.conversation(number)
            if conversation is None or (message is None and not by_notes):
                continue
            turns = list(dict.fromkeys(turns))[:_TURNS] if message else []
            if message is None or by_notes:
                snippet = showing.notes(conversation)
            else:
                snippet = showing.snippet(conversation.id, number, message)
            date, score = (
                message.timestamp if message else conversation.update_time,
                candidates.conversation_scores[at],
            )
            results.append(
                Result(
                    conversation,
                    snippet,
                    by_notes,
                    turns,
                    _around(turns),
                    date,
                    score,
                    _explain(legs, at),
                )
            )
        return results

    def _best_within(
        self, candidates: Candidates, scope: Scope, number: int
    ) -> tuple[list[Found], bool]:
        """Return the best messages of a conversation none of which is among the best of all, and
        whether they have the words; those without are the nearest in meaning.
        """
        best = candidates.words.best_within(number, _TURNS)
        by_words = len(best) > 0
        if not by_words and candidates.scans:
            best = candidates.scans.messages.within(number, _TURNS).ids
        shown = self._index.search.showable(best, scope)
        at = {identity: place for place, identity in enumerate(shown.ids.tolist())}
        return [shown[at[identity]] for identity in best.tolist() if identity in at], by_words


def _first_shown(
    candidates: Candidates, best: list[int], leading: list[int], limit: int
) -> dict[int, list[Place]]:
    """Return by conversation the messages that are shown first: the best of all, and the best of
    each of the best conversations.
    """
    owners = candidates.message_legs.conversation.tolist()
    best_of = {owners[at]: at for at in reversed(best)}
    places: dict[int, list[Place]] = {
        candidates.conversations[at].number: [] for at in leading[:limit]
    }
    for at in dict.fromkeys(
        [*best[:limit], *(best_of[at] for at in leading[:limit] if at in best_of)]
    ):
        number = candidates.conversations[owners[at]].number
        places.setdefault(number, []).append(candidates.messages.place(at))
    return places


def _around(turns: list[int]) -> tuple[int, int] | None:
    """Return the range of turns around the best one that holds those of the others which lie near
    it; None for none.
    """
    if not turns:
        return None
    first = last = turns[0]
    for turn in sorted(turns[1:], key=lambda turn: abs(turn - turns[0])):
        if first - _NEAR <= turn <= last + _NEAR:
            first, last = min(first, turn), max(last, turn)
    return first, last


def _explain(legs: dict[str, Array], at: int) -> list[LegScore]:
    """Return each retriever's score, and how many of the candidates it ranked higher."""
    return [
        LegScore(leg, 1 + int((values > values[at]).sum()), float(values[at]))
        for leg, values in legs.items()
        if values[at] > 0  # nan is not
    ]
