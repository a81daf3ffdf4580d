"""Reads the turns that a context recalls: whole, with long texts as excerpts around the words that
matter.
"""

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from recollect_server.domain.budget import estimate_tokens
from recollect_server.domain.context import Candidate
from recollect_server.domain.conversation import Conversation
from recollect_server.domain.errors import StorageUnavailable
from recollect_server.domain.ids import message_id
from recollect_server.domain.message import Message, Role
from recollect_server.services.context.excerpts import excerpt
from recollect_server.services.context.inquiry import ContextTask, Inquiry
from recollect_server.services.context.packing import Turn
from recollect_server.services.context.relevance import (
    relevance_of,
    words_of,
    words_stated,
)
from recollect_server.services.recall.candidates import Candidates
from recollect_server.services.space.space import Space
from recollect_server.services.tiers import Tiers
from recollect_server.services.turns import read_several
from recollect_server.storage.index.messages import Place, TurnName

_FURTHER = 0.5
"""Share of an excerpt's tokens that the messages of all turns but the best one have: with long
answers more turns then fit.
"""
_OF_USERS = 0.3
"""Share of an excerpt's tokens that a user's message has at the least. It is short where an agent's
answer is long, and says what the turn is about.
"""
_BESIDE = 0.25
"""Share of an excerpt's tokens that the other messages of a turn have: they say what was asked, or
what became of it.
"""
_REPEATED = 0.2
"""Factor of the rarity of a word in the excerpt of an answer, where the user's message beside it
has the word too.
"""
_LEAST_EXCERPT = 30  # tokens
_CUT_OFF = 0.1
"""Share of a message that an excerpt leaves out at the least: to cut off one short sentence saves
nothing, and the answer may be in it.
"""
_SAME = 0.4
"""Share of the rare words of the question in that message of a user which has most of them that
another one has which is likely to be of the same.
"""
_INCLUDED_TURNS = 200
"""Turns of one part that a caller includes, at the most: the last ones."""
_OF_MESSAGE = 0.15
"""Share of the words of such a message that the question has: a long one has some by chance."""
_WHOLE_TURN = 6
"""Messages of a turn that are all recalled. Of more the first, the last and those that fit: a turn
may have many tool calls.
"""


@dataclass(slots=True)
class Chosen:
    """A turn that was chosen, and the messages of it that fit, the best first: indices of
    candidates. One that is chosen for a turn beside it may have none.
    """

    score: float
    ats: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _RecalledConversation:
    id: str
    scores: Mapping[int, float]
    """Scores of its chosen turns, by number."""
    matched: frozenset[int]
    """Lines of the messages that fit."""
    places: list[Place]
    """Places of the messages that are read, ascending."""
    warm: int | None
    """Since when it is warm."""
    summaries: Mapping[int, str]
    """Recorded summaries of its turns, by number."""


class RecalledTurns:
    """The turns that were chosen among the candidates of a search."""

    def __init__(
        self,
        space: Space,
        tiers: Tiers,
        candidates: Candidates,
        inquiry: Inquiry,
        chosen: Mapping[TurnName, Chosen],
        hidden: AbstractSet[int],
    ) -> None:
        """`chosen` are turns of conversations that have a candidate; the messages of these ids are
        left out.
        """
        self._space = space
        self._tiers = tiers
        self._candidates = candidates
        self._inquiry = inquiry
        self._chosen = chosen
        self._hidden = hidden
        self._names = {it.number: it.id for it in candidates.conversations}
        self._best = max((it.score for it in chosen.values()), default=0.0)
        self._rarities = candidates.words.rarities()

    def read(self) -> list[Turn]:
        """Return the turns, but for messages that are shown already and lines that are damaged.
        Raises DataUnavailable, CallerGone, DeadlineExceeded.
        """
        turns: list[Turn] = []
        conversations = self._conversations()
        messages = read_several(self._space, {it.id: it.places for it in conversations})
        for conversation in conversations:
            self._inquiry.task.deadline.check()
            own = messages[conversation.id]
            if isinstance(own, StorageUnavailable):
                raise own
            turns += self._turns_of(conversation, own)
        return self._with_later(turns)

    def _with_later(self, turns: list[Turn]) -> list[Turn]:
        """Return the turns with those messages of users marked that are likely to be of the same:
        each may correct an earlier one. A question corrects nothing.
        """
        statements = [it for turn in turns for it in turn if it.message.role is Role.USER]
        names = frozenset().union(*map(words_of, {it.message.sender for it in statements}))
        stated = {it.place: words_stated(it.message.content) for it in statements}
        shared = {place: (words & self._rarities.keys()) - names for place, words in stated.items()}

        def weight(words: AbstractSet[str]) -> float:
            return sum(self._rarities[word] for word in words)

        best = max(shared.values(), key=weight, default=frozenset())
        same = {
            it.place
            for it in statements
            if weight(shared[it.place] & best) >= _SAME * weight(best) > 0
            and len(shared[it.place]) >= _OF_MESSAGE * len(stated[it.place])
        }
        form = self._inquiry.task.form
        return [
            [
                replace(it, is_later=True, charge=form.recalled(it.message, is_later=True))
                if it.place in same
                else it
                for it in turn
            ]
            for turn in turns
        ]

    def _conversations(self) -> list[_RecalledConversation]:
        by_number: defaultdict[int, dict[int, Chosen]] = defaultdict(dict)
        for (number, turn), chosen in self._chosen.items():
            by_number[number][turn] = chosen
        of_turns = self._space.index.messages.of_each_turn(self._chosen)
        recorded = self._space.index.turn_memories.summaries(self._chosen)
        return [
            self._conversation(it, turns, of_turns, recorded) for it, turns in by_number.items()
        ]

    def _conversation(
        self,
        number: int,
        turns: dict[int, Chosen],
        of_turns: Mapping[TurnName, list[Place]],
        recorded: Mapping[TurnName, str],
    ) -> _RecalledConversation:
        candidates, shown = self._candidates, self._inquiry.shown
        name = self._names[number]
        matched = frozenset(
            candidates.messages.place(at)[0] for it in turns.values() for at in it.ats
        )
        places: list[Place] = []
        for turn in turns:
            there = of_turns[number, turn]
            if len(there) > _WHOLE_TURN:
                last = len(there) - 1
                there = [it for at, it in enumerate(there) if at in (0, last) or it[0] in matched]
            places += [it for it in there if message_id(number, it[0]) not in self._hidden]
        if number == shown.number:
            places = [place for place in places if place[0] not in shown.sequences]
        scores = {turn: it.score for turn, it in turns.items()}
        summaries = {turn: recorded.get((number, turn), "") for turn in turns}
        warm = self._tiers.warm_since(name)
        return _RecalledConversation(name, scores, matched, sorted(places), warm, summaries)

    def _turns_of(self, conversation: _RecalledConversation, messages: list[Message]) -> list[Turn]:
        turns: defaultdict[int, Turn] = defaultdict(list)
        questions: dict[int, str] = {}
        """The user's message of each turn, as it is shown."""
        for message in messages:
            turn = message.turn_number
            if turn not in conversation.scores:
                continue
            shown = self._shown(message, conversation, questions.get(turn, ""))
            if message.role is Role.USER:
                questions[turn] = shown.content
            turns[turn].append(self._candidate(message, shown, conversation))
        return [*turns.values()]

    def _shown(
        self, message: Message, conversation: _RecalledConversation, question: str
    ) -> Message:
        """Return the message with excerpts of its content and of its tool calls' arguments, where
        they are long. Words of the user's `question` count less.
        """
        tokens = self._length(message, conversation)
        if estimate_tokens(message.content) <= tokens and not message.tool_calls:
            return message
        # An answer begins by repeating the question: what else fits is worth more.
        repeated = words_of(question) & self._rarities.keys()
        rarities = self._rarities | {word: _REPEATED * self._rarities[word] for word in repeated}
        return _excerpted(message, tokens, self._inquiry.task.weighing.words, rarities)

    def _length(self, message: Message, conversation: _RecalledConversation) -> int:
        """Return the tokens that are shown of a message, at the most."""
        most, size = self._inquiry.excerpt_tokens, estimate_tokens(message.content)
        score = conversation.scores[message.turn_number]
        fits = message.sequence in conversation.matched
        tokens = excerpt_length(most, score, self._best, fits=fits)
        if message.role is Role.USER:
            tokens = max(tokens, int(_OF_USERS * most))
        return max(tokens, min(most, size)) if size * (1 - _CUT_OFF) <= tokens else tokens

    def _candidate(
        self, message: Message, shown: Message, conversation: _RecalledConversation
    ) -> Candidate:
        """Return a message as a candidate of the cold tier, with what is `shown` of it."""
        weighing, warm = self._inquiry.task.weighing, conversation.warm
        score = conversation.scores[message.turn_number]
        strength = weighing.strengths.get((conversation.id, message.sequence), 0.0)
        age = weighing.now - max(message.timestamp, warm or 0)
        fits = message.sequence in conversation.matched
        reason = (
            f"fits the message: {score:.2f}"
            if fits
            else f"of the turn of a message that fits: {score:.2f}"
        )
        reason += ", and its conversation was in use lately" if warm else ""
        reason += ", and an anchor came from it" if strength else ""
        relevance = relevance_of(age=age, similarity=score, anchor=strength)
        return Candidate(
            conversation.id,
            shown,
            relevance,
            reason,
            charge=weighing.form.recalled(shown),
            is_excerpt=shown is not message,
            score=score,
            summary=conversation.summaries[message.turn_number],
        )


def included_turns(
    space: Space, task: ContextTask, excerpt_tokens: int
) -> tuple[list[Turn], dict[str, Conversation]]:
    """Return the turns that the caller chose, in the order of its parts, and their conversations,
    by id. Raises DataUnavailable.
    """
    index, parts, weighing = space.index, task.parts, task.weighing
    numbers = index.conversations.numbers([it.conversation_id for it in parts.include])
    conversations = {
        it.id: it for it in index.conversations.by_number({*numbers.values()}).values()
    }
    places: defaultdict[str, set[Place]] = defaultdict(set)
    names: dict[tuple[str, int], None] = {}  # of the turns, in their order
    for part in parts.include:
        if (conversation := conversations.get(part.conversation_id)) is None:
            continue
        last = min(part.last, conversation.turn_count)
        first = max(part.first, last - _INCLUDED_TURNS + 1)
        places[conversation.id].update(
            index.messages.of_turns(numbers[conversation.id], first, last)
        )
        names |= dict.fromkeys((conversation.id, turn) for turn in range(first, last + 1))
    recorded = index.turn_memories.summaries((numbers[name], turn) for name, turn in names)
    turns: dict[tuple[str, int], Turn] = {name: [] for name in names if not parts.excludes(*name)}
    read = read_several(space, {name: sorted(its) for name, its in places.items()})
    for name, messages in read.items():
        if isinstance(messages, StorageUnavailable):
            raise messages
        for message in messages:
            if (turn := turns.get((name, message.turn_number))) is None:
                continue
            shown = _excerpted(message, excerpt_tokens, weighing.words, {})
            candidate = weighing.candidate(
                name,
                shown,
                "the caller included it",
                weighing.similarity(message),
                recorded.get((numbers[name], message.turn_number), ""),
            )
            charge = weighing.form.recalled(shown)
            turn.append(replace(candidate, charge=charge, is_excerpt=shown is not message))
    return [turn for turn in turns.values() if turn], conversations


def _excerpted(
    message: Message, tokens: int, words: frozenset[str], rarities: Mapping[str, float]
) -> Message:
    """Return the message with excerpts of its content and of its tool calls' arguments, where they
    are long.
    """
    content = excerpt(message.content, tokens, words, rarities)
    calls = tuple(
        replace(call, arguments=excerpt(call.arguments, tokens // 4, words, rarities))
        for call in message.tool_calls
    )
    if (content, calls) == (message.content, message.tool_calls):
        return message
    return replace(message, content=content, tool_calls=calls)


def excerpt_length(excerpt_tokens: int, score: float, best: float, *, fits: bool = True) -> int:
    """Return the most tokens of a message that is recalled: in proportion to the probability that
    its turn helps.
    """
    tokens = excerpt_tokens * score
    if score < best:
        tokens *= _FURTHER
    return min(excerpt_tokens, max(_LEAST_EXCERPT, int(tokens if fits else tokens * _BESIDE)))
