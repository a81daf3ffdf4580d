"""Recalls what was said elsewhere: all of it where it fits into what the budget leaves, else the
messages that a search ranks first, until the budget is used.

The rank chooses; the score only says how sure it is (`Source.is_certain`). A small budget holds few
messages, so of a long one the context has the passage around the words of the question.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from recollect_server.context.askings import Askings
from recollect_server.context.context import (
    CERTAIN,
    About,
    Candidate,
    Dropped,
    Packed,
    Source,
    Sources,
    Tier,
    cost,
)
from recollect_server.context.excerpts import excerpt
from recollect_server.context.inquiry import ContextTask, Inquiry, RecallDial, Weighing
from recollect_server.context.packing import Turn, summarized
from recollect_server.context.relevance import words_of, words_stated
from recollect_server.context.rendering.form import Form
from recollect_server.kernel.domain.conversation import ANYBODY, Conversation
from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.domain.filters import Filter, SearchScope
from recollect_server.kernel.domain.ids import message_id
from recollect_server.kernel.domain.message import Message, Role, estimate_tokens
from recollect_server.kernel.index.messages import Place, TurnName
from recollect_server.kernel.space.conversation_logs import ConversationState
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import read_several
from recollect_server.notes.turn_memories import TurnMemoryTable
from recollect_server.recall.candidates import Candidates
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.proposals import Request
from recollect_server.recall.retrieval import gather
from recollect_server.recall.search import Found, Search
from recollect_server.text.languages import says_little
from recollect_server.text.repetition import sentences_of, spoken, title_beside

# characters of a message that are asked with: a search is for a question, not for a page
_QUESTION = 4000
_CONVERSATIONS = 100  # that are found by all their words at the least, if there are so many
_MESSAGE = 6
"""Tokens of a message that is recalled, at the least, with what surrounds it: a budget holds no
more of them than its tokens divided by this.
"""
_POOL = 1.5
"""Messages that rank first are read until they have so many budgets' worth: a shorter one may fit
where a longer one does not.
"""
_WHOLE, _FURTHER = 3, 0.25
"""Messages that rank first and have all of an excerpt's tokens, and the share of them that others
have: where answers are long, more of them then fit.
"""
_BESIDE = (0, 1, -1, 2, -2, 3, -3)
"""Turns around one that fits, in the order in which they take what the messages that fit leave of
the budget: what came of a matter is often said later, in other words.
"""
_BEGINNINGS = 30  # messages that rank first, around which turns are read
_TALK = 80  # characters of small talk, at the most
_EXPLAINED = 10  # messages that were not recalled and are named on request
_SAME = 0.4
"""Share of the rare words of the question in that message of a user which has most of them that
another one has which is likely to be of the same.
"""
_OF_MESSAGE = 0.15
"""Share of the words of such a message that the question has: a long one has some by chance."""
_CUT_OFF = 0.1
"""Share of a message that an excerpt leaves out at the least: to cut off one short sentence saves
nothing, and the answer may be in it.
"""
_FIRST_TURNS = 3  # of a conversation: in these the one before is still of interest
_SHORTLY = 3_600_000  # milliseconds between the end of one and the beginning of the other
# conversations, newest first, of which the first with an abbreviation is the last one
_LAST_SEEN = 5
_FIRST_MESSAGE = 2  # line of the first message of a conversation that no command began
_INCLUDED_TURNS = 200
"""Turns of one part that a caller includes, at the most: the last ones."""
_LEAST_BUDGET = 20
"""Fewer tokens than these hold no message worth the search."""


@dataclass(frozen=True, slots=True)
class Past:
    """The messages recalled for a context, and what was left out."""

    units: list[Turn] = field(default_factory=list)
    """Messages in the order in which they are packed: the best first."""
    dropped: list[Dropped] = field(default_factory=list)
    """Messages that were not recalled, where the caller asks for them."""
    about: Mapping[str, About] = field(default_factory=dict)
    degraded: dict[str, str] = field(default_factory=dict)
    note: str = ""
    included: list[Turn] = field(default_factory=list)
    """The turns that the caller chose, which come before the others."""
    beside: list[Turn] = field(default_factory=list)
    """Messages around those that rank first, for what is left behind the abbreviations."""


def why_not(message: str, meaning: Meaning, budget: int, dial: RecallDial) -> str:
    """Return why the past cannot help, or nothing."""
    if dial is RecallDial.NONE:
        return "not asked: the caller wants nothing recalled"
    if not message.strip():
        return "not asked: there is no message to answer"
    if says_little(message) or (len(message) <= _TALK and meaning.is_talk(message)):
        return "not asked: the message is small talk, or a command about what is at hand"
    if budget < _LEAST_BUDGET:
        return f"not asked: {budget} tokens are left, which hold nothing"
    return ""


def recall(space: Space, meaning: Meaning, inquiry: Inquiry) -> Past:
    """Return what is not shown already: everything if it fits, else the messages that rank first.

    Raises DataUnavailable, CallerGone, DeadlineExceeded.
    """
    task, index = inquiry.task, space.index
    question, deadline = task.question[:_QUESTION], task.deadline
    weighing = task.weighing
    with index.until(deadline):
        hidden = inquiry.shown.ids(index) | task.parts.ids(index)
        if (everything := _everything(space, inquiry, hidden)) is not None:
            return everything
        askings = Askings(space, question)
        request = Request(
            question,
            SearchScope(hidden=hidden),
            _CONVERSATIONS,
            weighing.now,
            hides=askings.hidden_of,
            zone=weighing.zone,
        )
        candidates = gather(index, meaning, request, deadline, space.telemetry)
    ranked = candidates.best_messages()
    scores = candidates.message_scores
    least = CERTAIN if inquiry.dial is RecallDial.LIKELY else 0.0
    below = [at for at in ranked if scores[at] < least]
    ranked = [at for at in ranked if scores[at] >= least]
    dropped = [_below(candidates, at) for at in below[:_EXPLAINED]] if inquiry.explain else []
    names = {it.number: it.id for it in candidates.conversations}
    room = _POOL * inquiry.budget
    most = int(_FURTHER * inquiry.excerpt_tokens)
    hits, room = _within((candidates.messages[at] for at in ranked), room, most)
    hidden |= askings.hidden
    beside = _beside(space, hits, hidden, room, most) if inquiry.dial is RecallDial.ALL else []
    chosen = [*hits, *beside]
    chosen = [chosen[at] for at in _without_copies(space, chosen, names, inquiry)]
    of_hits = dict(zip(hits, (scores[at] for at in ranked), strict=False))
    read = _read_found(space, candidates, chosen, of_hits, inquiry)
    numbers = {it.number for it in chosen}
    about = _about_of(index.conversations.by_number(numbers).values())
    # a conversation may be deleted meanwhile
    read = [unit for unit in read if unit[0].conversation_id in about]
    of_found = {(names[it.number], it.place[0]) for it in of_hits}
    units = [unit for unit in read if unit[0].place in of_found]
    note = "" if units else "nothing that is stored has any of its words or is near in meaning"
    if below and not ranked:
        note = f"nothing scores {least} or more, which is asked for"
    around = [unit for unit in read if unit[0].place not in of_found]
    return Past(units, dropped, about, candidates.degraded, note, beside=around)


def with_included(past: Past, space: Space, task: ContextTask, excerpt_tokens: int) -> Past:
    """Return the same with the turns that the caller chose. Raises DataUnavailable."""
    turns, conversations = _included_turns(space, task, excerpt_tokens)
    return replace(past, included=turns, about={**past.about, **_about_of(conversations.values())})


def pack_cold(
    past: Past, budget: int, own: str, form: Form, shown: AbstractSet[tuple[str, int]]
) -> tuple[Packed, dict[str, About]]:
    """Pack messages in their order, each whole, until the budget is used; what is said of each
    source is charged too. A message that does not fit is left out; a shorter one behind it may
    still fit. What is `shown` elsewhere is passed over. `own` is the conversation that goes on.

    Where something is left, the conversations bring their abbreviations, whole, and then what
    stands beside. Return what is packed, and what is said of the conversations.
    """
    about = {name: replace(it, abbreviation="") for name, it in past.about.items()}
    sources = Sources(about, own, form.source)
    packed: list[Candidate] = []
    dropped = list(past.dropped)
    of: dict[str, list[Candidate]] = {}
    """The messages that are packed of each conversation."""
    frames: defaultdict[str, int] = defaultdict(int)
    """Tokens of what is said of each beside its messages."""
    left, considered = budget, 0
    places = set(shown)
    stood_for: set[tuple[str, int]] = set()  # turns whose summary is packed
    for units in ((*past.included, *past.units), past.beside):
        for unit in units:
            unit = [it for it in unit if it.place not in places]
            if not unit:
                continue
            considered += len(unit)
            name = unit[0].conversation_id
            turn = name, unit[0].message.turn_number
            for fitting in (unit, summarized(unit, form.recalled)):
                if not fitting or (fitting is not unit and turn in stood_for):
                    continue
                own_tokens, them = cost(fitting) - frames[name], [*of.get(name, ()), *fitting]
                # to price a source is dear: not where its messages alone are too long
                if own_tokens <= left and own_tokens + (frame := sources.price(name, them)) <= left:
                    packed += fitting
                    of[name] = them
                    places.update(it.place for it in unit)
                    left -= own_tokens + frame
                    frames[name] = frame
                    if fitting is not unit:
                        stood_for.add(turn)
                        dropped += _left_out(unit[1:], "the summary of its turn stands for it")
                    break
            else:
                dropped += _left_out(unit, f"{cost(unit)} tokens and {max(0, left)} were left")
        for name, messages in of.items():
            if name == own or about[name].abbreviation or not past.about[name].abbreviation:
                continue
            frame = Sources(past.about, own, form.source).price(name, messages)
            if frame - frames[name] <= left:
                about[name] = past.about[name]
                left -= frame - frames[name]
                frames[name] = frame
    if of_same := [it for it in packed if it.is_later]:
        first = min(of_same, key=lambda it: (it.message.timestamp, it.place))
        packed = [replace(it, is_later=False) if it is first else it for it in packed]
    reserved = sum(frames.values())
    cold = Packed(Tier.COLD, budget, packed, dropped, considered, past.note, reserved)
    return cold, {name: about[name] for name in of}


def last_conversation(
    space: Space, head: ConversationState, room: int, task: ContextTask
) -> Source | None:
    """Return the abbreviation of the conversation before this one, if there is room and this one
    began shortly after it, with the same people, and is in its first turns. None where a person
    asked for a new one.

    One of the same channel comes before others.
    """
    conversation = head.conversation
    if conversation.turn_count > _FIRST_TURNS or _is_asked_for(space, head):
        return None
    for channels in ((conversation.channel,), ()):
        for stored in space.index.conversations.select(
            Filter(channels=channels, unindexed=False), _LAST_SEEN + 1
        ):
            before = stored.state
            if (
                not before.abbreviation
                or not _goes_on(conversation, before)
                or task.parts.excludes_all(before.id)
            ):
                continue
            about = _about(before)
            title = title_beside(about.title, spoken(about.abbreviation))
            source = Source(before.id, about, (), about.abbreviation, title)
            return source if task.form.source(source) <= room else None
    return None


# Inside -------------------------------------------------------------------------------------------


def _everything(space: Space, inquiry: Inquiry, hidden: AbstractSet[int]) -> Past | None:
    """Return all that is stored and not hidden, the newest first, if the budget holds it, and all
    of it can be read; else None.
    """
    if inquiry.dial is not RecallDial.ALL:
        return None
    stored = Search(space.index).all_of_few(inquiry.budget // _MESSAGE + len(hidden))
    if stored is None:
        return None
    shown = [it for it in stored if message_id(it.number, it.place[0]) not in hidden]
    if sum(it.tokens for it in shown) > inquiry.budget:
        return None
    conversations = space.index.conversations.by_number({it.number for it in shown})
    names = {number: it.id for number, it in conversations.items() if not it.unindexed}
    shown = [it for it in shown if it.number in names]
    places: defaultdict[str, list[Place]] = defaultdict(list)
    for at in _without_copies(space, shown, names, inquiry):
        places[names[shown[at].number]].append(shown[at].place)
    units: list[Turn] = []
    read = read_several(space, {name: sorted(its) for name, its in places.items()})
    for name, messages in read.items():
        if isinstance(messages, StorageUnavailable):
            return None
        units += [
            [_candidate(inquiry, name, message, message, 0.0, "all that is stored fits")]
            for message in messages
        ]
    units.sort(key=lambda unit: (-unit[0].message.timestamp, unit[0].place))
    past = Past(units, [], _about_of(conversations.values()))
    own, form = inquiry.shown.conversation_id, inquiry.task.form
    packed, _ = pack_cold(past, inquiry.budget, own, form, frozenset())
    return None if packed.dropped else past


def _within(
    messages: Iterable[Found], room: float, excerpt_tokens: int
) -> tuple[list[Found], float]:
    """Return the first messages, until they have so many tokens, and what is left of these."""
    chosen: list[Found] = []
    for it in messages:
        if room <= 0:
            break
        chosen.append(it)
        room -= min(it.tokens, excerpt_tokens) + _MESSAGE
    return chosen, room


def _beside(
    space: Space, hits: Sequence[Found], hidden: AbstractSet[int], room: float, excerpt_tokens: int
) -> list[Found]:
    """Return messages of the turns around those that rank first, the nearest turns first, until
    they have so many tokens.
    """
    if room <= 0:
        return []
    index = space.index
    turns = dict.fromkeys(
        (it.number, it.turn_number + distance) for distance in _BESIDE for it in hits[:_BEGINNINGS]
    )
    places = index.messages.of_each_turn(turns)
    ids = {message_id(turn[0], it[0]): turn for turn, its in places.items() for it in its}
    ids = {it: turn for it, turn in ids.items() if it not in hidden}
    of_hits = {message_id(it.number, it.place[0]) for it in hits}
    shown = Search(index).showable(np.array([*ids.keys() - of_hits], np.int64), SearchScope())
    of_turn: defaultdict[TurnName, list[Found]] = defaultdict(list)
    for it in shown:
        of_turn[it.number, it.turn_number].append(it)
    return _within((it for turn in turns for it in of_turn[turn]), room, excerpt_tokens)[0]


def _without_copies(
    space: Space, messages: Sequence[Found], names: Mapping[int, str], inquiry: Inquiry
) -> list[int]:
    """Return the indices of messages, but of those that forks have copies of only one: that of the
    current conversation, whether it is shown or may be recalled, else the first. `names` are the
    ids of the conversations.
    """
    shown = inquiry.shown
    origins = space.index.conversations.origins({*names, shown.number or 0})
    if not origins:
        return [*range(len(messages))]

    def first_place(number: int | None, name: str, turn: int, line: int) -> tuple[str, int]:
        """Return the place of the message that this one is a copy of, or its own."""
        copied = [it for it, through in origins.get(number or 0, []) if turn <= through]
        return (copied[-1] if copied else name), line

    holders: dict[tuple[str, int], int | None] = {}
    singles: list[int] = []
    for at, it in enumerate(messages):
        number, turn, line = it.number, it.turn_number, it.place[0]
        place = first_place(number, names[number], turn, line)
        own = first_place(shown.number, shown.conversation_id, turn, line)
        if holders.setdefault(place, shown.number if place == own else number) == number:
            singles.append(at)
    return singles


def _read_found(
    space: Space,
    candidates: Candidates,
    messages: Sequence[Found],
    scores: Mapping[Found, float],
    inquiry: Inquiry,
) -> list[Turn]:
    """Return messages as candidates, in their order, but for lines that are damaged. Those without
    a score stand beside others. Raises DataUnavailable, CallerGone, DeadlineExceeded.
    """
    names = {it.number: it.id for it in candidates.conversations}
    rarities = candidates.words.rarities()
    places: defaultdict[str, list[Place]] = defaultdict(list)
    for it in messages:
        places[names[it.number]].append(it.place)
    recorded = TurnMemoryTable(space.index).summaries(
        {(it.number, it.turn_number) for it in messages}
    )
    texts: dict[tuple[str, int], Message] = {}
    for name, read in _read(space, places):
        inquiry.task.deadline.check()
        texts |= {(name, it.sequence): it for it in read}
    units: list[Turn] = []
    weighing = inquiry.task.weighing
    for it in messages:
        message = texts.get((names[it.number], it.place[0]))
        if message is None:
            continue
        most = inquiry.excerpt_tokens
        if len(units) >= _WHOLE:
            most = int(_FURTHER * most)
        shown, score = _shown(message, most, weighing, rarities), scores.get(it, 0.0)
        summary = recorded.get((it.number, it.turn_number), "")
        reason = f"fits the message: {score:.2f}" if it in scores else "stands beside one that fits"
        units.append(
            [
                _candidate(
                    *(inquiry, names[it.number], message, shown, score, reason, summary),
                    is_unsure=score < CERTAIN,
                )
            ]
        )
    return _with_later(units, rarities, inquiry.task.form)


def _read(space: Space, places: Mapping[str, list[Place]]) -> Iterable[tuple[str, list[Message]]]:
    """Yield the messages at places of conversations. Raises StorageUnavailable."""
    read = read_several(space, {name: sorted(its) for name, its in places.items()})
    for name, messages in read.items():
        if isinstance(messages, StorageUnavailable):
            raise messages
        yield name, messages


def _candidate(
    inquiry: Inquiry,
    name: str,
    message: Message,
    shown: Message,
    score: float,
    reason: str,
    summary: str = "",
    *,
    is_unsure: bool = False,
) -> Candidate:
    return Candidate(
        name,
        shown,
        score,
        reason,
        charge=inquiry.task.form.recalled(shown),
        is_excerpt=shown is not message,
        score=score,
        is_unsure=is_unsure,
        summary=summary,
    )


def _shown(
    message: Message, tokens: int, weighing: Weighing, rarities: Mapping[str, float]
) -> Message:
    """Return the message, with excerpts of at most so many tokens of its texts."""
    size = estimate_tokens(message.content)
    if size * (1 - _CUT_OFF) <= tokens:
        tokens = max(tokens, size)
    return _excerpted(message, tokens, weighing.words, rarities)


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


def _with_later(units: list[Turn], rarities: Mapping[str, float], form: Form) -> list[Turn]:
    """Return the units with those messages of users marked that are likely to be of the same: each
    may correct an earlier one. A question corrects nothing.
    """
    statements = [it for unit in units for it in unit if it.message.role is Role.USER]
    names = frozenset().union(*map(words_of, {it.message.sender for it in statements}))
    stated = {it.place: words_stated(it.message.content) for it in statements}
    shared = {place: (words & rarities.keys()) - names for place, words in stated.items()}

    def weight(words: AbstractSet[str]) -> float:
        return sum(rarities[word] for word in words)

    best = max(shared.values(), key=weight, default=frozenset())
    same = {
        it.place
        for it in statements
        if weight(shared[it.place] & best) >= _SAME * weight(best) > 0
        and len(shared[it.place]) >= _OF_MESSAGE * len(stated[it.place])
    }
    return [
        [
            replace(it, is_later=True, charge=form.recalled(it.message, is_later=True))
            if it.place in same
            else it
            for it in unit
        ]
        for unit in units
    ]


def _included_turns(
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
    recorded = TurnMemoryTable(index).summaries((numbers[name], turn) for name, turn in names)
    turns: dict[tuple[str, int], Turn] = {name: [] for name in names if not parts.excludes(*name)}
    for name, messages in _read(space, {name: [*its] for name, its in places.items()}):
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


def _is_asked_for(space: Space, head: ConversationState) -> bool:
    """Return whether a command began the conversation: its line stands before the messages, right
    behind the first line.
    """
    places = space.index.messages.of_turns(head.number, 1, 1) if head.number else []
    first = min((line for line, _, _ in places), default=head.lines + 1)
    return first > _FIRST_MESSAGE


def _goes_on(conversation: Conversation, before: Conversation) -> bool:
    """Return whether a conversation began shortly after another one ended, and everybody who is
    known to have spoken there is known to speak here.
    """
    if not 0 <= conversation.create_time - before.update_time <= _SHORTLY:
        return False
    here, there = (set(it.participants) - {ANYBODY} for it in (conversation, before))
    return (
        conversation.id != before.id
        and bool(here) == bool(there)
        and there <= here
        and _place(conversation) == _place(before)
    )


def _place(conversation: Conversation) -> tuple[str, ...]:
    """Return the contact or group that a conversation is with, on its channel; empty for none."""
    party = conversation.party
    place = (party.contact, party.group_id)
    return (conversation.channel, *place) if any(place) else ()


def _below(candidates: Candidates, at: int) -> Dropped:
    """Return a message that scored too low to be recalled."""
    message, score = candidates.messages[at], candidates.message_scores[at]
    reason = f"scores {score:.2f}, and {CERTAIN} is asked for"
    return Dropped(
        candidates.conversation_of(at).id,
        message.place[0],
        Tier.COLD,
        message.tokens,
        reason,
        score,
    )


def _left_out(unit: Turn, reason: str) -> list[Dropped]:
    return [
        Dropped(it.conversation_id, it.message.sequence, Tier.COLD, it.tokens, reason, it.score)
        for it in unit
    ]


def _about_of(conversations: Iterable[Conversation]) -> dict[str, About]:
    return {it.id: _about(it) for it in conversations}


def _about(conversation: Conversation) -> About:
    return About(
        conversation.name,
        conversation.channel,
        conversation.create_time,
        conversation.update_time,
        conversation.abbreviation,
        sentences_of(conversation.abbreviation),
        conversation.participants,
    )
