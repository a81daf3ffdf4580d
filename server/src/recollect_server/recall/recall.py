"""Recall: conversations and messages found again by their words, by what they mean, by time, and
the turns around them.

`Results` makes the best candidates conversations and messages, each with a snippet (`Showing`): the
part that has the words, or that is nearest to the question in meaning.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo

import numpy as np
import structlog
from numpy.typing import NDArray

from recollect_server.kernel.domain.conversation import Conversation, opening_of
from recollect_server.kernel.domain.errors import IndexUnavailable, InvalidField, StorageUnavailable
from recollect_server.kernel.domain.filters import Filter, SearchScope
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import message_id
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.domain.telemetry import Count
from recollect_server.kernel.domain.time import UNLIMITED, Deadline
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.index.derived import Stored
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.messages import Place
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import Turns, page_of_turns, read_several
from recollect_server.people.identities import Identities
from recollect_server.recall.candidates import (
    KEYWORD_LEGS,
    LEAST,
    VECTOR_LEGS,
    Candidates,
    legs_of_conversations,
    legs_of_messages,
)
from recollect_server.recall.embedding.texts import text_of
from recollect_server.recall.meaning import Meaning, Scans
from recollect_server.recall.proposals import Request
from recollect_server.recall.retrieval import gather
from recollect_server.recall.retrievers import Array
from recollect_server.recall.search import Found, Search
from recollect_server.recall.word_matches import compare, met_words
from recollect_server.text.analysis import tokenizer_of
from recollect_server.text.snippets import CHUNK, LENGTH, PassageFinder, passage_at, plain
from recollect_server.text.text import asks
from recollect_server.text.words import NO_TERMS, QueryTerms

log = structlog.get_logger("recollect.recall")


class Showing:
    """Reads what one answer shows, and makes its snippets."""

    def __init__(
        self,
        space: Space,
        index: Index,
        query: QueryTerms,
        scans: Scans | None,
        deadline: Deadline,
    ) -> None:
        terms = query.chosen
        self.unread: set[str] = set()
        """Conversations whose transcripts cannot be read now."""
        self._space = space
        self._index = index
        self._scans = scans
        self._words = next((it for it in (scans.words if scans else ()) if it.is_main), None)
        pieces = self._words.question.words if self._words else ()
        self._rare = [at for at, it in enumerate(pieces) if it in query.rarities]
        self._deadline = deadline
        stems, prefixes = (
            {term.stem for term in terms if term.prefix == prefix} for prefix in (False, True)
        )
        self._passages = PassageFinder(
            stems,
            prefixes,
            tokenizer_of(index),
            deadline,
            query.only_english,
            query.words.only_stops,
        )
        self._messages: dict[tuple[str, int], Message | None] = {}
        self._shown: dict[tuple[str, int], str] = {}
        self._conversations: dict[int, Conversation] = {}

    def prepare(self, places: dict[int, list[Place]]) -> None:
        """Read these conversations and messages, by number: index and logs are asked once for
        all.
        """
        self._conversations |= self._index.conversations.by_number({*places})
        self._read(
            {
                conversation.id: sorted(own)
                for number, own in places.items()
                if own and (conversation := self._conversations.get(number)) is not None
            }
        )

    def conversation(self, number: int) -> Conversation | None:
        """Return the conversation of a number, or None if it was deleted."""
        if number not in self._conversations:
            self._conversations |= self._index.conversations.by_number({number})
        return self._conversations.get(number)

    def message(self, conversation_id: str, place: Place) -> Message | None:
        """Return the message at a place of a transcript. None if its line is damaged, or its
        conversation deleted or `unread`.
        """
        name = (conversation_id, place[0])
        if name not in self._messages:
            self._read({conversation_id: [place]})
        return self._messages[name]

    def _read(self, places: dict[str, list[Place]]) -> None:
        """Read the messages at these places of transcripts, ascending."""
        self._deadline.check()
        for name, own in places.items():
            self._messages |= {(name, place[0]): None for place in own}
        readable = {name: own for name, own in places.items() if name not in self.unread}
        for name, messages in read_several(self._space, readable).items():
            if isinstance(messages, StorageUnavailable):
                log.warning("transcript_passed_over", conversation=name, reason=str(messages))
                self.unread.add(name)
            else:
                self._messages |= {(name, message.sequence): message for message in messages}

    def snippet(self, conversation_id: str, number: int, message: Message) -> str:
        """Return the part of the message with the most of the words; without any, the part that is
        nearest in meaning.
        """
        name = (conversation_id, message.sequence)
        if name not in self._shown:
            met = self._met(conversation_id, message)
            self._shown[name] = self._snippet(
                message_id(number, message.sequence), message.content, met
            )
        return self._shown[name]

    def notes(self, conversation: Conversation) -> str:
        """Return the part of the abbreviation with the most of the words, or the title or the
        topics if only those have any.
        """
        texts = conversation.abbreviation, conversation.title, ", ".join(conversation.topics)
        for text in texts:
            if passage := self._passages.best(text):
                return passage.rendered(text)
        return opening_of(plain(texts[0] or texts[1]))

    def _met(self, conversation_id: str, message: Message) -> list[tuple[int, int]]:
        """Return the words of a message that met those of the question by their meaning."""
        text = text_of(message)
        if self._words is None or not self._rare or not _is_short(message):
            return []
        before = len(text) - len(message.content)
        name = (conversation_id, message.sequence)
        if name not in self._words.cosines:  # of all that was read by now: one query
            short = {it for it, read in self._messages.items() if read and _is_short(read)}
            compare(self._words, sorted(short - self._words.cosines.keys()))
        met = met_words(self._words, self._rare, self._words.cosines[name], text)
        return [(first - before, last - before) for first, last in met if first >= before]

    def _snippet(self, identity: int, content: str, met: list[tuple[int, int]]) -> str:
        if passage := self._passages.best(content, met):
            return passage.rendered(content)
        if self._scans is None or len(content) <= LENGTH:
            return opening_of(plain(content))
        # The model is asked once for each search: the vectors that are kept say which piece of a
        # long message is nearest.
        piece, count = self._scans.messages.best_piece(identity)
        return passage_at(content, len(content) * piece // count)


def _is_short(message: Message) -> bool:
    """Return whether what is embedded of a message is short enough for marks by meaning."""
    return len(text_of(message)) <= CHUNK


_TURNS = 10  # matched turns named in a result
_NEAR = 5  # turns between two matches of one range, at the most


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
    before: Message | None = None
    """The message right before it, where that was asked for."""
    after: Message | None = None
    """The message right behind it, where that was asked for or is the reply to it."""


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """Limits of an answer, and what it says of each result."""

    most: int
    """Results at the most, and hits at the most."""
    least: float = 0.0
    """Score that each of them has at the least."""
    explain: bool = False
    """True if they have the score of each retriever."""
    moment: bool = False
    """True if each message has those right before and behind it."""


class Results:
    """The results of one search. What is shown of them is read once."""

    def __init__(
        self,
        index: Index,
        candidates: Candidates,
        scope: SearchScope,
        limits: ResultLimits,
        showing: Showing,
    ) -> None:
        """Read what is shown first: the best messages, and the best one of each of the best
        conversations.
        """
        self._index = index
        self._candidates = candidates
        self._scope = scope
        self._limits = limits
        self._showing = showing
        self._messages = candidates.best_messages()
        self._conversations = candidates.best_conversations()
        owners = candidates.message_legs.conversation[self._messages]
        self._of_each = np.array(self._messages, np.int64)[np.argsort(owners, kind="stable")]
        """Messages by conversation, the best first in each."""
        self._ends = np.cumsum(np.bincount(owners, minlength=len(candidates.conversations)))
        showing.prepare(self._first_shown())

    def _messages_of(self, at: int) -> NDArray[np.int64]:
        """Return the messages of a conversation, best first."""
        return self._of_each[self._ends[at - 1] if at else 0 : self._ends[at]]

    def _first_shown(self) -> dict[int, list[Place]]:
        """Return by conversation the messages that are shown first."""
        candidates = self._candidates
        leading = self._conversations[: self._limits.most]
        best_of_each = [at for it in leading for at in self._messages_of(it)[:1].tolist()]
        places: dict[int, list[Place]] = {candidates.conversations[at].number: [] for at in leading}
        for at in dict.fromkeys([*self._messages[: self._limits.most], *best_of_each]):
            number = candidates.conversation_of(at).number
            places.setdefault(number, []).append(candidates.messages.place(at))
        return places

    def hits(self) -> list[Hit]:
        """Return the messages, best first, each with its moment."""
        candidates, showing = self._candidates, self._showing
        legs = legs_of_messages(candidates) if self._limits.explain else {}
        hits: dict[int, Hit] = {}
        for at in self._messages:
            score = candidates.message_scores[at]
            if self._is_over(len(hits), candidates.order.messages[at], score):
                break
            above = candidates.conversation_of(at)
            message = showing.message(above.id, candidates.messages.place(at))
            conversation = showing.conversation(above.number)
            if message is not None and conversation is not None:
                snippet = showing.snippet(conversation.id, above.number, message)
                name = candidates.messages.ids.item(at)
                hits[name] = Hit(conversation, message, snippet, score, _explain(legs, at))
        return self._with_moments(hits)

    def _with_moments(self, hits: dict[int, Hit]) -> list[Hit]:
        """Return the hits with the messages right before and behind them that lie in the scope's
        period: of one that asks the reply, of others where that was asked for.
        """
        moment, showing = self._limits.moment, self._showing
        names = {name + 1 for name, it in hits.items() if moment or asks(it.message.content)}
        if moment:
            names |= {name - 1 for name in hits}
        if not names:
            return [*hits.values()]
        there = Search(self._index).showable(np.array(sorted(names), np.int64), self._scope)
        places: dict[int, list[Place]] = {}
        for it in there:
            places.setdefault(it.number, []).append(it.place)
        showing.prepare(places)
        place_of = dict(zip(there.ids.tolist(), (it.place for it in there), strict=True))

        def beside(name: int, hit: Hit) -> Message | None:
            place = place_of.get(name)
            return showing.message(hit.conversation.id, place) if place else None

        whole: list[Hit] = []
        for name, hit in hits.items():
            before, after = (beside(name + step, hit) for step in (-1, 1))
            if not moment:
                before = None
                after = after if after and is_reply(after, hit.message) else None
            whole.append(replace(hit, before=before, after=after))
        return whole

    def conversations(self) -> list[Result]:
        """Return the conversations, best first."""
        candidates = self._candidates
        fitting, has_words = candidates.fitting(), candidates.message_legs.keyword > 0
        legs = legs_of_conversations(candidates) if self._limits.explain else {}
        results: list[Result] = []
        for at in self._conversations:
            score = candidates.conversation_scores[at]
            if self._is_over(len(results), candidates.order.conversations[at], score):
                break
            there = self._messages_of(at)
            by_words = bool(has_words[there].any())
            fits = there[fitting[there]]
            result = self._result(at, there, fits, _explain(legs, at), by_words=by_words)
            if result is not None:
                results.append(result)
        return results

    def _is_over(self, count: int, order: float, score: float) -> bool:
        """Return whether nothing behind so many results is returned."""
        return count == self._limits.most or order <= 0 or score < self._limits.least

    def _result(
        self,
        at: int,
        there: NDArray[np.int64],
        fits: NDArray[np.int64],
        legs: list[LegScore],
        *,
        by_words: bool,
    ) -> Result | None:
        """Return the result of a conversation; None where nothing of it can be shown.

        `there` are its candidates, best first, of which some fit the question, by its words or
        not.
        """
        candidates, showing = self._candidates, self._showing
        number, conversation_id = (
            candidates.conversations[at].number,
            candidates.conversations[at].id,
        )
        turns: list[int] = candidates.messages.turn_numbers[there].tolist()
        shown_first = dict.fromkeys([*there[:1].tolist(), *fits.tolist()])
        shown: Iterable[Place] = map(candidates.messages.place, shown_first)
        if not turns:
            matched, by_words = self._best_within(number)
            shown, turns = [it.place for it in matched], [it.turn_number for it in matched]
        # What led here is shown: the notes where they have the words and no message does, or
        # are near and no message is.
        by_notes = not by_words and (
            number in candidates.noted
            or (bool(candidates.conversation_legs.abbreviation[at] >= LEAST) and not len(fits))
        )
        # The best one, or where that cannot be read another that fits. None: no message that
        # has the words may be shown.
        message = next(
            (read for it in shown if (read := showing.message(conversation_id, it))), None
        )
        conversation = showing.conversation(number)
        if conversation is None or (message is None and not by_notes):
            return None
        turns = list(dict.fromkeys(turns))[:_TURNS] if message else []
        snippet = (
            showing.notes(conversation)
            if message is None or by_notes
            else showing.snippet(conversation.id, number, message)
        )
        date = message.timestamp if message else conversation.update_time
        score = candidates.conversation_scores[at]
        return Result(conversation, snippet, by_notes, turns, _around(turns), date, score, legs)

    def _best_within(self, number: int) -> tuple[list[Found], bool]:
        """Return the best messages of a conversation none of which is among the best of all, and
        whether they have the words; those without are the nearest in meaning.
        """
        candidates = self._candidates
        best = candidates.words.best_within(number, _TURNS)
        by_words = len(best) > 0
        if not by_words and candidates.scans:
            best = candidates.scans.messages.within(number, _TURNS).ids
        shown = Search(self._index).showable(best, self._scope)
        at = {identity: place for place, identity in enumerate(shown.ids.tolist())}
        return [shown[at[identity]] for identity in best.tolist() if identity in at], by_words


def is_reply(message: Message, asking: Message) -> bool:
    """Return whether a message that follows one which asks is by somebody else."""
    return (message.role, message.sender) != (asking.role, asking.sender)


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
        self._instructions: Callable[[], Sequence[tuple[str, int]]] = list

    def govern_by(self, instructions: Callable[[], Sequence[tuple[str, int]]]) -> None:
        """Have the standing instruction that governs the answer among the first hits of a question:
        of messages that the function names, by conversation and line, the nearest to it.
        """
        self._instructions = instructions

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
        # a least score ends the hits at the first that lacks it
        instructions = None if limits.least else self._instructions
        request = Request(
            query,
            scope,
            most,
            now,
            _EMBEDDED,
            zone=zone,
            is_typed=True,
            instructions=instructions,
        )
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
