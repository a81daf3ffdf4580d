"""Builds a context: hot, warm and cold, one after the other, each with what those before it left of
the budget.

A tier that fails is named, and the others stand.
"""

from dataclasses import dataclass, field, replace

from recollect_server.domain.anchors import Anchor
from recollect_server.domain.budget import BYTES_PER_TOKEN, estimate_tokens, message_bytes
from recollect_server.domain.context import (
    Budget,
    Candidate,
    Context,
    Dropped,
    GroupMessage,
    Packed,
    Source,
    Tier,
    Unit,
    cost,
)
from recollect_server.domain.deadline import UNLIMITED, Deadline
from recollect_server.domain.errors import IndexUnavailable, StorageUnavailable
from recollect_server.domain.live import Live
from recollect_server.domain.rendering.form import Form
from recollect_server.domain.rendering.messages import is_said
from recollect_server.domain.routing import group_of
from recollect_server.domain.telemetry import Count
from recollect_server.services.anchors import Anchors
from recollect_server.services.context import own, past
from recollect_server.services.context.packing import (
    Preference,
    Recalling,
    pack_cold,
    pack_hot,
    pack_warm,
)
from recollect_server.services.context.recent_turns import RecentTurns
from recollect_server.services.context.relevance import Weights, words_of
from recollect_server.services.external.external import External
from recollect_server.services.recall.meaning import Meaning
from recollect_server.services.space.events import Appended, Reloaded, Suspended
from recollect_server.services.space.space import Space
from recollect_server.services.space.state import ConversationState
from recollect_server.services.tiers import Tiers

_ANCHOR_TOKENS, _ANCHOR_SHARE = 600, 5
"""Tokens of all anchors at the most, and by what the total is divided for them; the surest come
first.
"""
_GROUP_MESSAGES = 20  # of other members of a group, at the most
_GROUP_TOKENS, _GROUP_SHARE = 900, 5  # of all of them, as for anchors
_ANSWER_SHARE = 4
"""By what the total is divided for the message to be answered. A longer one does not take the room
of everything else.
"""
_GROUP_TEXT = 1000  # characters of one of them
_LENT = 0.75
"""Share of the warm turns' tokens that recalled turns may take where they are likely to help and
need more than the cold tier's budget.
"""
_ASKED = 4000  # characters of a message that words are taken from


@dataclass(frozen=True, slots=True)
class Choosing:
    """The rules of choosing: weights of messages, limits of recall, numbers of turns."""

    weights: Weights
    recalling: Recalling
    excerpt_tokens: int
    """Tokens of a recalled message, at the most."""
    window: own.Window = field(default_factory=own.Window)


class ContextBuilder:
    """Builds contexts. Raises the errors of `domain.errors`; safe to call from any thread."""

    def __init__(
        self,
        space: Space,
        meaning: Meaning,
        anchors: Anchors,
        tiers: Tiers,
        choosing: Live[Choosing],
        external: External,
        max_bytes: int,
    ) -> None:
        """`max_bytes` of one answer: no more are read of the conversation's own turns, nor
        packed.
        """
        self._space = space
        self._meaning = meaning
        self._anchors = anchors
        self._tiers = tiers
        self._recent = RecentTurns(choosing.now.window.hot_turns, tiers.left_memory)
        space.subscribe(Appended, self._recent.follow)
        space.subscribe(Reloaded, self._recent.forget)
        space.subscribe(Suspended, self._recent.clear)
        self._choosing = choosing
        self._external = external
        self._max_bytes = max_bytes

    def build(
        self,
        conversation_id: str,
        message: str,
        budget: Budget,
        deadline: Deadline = UNLIMITED,
        *,
        form: Form | None = None,
        include_group: bool = False,
        explain: bool = False,
    ) -> Context:
        """Return the context of an answer to a message in a conversation; on request with what
        others wrote in its group.

        All of it, as `form` writes it, takes at most the total of the budget. `explain` names what
        was near to the message and scored too low to be recalled. Raises CallerGone,
        DeadlineExceeded.
        """
        deadline.check()
        form = form or Form()
        is_cold_set = bool(budget.cold)
        budget = budget.settled()
        degraded: dict[str, str] = {}
        holding = self._anchors.holding()
        if holding.degraded:
            degraded["anchors"] = holding.degraded
        strengths: dict[tuple[str, int], float] = {}
        for anchor in holding.anchors:
            place = (anchor.conversation_id, anchor.sequence)
            strengths[place] = max(strengths.get(place, 0.0), anchor.confidence)
        weighing = own.Weighing(
            words_of(message[:_ASKED]),
            self._space.clock(),
            self._choosing.now.weights,
            strengths,
            form,
        )

        total = budget.total
        answer = min(form.answer(message), total // _ANSWER_SHARE)
        anchors, left_out = _surest(
            holding.anchors, min(_ANCHOR_TOKENS, total // _ANCHOR_SHARE), form
        )
        around = form.frame("context") + form.frame("conversation") + answer
        of_anchors = form.frame("anchors") + sum(map(form.anchor, anchors)) if anchors else 0
        for_group = min(_GROUP_TOKENS, total // _GROUP_SHARE) if include_group else 0
        budget = budget.within(max(0, total - around - of_anchors - for_group))

        head, hot, in_memory = self.hot(conversation_id, weighing, budget, degraded, message)
        deadline.check()
        earlier = self.earlier(head, hot, weighing, holding.anchors, degraded)
        of_warm = max(0, min(budget.warm + budget.hot, budget.total) - hot.used)
        warm, summary = earlier.packed(of_warm)
        deadline.check()
        group = self.group(head, degraded, form, for_group) if include_group else []
        of_group = form.frame("group") + sum(map(form.group_message, group)) if group else 0
        left = budget.total + for_group - of_group - hot.used - warm.used - form.frame("recalled")
        room = max(0, min(budget.cold + warm.left, left))
        deadline.check()
        lent = 0 if is_cold_set else int(_LENT * sum(it.tokens for it in warm.packed))
        # Turns that may have to make room for recall can be recalled themselves.
        staying = earlier.packed(max(0, warm.used - lent))[0] if lent else warm
        newest = head.conversation.turn_count if head else 0
        number = head.number if head else None
        lines = _lines(hot, staying)
        giving_way = _lines(warm) - lines
        shown = past.Shown(conversation_id, number, lines, giving_way, newest)
        recalled, last = self.recall(
            head, shown, weighing, message, room + lent, degraded, deadline, own_room=budget.cold,
            explain=explain,
        )  # fmt: skip
        cold = self.cold(recalled, last, room + lent, _lines(hot, warm), conversation_id, form)
        # what fits the message is worth more than all of the earlier turns
        if (excess := cold.used - room) > 0:
            all_of_it = warm.used
            warm, summary = earlier.packed(max(0, warm.used - excess))
            room += all_of_it - warm.used
            cold = self.cold(recalled, last, room, _lines(hot, warm), conversation_id, form)
        if last and any(it.conversation_id == last.conversation_id for it in cold.packed):
            last = None  # its abbreviation stands beside what is recalled of it
        deadline.check()
        if left_out:
            note = f"the least sure anchors are left out: {left_out}"
            warm = replace(warm, note=f"{warm.note}; {note}".removeprefix("; "))
        begins = head.conversation.compressed_through + 1 if head else 1
        condensed = self.condensed(head, degraded) if summary else 0
        context = Context(
            hot, warm, cold, anchors, summary, recalled.about, degraded, group=group, begins=begins,
            conversation_id=conversation_id, last=last, condensed=condensed,
        )  # fmt: skip
        context = _within(context, self._max_bytes)
        context = rendered_within(context, form, message, total)
        self._tiers.built(conversation_id, context, in_memory=in_memory)
        for part in degraded:
            self._space.telemetry.count(Count.DEGRADED, label=part)
        return context

    def group(
        self, head: ConversationState | None, degraded: dict[str, str], form: Form, room: int
    ) -> list[GroupMessage]:
        """Return the newest messages of the group's other members that there is room for, oldest
        first.
        """
        group = group_of(head.conversation.party) if head else ""
        if head is None or not group:
            return []
        if self._space.is_reading:
            degraded["group"] = self._space.doubt
            return []
        try:
            written = self._external.in_group(
                head.conversation.channel, group, _GROUP_MESSAGES, _GROUP_TEXT
            )
        except (IndexUnavailable, StorageUnavailable) as error:
            degraded["group"] = str(error)
            return []
        chosen: list[GroupMessage] = []
        room -= form.frame("group")
        for it in written:
            for message in (it.message, replace(it.message, attachments=())):
                shown = GroupMessage(it.communication, message)
                if (tokens := max(shown.tokens, form.group_message(shown))) <= room:
                    room -= tokens
                    chosen.append(shown)
                    break
        return chosen[::-1]

    def hot(
        self,
        conversation_id: str,
        weighing: own.Weighing,
        budget: Budget,
        degraded: dict[str, str],
        message: str = "",
    ) -> tuple[ConversationState | None, Packed, bool]:
        """Return the hot tier alone, with the end of the conversation, and whether it was in
        memory.

        `message` is to be answered: where the conversation ends with it and the budget does not
        hold it, it is left out.
        """
        head: ConversationState | None = None
        window = self._choosing.now.window
        try:
            with self._space.reading(conversation_id) as head:
                turns, in_memory = own.newest(
                    self._space, self._recent, head, self._max_bytes, window.hot_turns
                )
        except StorageUnavailable as error:
            degraded["hot"] = str(error)
            return head, Packed(Tier.HOT, budget.hot, note=f"it cannot be read: {error}"), False
        _note_damage(degraded, "hot", turns.damaged)
        candidates = [
            weighing.candidate(
                conversation_id, it, "one of the newest turns", weighing.similarity(it)
            )
            for it in turns.messages
        ]
        too_long = []
        if is_said(turns.messages, message) and candidates[-1].tokens > budget.hot:
            too_long = [candidates.pop()]
        summary = min(
            weighing.form.summary(head.conversation.compression_summary), budget.warm // 2
        )
        lent = 0 if budget.is_hot_set else max(0, budget.warm - summary)
        hot = pack_hot(candidates, budget.hot, lent, window.hot_turns, weighing.form)
        reason = "it is the message to be answered, and longer than the budget of this tier"
        dropped = [
            Dropped(it.conversation_id, it.message.sequence, Tier.HOT, it.tokens, reason)
            for it in too_long
        ]
        return (
            head,
            replace(hot, dropped=[*hot.dropped, *dropped], considered=len(turns.messages)),
            in_memory,
        )

    def earlier(
        self,
        head: ConversationState | None,
        hot: Packed,
        weighing: own.Weighing,
        anchors: list[Anchor],
        degraded: dict[str, str],
    ) -> "_Earlier":
        """Return the turns before the hot ones, to be packed into the warm tier."""
        if head is None:
            degraded["warm"] = degraded["hot"]
            return _Earlier("", weighing.form, trouble=f"it cannot be read: {degraded['hot']}")
        summary = head.conversation.compression_summary
        try:
            turns, preference = own.earlier(
                self._space, head, anchors, self._max_bytes, self._choosing.now.window
            )
        except StorageUnavailable as error:
            degraded["warm"] = str(error)
            return _Earlier(summary, weighing.form, trouble=f"it cannot be read: {error}")
        _note_damage(degraded, "warm", turns.damaged)
        oldest_hot = min((it.message.turn_number for it in hot.packed), default=0)
        left_out = {it.sequence for it in hot.dropped}
        candidates: list[Candidate] = []
        similarity: dict[int, float] = {}  # of each turn
        for it in turns.messages:
            turn = it.turn_number
            if (not oldest_hot or turn < oldest_hot) and it.sequence not in left_out:
                near = weighing.similarity(it)
                similarity[turn] = max(similarity.get(turn, 0.0), near)
                candidates.append(
                    weighing.candidate(head.conversation.id, it, "an earlier turn", near)
                )
        preference = replace(preference, similarity=similarity)
        return _Earlier(summary, weighing.form, candidates, preference)

    def warm(
        self,
        head: ConversationState | None,
        hot: Packed,
        weighing: own.Weighing,
        anchors: list[Anchor],
        budget: Budget,
        degraded: dict[str, str],
    ) -> tuple[Packed, str]:
        """Return the warm tier alone, with what is given of the summary."""
        room = max(0, min(budget.warm + budget.hot, budget.total) - hot.used)
        return self.earlier(head, hot, weighing, anchors, degraded).packed(room)

    def condensed(self, head: ConversationState | None, degraded: dict[str, str]) -> int:
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
            degraded.setdefault("warm", str(error))
            return 0

    def recall(
        self,
        head: ConversationState | None,
        shown: past.Shown,
        weighing: own.Weighing,
        message: str,
        room: int,
        degraded: dict[str, str],
        deadline: Deadline = UNLIMITED,
        *,
        own_room: int,
        explain: bool,
    ) -> tuple[past.Past, Source | None]:
        """Return the turns that may be recalled into `room` tokens, and the conversation before
        this one where its abbreviation is shown. More than `own_room` is used where recall is
        likely to help.

        Raises CallerGone, DeadlineExceeded.
        """
        choosing = self._choosing.now
        try:
            index = self._space.index
            last = past.last_conversation(self._space, head, room, weighing.form) if head else None
            left = room - weighing.form.source(last) if last else room
            if note := past.why_not(message, left):
                return past.Past(note=note), last
            # the transcript or the index was of no help for it, and other lines of it may be found
            if shown.number is None:
                shown = replace(
                    shown,
                    number=index.conversations.numbers([shown.conversation_id]).get(
                        shown.conversation_id
                    ),
                )
            if doubt := self._space.doubt:
                degraded["cold"] = doubt
            recalled = past.recall(
                self._space, self._meaning, self._tiers, weighing, message, shown, left, choosing.recalling,
                choosing.excerpt_tokens, deadline, own_budget=own_room, explain=explain,
            )  # fmt: skip
        except (IndexUnavailable, StorageUnavailable) as error:
            degraded["cold"] = str(error)
            return past.Past(note=f"it cannot be searched: {error}"), None
        degraded |= recalled.degraded
        return recalled, last

    def cold(
        self,
        recalled: past.Past,
        last: Source | None,
        room: int,
        lines: frozenset[int],
        conversation_id: str,
        form: Form,
    ) -> Packed:
        """Return the cold tier, of `room` tokens: the recalled turns without those lines of the
        conversation that other tiers show.
        """
        of_last = form.source(last) if last else 0
        left = max(0, room - of_last)
        packed = pack_cold(
            past.unshown(recalled.turns, conversation_id, lines), min(recalled.budget, left),
            self._choosing.now.recalling, recalled.about, conversation_id, form,
            best_at_most=left,
        )  # fmt: skip
        if last and any(it.conversation_id == last.conversation_id for it in packed.packed):
            of_last = 0  # its abbreviation stands beside what is recalled of it
        return replace(
            packed,
            budget=room,
            reserved=packed.reserved + of_last,
            note=recalled.note,
            dropped=[*packed.dropped, *recalled.dropped],
            considered=packed.considered + len(recalled.dropped),
        )


@dataclass(frozen=True, slots=True)
class _Earlier:
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


def _lines(*tiers: Packed) -> frozenset[int]:
    """Return the lines of the conversation's messages in these tiers."""
    return frozenset(it.message.sequence for tier in tiers for it in tier.packed)


def _within(context: Context, max_bytes: int) -> Context:
    """Return the context, cut to so many bytes. The newest message always stays.

    Cold messages go first, the least relevant before others, then turns of the conversation itself,
    the oldest first, and of the newest turn its oldest messages. Each message counts twice, for it
    stands in what is rendered too.
    """
    sizes = {
        it.place: 2 * message_bytes(it.message) for packed in context.tiers for it in packed.packed
    }
    total = sum(sizes.values()) + 2 * len(context.summary.encode())
    if total <= max_bytes:
        return context
    removed: set[tuple[str, int]] = set()
    for unit in _least_wanted(context):
        if total <= max_bytes:
            break
        total -= sum(sizes[it.place] for it in unit)
        removed |= {it.place for it in unit}
    return replace(
        _without(context, removed, f"the answer would have more than {max_bytes} bytes"),
        has_more=True,
    )


def rendered_within(context: Context, form: Form, message: str, total: int) -> Context:
    """Return the context with its text, which takes at most `total` tokens.

    A message to be answered that is longer than its share makes the text longer by what it has
    more. What each part was charged makes the text fit; where that was too little, what is least
    wanted goes: recalled messages, the last conversation, what the group wrote, the oldest turns,
    anchors, and last the summary.
    """
    answer = form.answer(message)
    allowed = total + answer - min(answer, total // _ANSWER_SHARE)
    charged = sum(packed.used for packed in context.tiers) + sum(map(form.anchor, context.anchors))
    charged += sum(map(form.group_message, context.group))

    def shown(it: Context) -> Context:
        text = form.render(it, message)
        return replace(
            it, rendered=text, rendered_tokens=estimate_tokens(text) if form.has_text else charged
        )

    context = shown(context)
    if not form.has_text or context.rendered_tokens <= allowed:
        return context
    reason = f"the text would have more than {allowed} tokens"
    units = iter(_least_wanted(context))
    while context.rendered_tokens > allowed:
        if not context.cold.packed and context.last:
            context = shown(replace(context, last=None))
        elif not context.cold.packed and context.group:
            context = shown(replace(context, group=context.group[1:]))
        elif unit := next(units, None):
            going, excess = (
                {it.place for it in unit},
                context.rendered_tokens - allowed - cost(unit),
            )
            while (
                excess > 0 and len(going) < len(context.cold.packed) and (unit := next(units, None))
            ):
                going |= {it.place for it in unit}
                excess -= cost(unit)
            context = shown(_without(context, going, reason))
        elif context.anchors:
            least = min(context.anchors, key=lambda it: it.confidence)
            context = shown(
                replace(context, anchors=[it for it in context.anchors if it is not least])
            )
        elif context.summary:
            context = shown(replace(context, summary=""))
        elif own_turn := context.own_units():
            context = shown(_without(context, {it.place for it in own_turn[0]}, reason))
        else:
            return context
    return context


def _least_wanted(context: Context) -> list[Unit]:
    """Return what may be left out of a context, the least wanted first: everything but the newest
    message, and what it needs.
    """
    return [*([it] for it in context.cold.packed[::-1]), *context.own_units()[:-1]]


def _without(context: Context, removed: set[tuple[str, int]], reason: str) -> Context:
    """Return the context without these messages."""

    def cut(packed: Packed) -> Packed:
        out = [it for it in packed.packed if it.place in removed]
        dropped = [
            Dropped(it.conversation_id, it.message.sequence, packed.tier, it.tokens, reason)
            for it in out
        ]
        return replace(
            packed,
            packed=[it for it in packed.packed if it.place not in removed],
            dropped=[*dropped, *packed.dropped],
        )

    return replace(context, hot=cut(context.hot), warm=cut(context.warm), cold=cut(context.cold))


def _note_damage(degraded: dict[str, str], tier: str, lines: int) -> None:
    if lines:
        degraded[tier] = f"{lines} lines of the transcript are damaged and left out"


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


def _surest(anchors: list[Anchor], room: int, form: Form) -> tuple[list[Anchor], int]:
    """Return the surest anchors that there is room for, by key, and how many are left out."""
    chosen: list[Anchor] = []
    left = room - form.frame("anchors")
    for anchor in sorted(anchors, key=lambda it: (-it.confidence, -it.create_time, it.key)):
        tokens = form.anchor(anchor)
        if tokens <= left:
            left -= tokens
            chosen.append(anchor)
    return sorted(chosen, key=lambda it: it.key), len(anchors) - len(chosen)
