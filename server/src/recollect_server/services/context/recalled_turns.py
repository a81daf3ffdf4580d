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
        self._inquiry = inquiry
        self._chosen = chosen
        self._hidden = hidden
        self._names = {it.number: it.id for it in candidates.conversations}
        self._best = max((it.score for it in chosen.values()), default=0.0)
        self._rarities = candidates.words.rarities()
        self._matched = {
            message_id(number, candidates.messages.place(at)[0])
            for (number, _), it in chosen.items()
            for at in it.ats
        }
        """Ids of the messages that fit."""

    def read(self) -> list[Turn]:
        """Return the turns, but for messages that are shown already and lines that are damaged.
        Raises DataUnavailable, CallerGone, DeadlineExceeded.
        """
        places = self._places()
        recorded = self._space.index.turn_memories.summaries(self._chosen)
        turns: list[Turn] = []
        messages = read_several(
            self._space, {self._names[number]: sorted(its) for number, its in places.items()}
        )
        for number in places:
            self._inquiry.task.deadline.check()
            own = messages[self._names[number]]
            if isinstance(own, StorageUnavailable):
                raise own
            turns += self._turns_of(number, own, recorded)
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

    def _places(self) -> dict[int, list[Place]]:
        """Return the places of the messages that are read, by conversation."""
        of_turns = self._space.index.messages.of_each_turn(self._chosen)
        places: defaultdict[int, list[Place]] = defaultdict(list)
        for number, turn in self._chosen:
            there = of_turns[number, turn]
            last = len(there) - 1
            for at, place in enumerate(there):
                id_ = message_id(number, place[0])
                is_wanted = last < _WHOLE_TURN or at in (0, last) or id_ in self._matched
                if is_wanted and id_ not in self._hidden:
                    places[number].append(place)
        return places

    def _turns_of(
        self, number: int, messages: list[Message], recorded: Mapping[TurnName, str]
    ) -> list[Turn]:
        """Return the turns of a conversation that have these messages; `recorded` are summaries of
        turns.
        """
        warm = self._tiers.warm_since(self._names[number])
        turns: defaultdict[TurnName, Turn] = defaultdict(list)
        questions: dict[TurnName, str] = {}
        """The user's message of each turn, as it is shown."""
        for message in messages:
            name = number, message.turn_number
            if name not in self._chosen:
                continue
            shown = self._shown(number, message, questions.get(name, ""))
            if message.role is Role.USER:
                questions[name] = shown.content
            turns[name].append(
                self._candidate(number, message, shown, warm, recorded.get(name, ""))
            )
        return [*turns.values()]

    def _shown(self, number: int, message: Message, question: str) -> Message:
        """Return the message with excerpts of its content and of its tool calls' arguments, where
        they are long. Words of the user's `question` count less.
        """
        most, size = self._inquiry.excerpt_tokens, estimate_tokens(message.content)
        tokens = excerpt_length(
            most,
            self._chosen[number, message.turn_number].score,
            self._best,
            fits=message_id(number, message.sequence) in self._matched,
        )
        if message.role is Role.USER:
            tokens = max(tokens, int(_OF_USERS * most))
        if size * (1 - _CUT_OFF) <= tokens:
            tokens = max(tokens, min(most, size))
        if size <= tokens and not message.tool_calls:
            return message
        # An answer begins by repeating the question: what else fits is worth more.
        repeated = self._rarities.keys() & words_of(question)
        rarities = self._rarities | {word: _REPEATED * self._rarities[word] for word in repeated}
        return _excerpted(message, tokens, self._inquiry.task.weighing.words, rarities)

    def _candidate(
        self, number: int, message: Message, shown: Message, warm: int | None, summary: str
    ) -> Candidate:
        """Return a message as a candidate of the cold tier, with what is `shown` of it, the time
        since when its conversation is `warm`, and the recorded summary of its turn.
        """
        weighing, conversation_id = self._inquiry.task.weighing, self._names[number]
        score = self._chosen[number, message.turn_number].score
        strength = weighing.strengths.get((conversation_id, message.sequence), 0.0)
        reason = (
            f"fits the message: {score:.2f}"
            if message_id(number, message.sequence) in self._matched
            else f"of the turn of a message that fits: {score:.2f}"
        )
        reason += ", and its conversation was in use lately" if warm else ""
        reason += ", and an anchor came from it" if strength else ""
        age = weighing.now - max(message.timestamp, warm or 0)
        return Candidate(
            conversation_id,
            shown,
            relevance_of(age=age, similarity=score, anchor=strength),
            reason,
            charge=weighing.form.recalled(shown),
            is_excerpt=shown is not message,
            score=score,
            summary=summary,
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
