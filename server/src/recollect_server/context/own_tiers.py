"""The tiers of the conversation that goes on: its newest turns are hot, earlier ones are warm, with
the summary of those before them.
"""

import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from recollect_server.context.context import (
    USUAL_BUDGET,
    Candidate,
    Dropped,
    Limits,
    Packed,
    Tier,
    cost,
    in_order,
)
from recollect_server.context.inquiry import CallersParts, ContextTask, RecallDial, ShownMessages
from recollect_server.context.packing import (
    HOT_TURNS,
    WORTH_SHORTENING,
    Preference,
    newest_turn_cost,
    pack_hot,
    pack_kept,
    pack_warm,
)
from recollect_server.context.recent_turns import RecentTurns
from recollect_server.context.rendering.form import Form
from recollect_server.context.rendering.messages import is_said
from recollect_server.kernel.domain.errors import IndexUnavailable, StorageUnavailable
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.message import BYTES_PER_TOKEN, Message
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.space.conversation_logs import ConversationState
from recollect_server.kernel.space.events import Appended, Reloaded, Resting
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import Turns, turns_among, turns_of
from recollect_server.notes.conversation_notes import turn_marks, turn_summaries

_SHORT_TURN, _LEAST_TURNS = 20, 10
"""Tokens of a short turn, and how many of the last turns are looked at whatever the budget."""
_READ = 12
"""Bytes that are read of the last turns for each token: as JSON, and more than are packed."""


@dataclass(frozen=True, slots=True)
class Window:
    """Numbers of turns of the conversation itself that a context considers."""

    hot_turns: int = HOT_TURNS
    warm_turns: int = 0
    """Of the last turns before the hot ones, at the most; 0: as many as the budget may hold."""


@dataclass(frozen=True, slots=True)
class Choosing:
    """The rules of choosing: limits of recall, numbers of turns."""

    dial: RecallDial
    """Amount recalled into a context whose caller does not say."""
    excerpt_tokens: int
    """Tokens of a recalled message, at the most."""
    window: Window = field(default_factory=Window)
    budget: Limits = USUAL_BUDGET
    """Limits of contexts whose callers give none."""


@dataclass(frozen=True, slots=True)
class NewestMessages:
    """The newest turns of the conversation, read and not yet packed."""

    head: ConversationState | None
    messages: list[Message] = field(default_factory=list)
    """In reading order."""
    in_memory: bool = False
    trouble: str = ""
    """Why they cannot be read."""
    tiers: Mapping[int, int] = field(default_factory=dict)
    """Tiers that callers recorded, by turn."""
    with_summary: AbstractSet[int] = frozenset()
    """Turns of which callers recorded a summary."""
    summaries: Mapping[int, str] = field(default_factory=dict)
    """Those of the turns here."""
    hot_messages: list[Message] = field(default_factory=list)
    """Those of other turns that the caller keeps in the hot tier."""

    def without(self, parts: CallersParts) -> "NewestMessages":
        """Return the same but for what the caller excluded, or put into another tier."""
        if self.head is None or not (parts.exclude or self.tiers):
            return self
        name, newest = self.head.conversation.id, self.head.conversation.turn_count
        messages: list[Message] = []
        hot: list[Message] = []
        for it in (*self.hot_messages, *self.messages):
            tier = self.tiers.get(it.turn_number, 0)
            if not parts.excludes(name, it.turn_number) and tier in (0, Tier.HOT):
                (hot if tier and it.turn_number != newest else messages).append(it)
        return replace(self, messages=messages, hot_messages=hot)


@dataclass(frozen=True, slots=True)
class Earlier:
    """Turns before the hot ones, and the summary of those before them, read once for any room."""

    summary: str
    form: Form
    candidates: list[Candidate] = field(default_factory=list)
    preference: Preference = field(default_factory=Preference)
    trouble: str = ""
    """Why the turns cannot be read."""

    def packed(self, room: int) -> tuple[Packed, str]:
        """Return the warm tier of so many tokens, with what is given of the summary."""
        of_summary = room // 2 if self.candidates else room
        summary, note = _fitting(self.summary, of_summary, self.form)
        if not self.candidates and not self.trouble:
            note = "; ".join(part for part in (note, "there are no earlier turns") if part)
        reserved = self.form.summary(summary)
        packed = pack_warm(self.candidates, room, reserved, self.preference, self.form)
        return replace(packed, note=self.trouble or note), summary


@dataclass(frozen=True, slots=True)
class Own:
    head: ConversationState | None
    hot: Packed
    in_memory: bool
    """True if the hot turns were in memory."""
    earlier: Earlier
    warm: Packed
    summary: str

    def with_warm(self, room: int) -> "Own":
        """Return the same with a warm tier of so many tokens."""
        warm, summary = self.earlier.packed(room)
        return replace(self, warm=warm, summary=summary)

    def without_summaries(self, turns: AbstractSet[int]) -> "Own":
        """Return the same without the summaries of turns that are recalled."""

        def without(tier: Packed) -> Packed:
            packed = [
                it for it in tier.packed if not (it.is_summary and it.message.turn_number in turns)
            ]
            return replace(tier, packed=packed)

        return replace(self, hot=without(self.hot), warm=without(self.warm))

    @property
    def used(self) -> int:
        return self.hot.used + self.warm.used

    @property
    def lines(self) -> frozenset[int]:
        return _lines(self.hot, self.warm)

    def shown(self, conversation_id: str, lent: int) -> ShownMessages:
        """Return what recall is to leave out. Turns that may have to make room of `lent` tokens for
        it can be recalled themselves.
        """
        staying = self.with_warm(max(0, self.warm.used - lent)) if lent else self
        head = self.head
        return ShownMessages(
            conversation_id,
            head.number if head else None,
            staying.lines,
            _lines(self.warm) - staying.lines,
            head.conversation.turn_count if head else 0,
        )


class OwnTiers:
    """Packs the tiers of a conversation itself. Safe to call from any thread."""

    def __init__(
        self,
        space: Space,
        choosing: Live[Choosing],
        max_bytes: int,
    ) -> None:
        """`max_bytes` of a conversation's turns are read at most."""
        self._space = space
        self._choosing = choosing
        self._max_bytes = max_bytes
        self._recent = RecentTurns(choosing.now.window.hot_turns)
        space.subscribe(Appended, self._recent.follow)
        space.subscribe(Reloaded, self._recent.forget)
        space.subscribe(Resting, self._recent.clear)

    def newest(self, conversation_id: str, degraded: dict[str, str]) -> NewestMessages:
        """Return the newest turns, and whether they were in memory."""
        head: ConversationState | None = None
        try:
            with self._space.reading(conversation_id) as head:
                turns, in_memory = self._newest(head)
            marks = turn_marks(self._space, head)
            tiers = {turn: tier for turn, tier, _ in marks if tier}
            with_summary = {turn for turn, _, has_summary in marks if has_summary}
            there = {it.turn_number for it in turns.messages}
            hot = [turn for turn, tier in tiers.items() if tier == Tier.HOT and turn not in there]
            others = turns_among(self._space, head, hot, [], self._max_bytes) if hot else Turns([])
            summaries = turn_summaries(self._space, head, with_summary & there.union(hot))
        except StorageUnavailable as error:
            degraded["hot"] = str(error)
            return NewestMessages(head, trouble=f"it cannot be read: {error}")
        _note_damage(degraded, "hot", turns.damaged)
        return NewestMessages(
            head,
            turns.messages,
            in_memory,
            tiers=tiers,
            with_summary=with_summary,
            summaries=summaries,
            hot_messages=others.messages,
        )

    def _newest(self, head: ConversationState) -> tuple[Turns, bool]:
        """Return the newest turns that no summary covers, and whether they were in memory. Hold the
        conversation's lock.

        Of more bytes than may be read only the newest messages are. Raises StorageUnavailable.
        """
        conversation, hot_turns = head.conversation, self._choosing.now.window.hot_turns
        covered = conversation.compressed_through
        if (cached := self._recent.get(conversation.id, head.lines)) is not None:
            return Turns([it for it in cached if it.turn_number > covered]), True
        first = max(covered, conversation.turn_count - hot_turns) + 1
        turns = turns_of(self._space, head, first, conversation.turn_count, self._max_bytes)
        if not turns.damaged and first <= max(1, conversation.turn_count - hot_turns + 1):
            self._recent.put(conversation.id, head.lines, turns.messages)
        return turns, False

    def packed(
        self,
        task: ContextTask,
        newest: NewestMessages,
        budget: Limits,
        spare: int,
    ) -> Own:
        """Return the tiers of the conversation itself; `spare` tokens are the warm tier's until
        something is recalled.
        """
        hot = self.hot(task, newest, budget)
        room = room_of_warm(budget, hot) + spare
        earlier = self.earlier(task, newest, hot, room)
        warm, summary = earlier.packed(room)
        return Own(newest.head, hot, newest.in_memory, earlier, warm, summary)

    def hot(self, task: ContextTask, newest: NewestMessages, budget: Limits) -> Packed:
        """Return the hot tier alone.

        Where the conversation ends with the message to be answered and the budget does not hold
        it, it is left out.
        """
        head, weighing = newest.head, task.weighing
        if head is None or newest.trouble:
            return Packed(Tier.HOT, budget.hot, note=newest.trouble)
        window = self._choosing.now.window
        candidates, too_long = _newest_candidates(task, newest, budget)
        summary = min(
            weighing.form.summary(head.conversation.compression_summary), budget.warm // 2
        )
        lent = 0 if budget.is_hot_set else max(0, budget.warm - summary)
        callers = pack_kept(
            _candidates(task, newest, newest.hot_messages, "an earlier turn"),
            budget.hot - newest_turn_cost(candidates, weighing.form),
            weighing.form,
        )
        hot = pack_hot(
            candidates,
            budget.hot - cost(callers),
            lent,
            window.hot_turns,
            weighing.form,
            weighing.words,
        )
        if callers:
            hot = replace(
                hot, packed=in_order([*callers, *hot.packed]), budget=hot.budget + cost(callers)
            )
        reason = "it is the message to be answered, and longer than the budget of this tier"
        dropped = [
            Dropped(it.conversation_id, it.message.sequence, Tier.HOT, it.tokens, reason)
            for it in too_long
        ]
        return replace(
            hot,
            dropped=[*hot.dropped, *dropped],
            considered=len(newest.messages) + len(newest.hot_messages),
        )

    def grown(
        self, task: ContextTask, newest: NewestMessages, budget: Limits, tiers: Own, left: int
    ) -> Own:
        """Return the tiers, with up to `left` tokens more for a newest turn that was shortened."""
        hot = tiers.hot
        if (
            budget.is_hot_set
            or left < WORTH_SHORTENING
            or not any(it.is_excerpt for it in hot.packed)
        ):
            return tiers
        candidates, _ = _newest_candidates(task, newest, budget)
        weighing = task.weighing
        grown = pack_hot(candidates, hot.used + left, 0, 1, weighing.form, weighing.words)
        return replace(tiers, hot=replace(hot, packed=grown.packed, budget=grown.budget))

    def earlier(
        self,
        task: ContextTask,
        newest: NewestMessages,
        hot: Packed,
        room: int,
    ) -> Earlier:
        """Return the turns before the hot ones, to be packed into a warm tier of at most `room`
        tokens.
        """
        weighing, degraded, head = task.weighing, task.degraded, newest.head
        if head is None:
            degraded |= {"warm": degraded["hot"]} if "hot" in degraded else {}
            return Earlier("", weighing.form, trouble=newest.trouble)
        summary = head.conversation.compression_summary
        hot_turns = {it.message.turn_number for it in hot.packed}
        try:
            turns, preference = self._earlier(head, newest, room, hot_turns)
            there = {it.turn_number for it in turns.messages}
            summaries = turn_summaries(self._space, head, newest.with_summary & there)
        except StorageUnavailable as error:
            degraded["warm"] = str(error)
            return Earlier(summary, weighing.form, trouble=f"it cannot be read: {error}")
        _note_damage(degraded, "warm", turns.damaged)
        left_out = {it.sequence for it in hot.dropped}
        candidates: list[Candidate] = []
        for it in turns.messages:
            turn = it.turn_number
            if (
                turn not in hot_turns
                and newest.tiers.get(turn) != Tier.COLD
                and it.sequence not in left_out
                and not task.parts.excludes(head.conversation.id, turn)
            ):
                near = weighing.similarity(it)
                candidates.append(
                    weighing.candidate(
                        head.conversation.id,
                        it,
                        "an earlier turn",
                        near,
                        summaries.get(turn, ""),
                    )
                )
        preference = replace(preference, words=weighing.words)
        return Earlier(summary, weighing.form, candidates, preference)

    def _earlier(
        self,
        head: ConversationState,
        newest: NewestMessages,
        room: int,
        hot: AbstractSet[int],
    ) -> tuple[Turns, Preference]:
        """Return turns that no summary covers: the last ones before those that are `hot`, as many
        as `room` tokens may hold, and of those before them the first, those that the caller keeps,
        and the last ones that have a summary of their own; with what is to be preferred. Raises
        StorageUnavailable.
        """
        window = self._choosing.now.window
        first, last = head.conversation.compressed_through + 1, head.conversation.turn_count
        before_hot = max(first, last - window.hot_turns)
        most = min(window.warm_turns or sys.maxsize, max(_LEAST_TURNS, room // _SHORT_TURN))
        since = max(first, before_hot - most + 1)
        while last in hot:
            last -= 1
        read = Turns([])
        if since <= last:
            read = turns_of(self._space, head, since, last, min(self._max_bytes, _READ * room))
        messages, damaged = read.messages, read.damaged
        if messages and messages[0].turn_number > since:  # the oldest one may lack its beginning
            since = messages[0].turn_number + 1
            messages = [it for it in messages if it.turn_number >= since]
        callers = frozenset(
            turn for turn, tier in newest.tiers.items() if tier in (Tier.HOT, Tier.WARM)
        )
        short = sorted(turn for turn in newest.with_summary if first <= turn < since)
        if others := sorted({it for it in (first, *callers, *short[-most:]) if it < since}):
            read = turns_among(self._space, head, others, [], self._max_bytes)
            messages, damaged = [*read.messages, *messages], damaged + read.damaged
        return Turns(messages, damaged), Preference(first, callers=callers)

    def condensed(self, task: ContextTask, head: ConversationState | None) -> int:
        """Return how many messages the summary of a conversation stands for; 0 where the index
        cannot tell.
        """
        if head is None or head.number is None:
            return 0
        try:
            return self._space.index.messages.count_through(
                head.number, head.conversation.compressed_through
            )
        except IndexUnavailable as error:
            task.degraded.setdefault("warm", str(error))
            return 0


def room_of_warm(budget: Limits, hot: Packed) -> int:
    """Return the tokens that the hot tier leaves for the warm one."""
    if not budget.warm:
        return 0
    return max(0, min(budget.warm + budget.hot, budget.total) - hot.used)


def _newest_candidates(
    task: ContextTask, newest: NewestMessages, budget: Limits
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the candidates of the hot tier, and the message to be answered where it is the last of
    them and too long for the budget.
    """
    candidates = _candidates(task, newest, newest.messages, "one of the newest turns")
    if is_said(newest.messages, task.message) and candidates[-1].tokens > budget.hot:
        return candidates[:-1], candidates[-1:]
    return candidates, []


def _candidates(
    task: ContextTask, newest: NewestMessages, messages: Sequence[Message], reason: str
) -> list[Candidate]:
    weighing = task.weighing
    return [
        weighing.candidate(
            task.conversation_id,
            it,
            reason,
            weighing.similarity(it),
            newest.summaries.get(it.turn_number, ""),
        )
        for it in messages
    ]


def _lines(*tiers: Packed) -> frozenset[int]:
    """Return the lines of the conversation's messages in these tiers. A turn of which its summary
    alone is shown may be recalled.
    """
    return frozenset(
        it.message.sequence for tier in tiers for it in tier.packed if not it.is_summary
    )


def _note_damage(degraded: dict[str, str], tier: str, lines: int) -> None:
    if lines:
        degraded[tier] = f"damaged and left out: {counted(lines, 'line')} of the transcript"


def _fitting(summary: str, room: int, form: Form) -> tuple[str, str]:
    """Return the summary, as much of it as there is room for, and what is to be said of that."""
    tokens = form.summary(summary)
    if tokens <= room:
        return summary, f"{tokens} tokens of the budget are the summary's" if summary else ""
    low, high = 0, min(len(summary), BYTES_PER_TOKEN * room)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if form.summary(f"{summary[:middle]}…") <= room else (low, middle - 1)
        )
    return (
        f"{summary[:low].rstrip()}…" if low else ""
    ), f"the summary of {tokens} tokens is cut to the budget"
