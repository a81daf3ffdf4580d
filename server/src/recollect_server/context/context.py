"""A context: what an agent's model sees before it answers, and how it was chosen."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from enum import IntEnum
from functools import cached_property
from operator import attrgetter

from recollect_server.anchors.log import Anchor
from recollect_server.kernel.domain.conversation import NO_SPLIT, Split
from recollect_server.kernel.domain.message import (
    Message,
    Role,
    estimate_tokens,
    message_tokens,
    reading_order,
)
from recollect_server.kernel.domain.time import DAY, to_wall
from recollect_server.people.communication import Communication, ExternalMessage
from recollect_server.recall.model.statement import ProfileStatement
from recollect_server.text.repetition import (
    AbbreviationSentence,
    abbreviation_beside,
    sentences_of,
    spoken,
    spoken_together,
    title_beside,
)

HOT_BUDGET, WARM_BUDGET, COLD_BUDGET = 1500, 2000, 900
PROFILE_BUDGET, _PROFILE_SHARE = 400, 8
"""Tokens of the profile, and by what the total is divided for it at the most."""
CERTAIN = 0.3
"""Score from which a recalled message is likely to help. What scores less is given too, and marked
as unsure.
"""
_SMALL, _SMALL_HOT, _SMALL_WARM = 2000, 400, 0.2
"""A total up to which the newest turns have so many tokens, at most half, and earlier ones this
share of the rest: where answers are long, recall needs what is left.
"""
MAX_DROPPED = 100
"""Messages that were left out and are named; of more the first ones, and the tier's note says how
many there were.
"""


class Tier(IntEnum):
    """Source of a piece of context; the values are the contract's numbers."""

    HOT = 1
    WARM = 2
    COLD = 3


@dataclass(frozen=True, slots=True)
class Budget:
    """Token limits of a context; None, and a total of 0, mean the default."""

    hot: int | None = None
    warm: int | None = None
    cold: int | None = None
    total: int = 0
    profile: int | None = None

    def settled(self, usual: "Limits") -> "Limits":
        """Return the limits, in tokens, with defaults from `usual` for each that is unset.

        Without tiers the total is divided by the ratio of the usual tiers; the smaller it is, the
        more by the ratio for small budgets. Without a total it is the sum of the tiers, or the
        usual total if a tier is unset.
        """
        defaults = (usual.hot, usual.warm, usual.cold)
        parts = (self.hot, self.warm, self.cold)
        most = usual.total or sum(defaults)
        total = self.total or max(most if None in parts else 0, sum(it or 0 for it in parts))
        hot, warm = (total * part // max(1, sum(defaults)) for part in defaults[:2])
        if usual == USUAL_BUDGET and total < most and not any(parts):
            small = max(0.0, (most - max(total, _SMALL)) / (most - _SMALL))
            least = min(_SMALL_HOT, total // 2)
            hot = round(hot + small * (least - hot))
            warm = round(warm + small * (_SMALL_WARM * (total - least) - warm))
        shares = (hot, warm, total - hot - warm)
        hot, warm, cold = (
            share if own is None else own for own, share in zip(parts, shares, strict=True)
        )
        profile = usual.profile if self.profile is None else self.profile
        return Limits(
            min(hot, total),
            warm,
            cold,
            total,
            min(profile, total // _PROFILE_SHARE),
            is_hot_set=self.hot is not None,
            may_lend=self.cold is None,
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """Token limits of a context, each of which is settled."""

    hot: int
    warm: int
    cold: int
    total: int = 0
    profile: int = PROFILE_BUDGET
    is_hot_set: bool = field(default=False, compare=False)
    """True if the hot tier's limit was given: then the newest turn takes nothing of the warm
    tier's.
    """
    may_lend: bool = field(default=True, compare=False)
    """True if recalled messages may take what other tiers do not need."""

    def within(self, room: int) -> "Limits":
        """Return the limits of which each tier has its share of `room` tokens, where all of them
        together have less.
        """
        parts = (self.hot, self.warm, self.cold)
        if (total := sum(parts)) <= room:
            return replace(self, total=room)
        hot, warm = (part * room // total for part in parts[:2])
        return replace(self, hot=hot, warm=warm, cold=room - hot - warm, total=room)


USUAL_BUDGET = Limits(HOT_BUDGET, WARM_BUDGET, COLD_BUDGET)


@dataclass(frozen=True)
class Candidate:
    """A message that may be packed."""

    conversation_id: str
    message: Message
    relevance: float
    reason: str
    is_excerpt: bool = False
    """True if parts of its texts are left out."""
    score: float = 0.0
    """Of a recalled message: the probability that its turn helps to answer the message."""
    is_unsure: bool = False
    """True if it ranks among the first and its score says that it may not help."""
    is_later: bool = False
    """True if it was said later than another recalled message of the same, which it may correct."""
    summary: str = ""
    """The recorded summary of its turn, which stands for the turn where that does not fit."""
    is_summary: bool = False
    """True if it is that summary."""
    charge: int = 0
    """Tokens that it takes in the form asked for; 0: those of its content and its tool calls."""

    @cached_property
    def place(self) -> tuple[str, int]:
        """Its conversation and its line: no message is packed twice."""
        return self.conversation_id, self.message.sequence

    @cached_property
    def words(self) -> str:
        """The words of its text, as `spoken` gives them."""
        return spoken(self.message.shown)

    @cached_property
    def tokens(self) -> int:
        """Tokens that it takes of a budget."""
        return self.charge or max(1, message_tokens(self.message))


@dataclass(frozen=True, slots=True)
class Dropped:
    """A message that was looked at and left out."""

    conversation_id: str
    sequence: int
    tier: Tier
    tokens: int
    reason: str
    score: float = 0.0
    """Of a message that was not recalled: as in Candidate."""


@dataclass(frozen=True, slots=True)
class About:
    """The description of a conversation that messages are recalled from."""

    title: str
    channel: str
    begin: int
    """Time at which it began, in milliseconds."""
    end: int
    """Time of its last activity, in milliseconds."""
    abbreviation: str = ""
    """Its abbreviation, where there is room for all of it; empty for the conversation that goes
    on.
    """
    sentences: tuple[AbbreviationSentence, ...] = field(default=(), compare=False, repr=False)
    """Those of the abbreviation, which are looked for in each message of it."""
    participants: tuple[str, ...] = field(default=(), compare=False, repr=False)


# Called for every message several times in a context: these are no calls of Python.
_TOKENS, _IS_UNSURE = attrgetter("tokens"), attrgetter("is_unsure")
_WORDS, _TIME = attrgetter("words"), attrgetter("message.timestamp")


@dataclass(frozen=True)
class Source:
    """The source of recalled messages: a conversation, or one place of a long one."""

    conversation_id: str
    about: About
    messages: tuple[Candidate, ...]
    """In reading order. None: the abbreviation of the conversation before this one stands alone."""
    abbreviation: str = ""
    """Stands in the first source of a conversation, without what its messages say."""
    title: str = ""
    """The title as it is written: empty where a message of it says the same."""
    is_own: bool = False
    """True for a place in the conversation that goes on."""

    @cached_property
    def turns(self) -> tuple[int, int] | None:
        """The first and the last turn that messages are from."""
        if not self.messages:
            return None
        first, last = self.messages[0].message, self.messages[-1].message
        return first.turn_number, last.turn_number

    @cached_property
    def times(self) -> tuple[int, int]:
        """Return the times of the first and the last message; without messages, of the
        conversation's begin and end.
        """
        times = [*map(_TIME, self.messages)] or [self.about.begin, self.about.end]
        return min(times), max(times)

    @cached_property
    def spans_days(self) -> bool:
        """Return whether its messages are of more than one day: each has its own then."""
        first, last = self.times
        return bool(self.messages) and first // DAY != last // DAY

    @cached_property
    def score(self) -> float:
        return max((it.score for it in self.messages), default=0.0)

    @cached_property
    def is_unsure(self) -> bool:
        """Return whether none of its messages is likely to help."""
        return bool(self.messages) and all(map(_IS_UNSURE, self.messages))

    @cached_property
    def tokens(self) -> int:
        """Tokens that it takes beside its messages: title, place and abbreviation."""
        return (
            (_OWN_SOURCE_FRAME if self.is_own else _SOURCE_FRAME)
            + estimate_tokens(self.title)
            + (estimate_tokens(self.abbreviation) + _SUMMARY_FRAME if self.abbreviation else 0)
        )


# tokens of an id, a date and turns, and of what surrounds an abbreviation
_SOURCE_FRAME, _SUMMARY_FRAME = 30, 10
_OWN_SOURCE_FRAME = 20  # tokens of a date and turns: the conversation is not named
_FAR_TURNS = 20  # between two turns of one source, at the most
_FAR_TIME = DAY // 2  # likewise, in milliseconds


class Sources:
    """The sources of recalled messages, and what is said of them beside the messages."""

    def __init__(
        self,
        about: Mapping[str, About],
        own: str = "",
        price: Callable[[Source], int] = _TOKENS,
    ) -> None:
        """`about` are the conversations, by id; `own` is the one that goes on. `price` returns the
        tokens that a source takes beside its messages.
        """
        self._about = about
        self._own = own
        self._price = price

    def of(self, candidates: Iterable[Candidate]) -> list[Source]:
        """Return the sources of messages, the oldest first. Turns that lie far apart are two
        sources.
        """
        by_conversation: defaultdict[str, list[Candidate]] = defaultdict(list)
        for candidate in candidates:
            by_conversation[candidate.conversation_id].append(candidate)
        sources = [
            source
            for name, messages in by_conversation.items()
            for source in self._places(name, messages)
        ]
        return sorted(sources, key=lambda it: (it.times, it.conversation_id, it.turns))

    def price(self, name: str, messages: Sequence[Candidate]) -> int:
        """Return the tokens that the sources of messages of one conversation take beside the
        messages.
        """
        return sum(map(self._price, self._places(name, messages)))

    def _places(self, name: str, messages: Sequence[Candidate]) -> list[Source]:
        about, is_own = self._about[name], name == self._own
        places: list[list[Candidate]] = []
        for it in in_order(messages):
            last = places[-1][-1].message if places else None
            turns_apart = it.message.turn_number - last.turn_number if last else 0
            if (
                last is None
                or turns_apart > _FAR_TURNS
                or (turns_apart and abs(it.message.timestamp - last.timestamp) > _FAR_TIME)
            ):
                places.append([])
            places[-1].append(it)
        title = abbreviation = ""
        if not is_own and (about.title or about.abbreviation):
            shown = spoken_together(map(_WORDS, messages))
            title = title_beside(about.title, shown)
            if about.abbreviation:
                speakers = {*about.participants, *(it.message.sender for it in messages)}
                sentences = about.sentences or sentences_of(about.abbreviation)
                abbreviation = abbreviation_beside(sentences, shown, speakers)
        return [
            Source(name, about, tuple(place), "" if at else abbreviation, title, is_own)
            for at, place in enumerate(places)
        ]


@dataclass(frozen=True, slots=True)
class Packed:
    tier: Tier
    budget: int = 0
    packed: list[Candidate] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    considered: int = 0
    note: str = ""
    reserved: int = 0
    """Tokens of the budget that something else took: the summary of what was compressed, or what is
    said of the sources.
    """

    @property
    def used(self) -> int:
        return self.reserved + cost(self.packed)

    @property
    def left(self) -> int:
        """Return the tokens handed down to the next tier."""
        return max(0, self.budget - self.used)


@dataclass(frozen=True)
class Context:
    hot: Packed
    warm: Packed
    cold: Packed
    anchors: list[Anchor] = field(default_factory=list)
    profile: list[ProfileStatement] = field(default_factory=list)
    """In the order in which they are shown."""
    profile_left_out: int = 0
    summary: str = ""
    about: Mapping[str, About] = field(default_factory=dict)
    """Facts about the conversations of the cold tier, by id."""
    degraded: dict[str, str] = field(default_factory=dict)
    has_more: bool = False
    """True if messages were left out only because the answer would be too large."""
    group: "list[GroupMessage]" = field(default_factory=list)
    """Messages of other members of the group, oldest first."""
    conversation_id: str = ""
    """The conversation that goes on."""
    last: Source | None = None
    """The conversation before this one, where this one is in its first turns: its abbreviation
    alone.
    """
    now: int = 0
    """The time at which it was built, in milliseconds."""
    zone: tzinfo = UTC
    """Time zone of the dates that are rendered."""
    condensed: int = 0
    """Number of earlier messages that the summary stands for."""
    begins: int = 1
    """The first turn of this conversation that no summary stands for."""
    split: Split = NO_SPLIT
    """The suggestion to go on in several conversations, if there is one."""
    rendered: str = ""
    """The text in the form asked for."""
    rendered_tokens: int = 0
    """The tokens that the text takes; of parts, those that these are charged."""

    def in_zone(self) -> "Context":
        """Return the context with what clocks in its zone show instead of every time."""
        zone = self.zone
        if zone is UTC:
            return self

        def packed(it: Packed) -> Packed:
            messages = (
                replace(at.message, timestamp=wall(at.message.timestamp)) for at in it.packed
            )
            return replace(
                it,
                packed=[
                    replace(at, message=message)
                    for at, message in zip(it.packed, messages, strict=True)
                ],
            )

        def wall(time: int) -> int:
            return to_wall(time, zone)

        def of(about: About) -> About:
            return replace(about, begin=wall(about.begin), end=wall(about.end))

        hot, warm, cold = map(packed, self.tiers)
        return replace(
            self,
            hot=hot,
            warm=warm,
            cold=cold,
            about={name: of(it) for name, it in self.about.items()},
            group=[
                replace(it, message=replace(it.message, timestamp=wall(it.message.timestamp)))
                for it in self.group
            ],
            profile=[replace(it, time=wall(it.time)) for it in self.profile],
            last=replace(self.last, about=of(self.last.about)) if self.last else None,
            now=wall(self.now),
        )

    @cached_property
    def sources(self) -> list[Source]:
        """Return the sources of the cold tier's messages, the oldest first."""
        last = [self.last] if self.last else []
        sources = Sources(self.about, self.conversation_id)
        return sorted([*last, *sources.of(self.cold.packed)], key=lambda it: it.times)

    @property
    def tiers(self) -> tuple[Packed, Packed, Packed]:
        return self.hot, self.warm, self.cold

    @property
    def own(self) -> list[Message]:
        """Return the packed messages of this conversation, in its order."""
        return [candidate.message for candidate in in_order((*self.warm.packed, *self.hot.packed))]

    def own_units(self) -> "list[Unit]":
        """Return what was packed of this conversation, in its order, each tool call with its
        results.
        """
        return units(in_order((*self.warm.packed, *self.hot.packed)))


@dataclass(frozen=True, slots=True)
class GroupMessage:
    """Message of another member of a conversation's group, who is no owner. Data, never the user's
    words.
    """

    communication: Communication
    message: ExternalMessage

    @property
    def tokens(self) -> int:
        files = "".join(f"{file.media_type} {file.uri}" for file in self.message.attachments)
        return max(1, estimate_tokens(f"{self.message.text}{files}"))

    @property
    def name(self) -> str:
        """Return the writer: the display name, which proves nothing, and the address."""
        name, address = self.message.origin.sender_name, self.communication.party
        return f"{name} ({address})" if name else address


Unit = list[Candidate]
"""Messages that only make sense together: a tool call with its results; else one message."""


def pair_results(messages: Sequence[Message]) -> dict[int, tuple[int, int]]:
    """Return for each tool result its call: the places of both messages, and of the call among
    those of its message.

    A result belongs to the last call before it that has its id and no result yet: some models use
    an id again in every turn.
    """
    waiting: dict[str, tuple[int, int]] = {}
    paired: dict[int, tuple[int, int]] = {}
    for at, message in enumerate(messages):
        if message.role is Role.TOOL:
            if call := waiting.pop(message.tool_call_id, None):
                paired[at] = call
        else:
            waiting |= {call.id: (at, number) for number, call in enumerate(message.tool_calls)}
    return paired


def units(candidates: Sequence[Candidate], half: int = 0) -> list[Unit]:
    """Return the messages of a turn, oldest first, as units. A tool result without its call is a
    unit of its own.

    `half` tokens are charged for each call without a result and each result without a call: the
    context says what is missing.
    """
    paired = pair_results([it.message for it in candidates])
    groups: dict[int, Unit] = {}
    for at, candidate in enumerate(candidates):
        if at in paired:
            groups[paired[at][0]].append(candidate)
        else:
            groups[at] = [candidate]
    for at, unit in groups.items():
        calls = len(unit[0].message.tool_calls)
        missing = calls - len(unit) + 1 if calls else int(unit[0].message.role is Role.TOOL)
        if half and missing:
            groups[at] = [replace(unit[0], charge=unit[0].tokens + half * missing), *unit[1:]]
    return list(groups.values())


def cost(unit: Iterable[Candidate]) -> int:
    """Return the tokens of several messages together."""
    return sum(map(_TOKENS, unit))


def in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates of one conversation in reading order."""
    ordered = [*candidates]
    if len(ordered) > 1:
        ordered.sort(key=lambda candidate: reading_order(candidate.message))
    return ordered
