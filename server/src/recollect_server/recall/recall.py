"""Recall: conversations and messages found again by their words, by what they mean, by time, and
the turns around them.
"""

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo

from recollect_server.kernel.domain.conversation import Conversation, opening_of
from recollect_server.kernel.domain.errors import IndexUnavailable, InvalidField
from recollect_server.kernel.domain.filters import Filter, SearchScope
from recollect_server.kernel.domain.telemetry import Count
from recollect_server.kernel.domain.time import UNLIMITED, Deadline
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.stored import Stored
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import Turns, page_of_turns
from recollect_server.people.identities import Identities
from recollect_server.recall.candidates import KEYWORD_LEGS, VECTOR_LEGS
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.proposals import Request
from recollect_server.recall.results import Hit, Result, ResultLimits, Results
from recollect_server.recall.retrieval import gather
from recollect_server.recall.showing import Showing
from recollect_server.text.words import NO_TERMS

# Conversations scored beyond twice the limit, because another retriever may rank them higher.
_SPARE = 50
# Bytes of a query that are embedded, some 130 words: more would take the model most of the time
# that a search may take. 5 of the 728 questions of RealMem are longer.
_EMBEDDED = 800
DEFAULT_TURNS = 10  # of FetchContext


@dataclass(frozen=True, slots=True)
class Answer:
    results: list[Result] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    total_matches: int = 0
    legs_run: tuple[str, ...] = KEYWORD_LEGS
    degraded: dict[str, str] = field(default_factory=dict)
    """Reasons why a retriever could not answer, by its name."""


@dataclass(frozen=True, slots=True)
class Fetched:
    conversation: Conversation
    turns: Turns
    has_more: bool


class Recall:
    """The work of RecallService. Raises the errors of `kernel.domain.errors`; safe to call from any
    thread.
    """

    def __init__(self, space: Space, meaning: Meaning, identities: Identities) -> None:
        self._space = space
        self._identities = identities
        self._meaning = meaning

    @property
    def _index(self) -> Index:
        return self._space.index

    def search(
        self,
        query: str,
        scope: SearchScope,
        limits: ResultLimits,
        deadline: Deadline = UNLIMITED,
        zone: tzinfo = UTC,
    ) -> Answer:
        """Return the conversations and the messages that fit best; dates in the query are those of
        the zone. Raises CallerGone, DeadlineExceeded.
        """
        deadline.check()
        self._meaning.question_at = time.monotonic()
        legs = KEYWORD_LEGS + (VECTOR_LEGS if self._meaning.on else ())
        scope = replace(scope, conversations=self._identities.widened(scope.conversations))
        most = 2 * limits.most + _SPARE
        now = self._space.clock()
        request = Request(query, scope, most, now, _EMBEDDED, zone=zone, is_typed=True)
        try:
            index = self._index
            with index.until(deadline):
                candidates = gather(index, self._meaning, request, deadline, self._space.telemetry)
                showing = Showing(self._space, index, candidates.terms, candidates.scans, deadline)
                best = Results(index, candidates, scope, limits, showing)
                hits, results = best.hits(), best.conversations()
        except IndexUnavailable as error:
            return Answer(legs_run=(), degraded=self._counted(dict.fromkeys(legs, str(error))))
        run = legs if candidates.scans else KEYWORD_LEGS
        if self._space.is_reading:  # the words of unindexed ones go last
            hits = [it for it in hits if not it.conversation.unindexed]
            results = [it for it in results if not it.conversation.unindexed]
        degraded = self._behind() | candidates.degraded
        if showing.unread:
            degraded |= dict.fromkeys(
                run,
                f"{counted(len(showing.unread), 'transcript')} of what was found cannot be read",
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
        self._meaning.question_at = time.monotonic()
        head = self._space.read(conversation_id)
        count = head.conversation.turn_count
        first, last = turns or (max(1, count - DEFAULT_TURNS + 1), max(1, count))
        if turns and first > count:
            raise InvalidField.of("turn_range.first", f"is {first}; the newest turn is {count}")
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
                self._space.current(stored.state),
                "" if stored.state.abbreviation else self._newest_words(stored, showing),
            )
            for stored in rows
        ]

    def _newest_words(self, stored: Stored[Conversation], showing: Showing) -> str:
        newest = self._index.messages.newest(stored.number)
        message = showing.message(stored.state.id, newest[0]) if newest else None
        return opening_of(message.content) if message else ""
