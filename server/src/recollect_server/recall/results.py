"""Results of a search: the best candidates as conversations and messages, each with a snippet and
the turns that matched.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.filters import SearchScope
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.messages import Place
from recollect_server.recall.candidates import (
    LEAST,
    Candidates,
    legs_of_conversations,
    legs_of_messages,
)
from recollect_server.recall.retrievers import Array
from recollect_server.recall.search import Found, Search
from recollect_server.recall.showing import Showing
from recollect_server.text.text import is_question, sentences

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


def asks(content: str) -> bool:
    """Return whether a sentence of a message asks."""
    return any(map(is_question, sentences(content)))


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
