"""Builds a context: hot, warm and cold, one after the other, each with what those before it left of the budget.

A tier that fails is named, and the others stand.
"""

from dataclasses import dataclass, replace

from recollect_server.domain.anchors import Anchor
from recollect_server.domain.budget import BYTES_PER_TOKEN, estimate_tokens, message_bytes
from recollect_server.domain.context import Budget, Context, Dropped, GroupMessage, Packed, Source, Tier
from recollect_server.domain.deadline import UNLIMITED, Deadline
from recollect_server.domain.errors import IndexUnavailable, StorageUnavailable
from recollect_server.domain.packing import Recalling, pack_cold, pack_hot, pack_warm
from recollect_server.domain.relevance import Weights, words_of
from recollect_server.domain.routing import group_of
from recollect_server.services.anchors import Anchors
from recollect_server.services.context import own, past
from recollect_server.services.external.external import External
from recollect_server.services.recall.meaning import Meaning
from recollect_server.services.space.head import Head
from recollect_server.services.space.space import Space
from recollect_server.services.tiers import Tiers

_ANCHOR_TOKENS = 600  # of all anchors: the surest come first
_GROUP_MESSAGES = 20  # of other members of a group, at the most
_GROUP_TOKENS = 900  # of all of them
_GROUP_TEXT = 1000  # characters of one of them
_ASKED = 4000  # characters of a message that words are taken from


@dataclass(frozen=True, slots=True)
class Choosing:
    """How messages are weighed, and what may be recalled."""

    weights: Weights
    recalling: Recalling
    excerpt_tokens: int
    """Tokens of a recalled message, at the most."""


class ContextBuilder:
    """Builds contexts. Raises the errors of `domain.errors`; safe to call from any thread."""

    def __init__(
        self,
        space: Space,
        meaning: Meaning,
        anchors: Anchors,
        tiers: Tiers,
        choosing: Choosing,
        external: External,
        max_bytes: int,
    ) -> None:
        """`max_bytes` of one answer: no more are read of the conversation's own turns, nor packed."""
        self._space = space
        self._meaning = meaning
        self._anchors = anchors
        self._tiers = tiers
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
        include_group: bool = False,
        explain: bool = False,
    ) -> Context:
        """Return the context of an answer to a message in a conversation; on request with what others wrote in its group.

        `explain` names what was near to the message and scored too low to be recalled.

        Raises CallerGone, DeadlineExceeded.
        """
        deadline.check()
        budget = budget.settled()
        degraded: dict[str, str] = {}
        holding = self._anchors.holding()
        if holding.degraded:
            degraded["anchors"] = holding.degraded
        strengths: dict[tuple[str, int], float] = {}
        for anchor in holding.anchors:
            place = (anchor.conversation_id, anchor.sequence)
            strengths[place] = max(strengths.get(place, 0.0), anchor.confidence)
        asked = own.Asked(words_of(message[:_ASKED]), self._space.clock(), self._choosing.weights, strengths)
        head, hot, in_memory = self.hot(conversation_id, asked, budget.hot, degraded)
        deadline.check()
        warm, summary = self.warm(head, hot, asked, holding.anchors, budget, degraded)
        packed = {candidate.place for candidate in warm.packed}
        seen = {(it.conversation_id, it.sequence) for it in warm.dropped}
        hot = replace(hot, dropped=[it for it in hot.dropped if (it.conversation_id, it.sequence) not in packed | seen])
        room = max(0, min(budget.cold + warm.left, budget.total - hot.used - warm.used))
        deadline.check()
        lines = {it.message.sequence for it in (*hot.packed, *warm.packed)}
        newest = head.conversation.turn_count if head else 0
        shown = past.Shown(conversation_id, head.number if head else None, frozenset(lines), newest)
        recalled, cold, last = self.cold(head, shown, asked, message, room, degraded, deadline, explain=explain)
        deadline.check()
        anchors, left_out = _surest(holding.anchors)
        if left_out:
            warm = replace(warm, note=f"{warm.note}; {left_out} anchors are left out, the least sure".removeprefix("; "))
        group = self.group(head, degraded) if include_group else []
        condensed = self.condensed(head, degraded) if summary else 0
        context = Context(
            hot, warm, cold, anchors, summary, recalled.about, degraded, group=group,
            conversation_id=conversation_id, last=last, condensed=condensed,
        )  # fmt: skip
        context = _within(context, self._max_bytes)
        self._tiers.built(conversation_id, context, in_memory=in_memory)
        return context

    def group(self, head: Head | None, degraded: dict[str, str]) -> list[GroupMessage]:
        """Return the newest messages of the group's other members that there is room for, oldest first."""
        group = group_of(head.conversation.party) if head else ""
        if head is None or not group:
            return []
        try:
            written = self._external.in_group(head.conversation.channel, group, _GROUP_MESSAGES, _GROUP_TEXT)
        except (IndexUnavailable, StorageUnavailable) as error:
            degraded["group"] = str(error)
            return []
        chosen: list[GroupMessage] = []
        room = _GROUP_TOKENS
        for it in written:
            for message in (it.message, replace(it.message, attachments=())):
                shown = GroupMessage(it.communication, message)
                if shown.tokens <= room:
                    room -= shown.tokens
                    chosen.append(shown)
                    break
        return chosen[::-1]

    def hot(
        self, conversation_id: str, asked: own.Asked, budget: int, degraded: dict[str, str]
    ) -> tuple[Head | None, Packed, bool]:
        """The hot tier alone, with the end of the conversation, and whether it was in memory."""
        head: Head | None = None
        try:
            with self._space.locks.hold(conversation_id):
                head = self._space.head(conversation_id)
                turns, in_memory = own.newest(self._space, head, self._max_bytes)
        except StorageUnavailable as error:
            degraded["hot"] = str(error)
            return head, Packed(Tier.HOT, budget, note=f"it cannot be read: {error}"), False
        _note_damage(degraded, "hot", turns.damaged)
        candidates = [asked.candidate(conversation_id, message, "one of the newest turns") for message in turns.messages]
        return head, pack_hot(candidates, budget), in_memory

    def warm(
        self, head: Head | None, hot: Packed, asked: own.Asked, anchors: list[Anchor], budget: Budget, degraded: dict[str, str]
    ) -> tuple[Packed, str]:
        """The warm tier alone, with what is given of the summary."""
        room = max(0, min(budget.warm + hot.left, budget.total - hot.used))
        if head is None:
            degraded["warm"] = degraded["hot"]
            return Packed(Tier.WARM, room, note=f"it cannot be read: {degraded['hot']}"), ""
        summary, note = _fitting(head.conversation.compression_summary, room)
        reserved = estimate_tokens(summary)
        there = {candidate.message.sequence for candidate in hot.packed}
        try:
            turns, reasons = own.earlier(self._space, head, anchors, self._max_bytes)
        except StorageUnavailable as error:
            degraded["warm"] = str(error)
            return Packed(Tier.WARM, room, note=f"it cannot be read: {error}", reserved=reserved), summary
        _note_damage(degraded, "warm", turns.damaged)
        candidates = [
            asked.candidate(head.conversation.id, message, reasons.get(message.turn_number, "an earlier turn"))
            for message in turns.messages
            if message.sequence not in there  # what was too long for the hot tier may not be for this one
        ]
        if not candidates:
            note = "; ".join(part for part in (note, "there are no earlier turns") if part)
        return replace(pack_warm(candidates, room, reserved), note=note), summary

    def condensed(self, head: Head | None, degraded: dict[str, str]) -> int:
        """Return how many messages the summary of a conversation stands for; 0 where the index cannot tell."""
        if head is None or head.number is None:
            return 0
        try:
            return self._space.index.count_through(head.number, head.conversation.compressed_through)
        except IndexUnavailable as error:
            degraded.setdefault("warm", str(error))
            return 0

    def cold(
        self,
        head: Head | None,
        shown: past.Shown,
        asked: own.Asked,
        message: str,
        room: int,
        degraded: dict[str, str],
        deadline: Deadline = UNLIMITED,
        *,
        explain: bool = False,
    ) -> tuple[past.Past, Packed, Source | None]:
        """Return the cold tier alone, of `room` tokens, and the conversation before this one where its abbreviation is shown.

        Raises CallerGone, DeadlineExceeded.
        """
        choosing = self._choosing
        try:
            index = self._space.index
            last = past.last_conversation(self._space, head, room) if head else None
            left = room - last.tokens if last else room
            if note := past.why_not(message, left):
                return past.Past(), Packed(Tier.COLD, room, note=note, reserved=room - left), last
            if shown.number is None:  # the transcript or the index was of no help for it, and other lines of it may be found
                shown = replace(shown, number=index.numbers([shown.conversation_id]).get(shown.conversation_id))
            if doubt := self._space.doubt:
                degraded["cold"] = doubt
            recalled = past.recall(
                self._space, self._meaning, self._tiers, asked, message, shown, left, choosing.recalling,
                choosing.excerpt_tokens, deadline, explain=explain,
            )  # fmt: skip
        except (IndexUnavailable, StorageUnavailable) as error:
            degraded["cold"] = str(error)
            return past.Past(), Packed(Tier.COLD, room, note=f"it cannot be searched: {error}"), None
        degraded |= recalled.degraded
        packed = pack_cold(recalled.turns, left, choosing.recalling, recalled.about, shown.conversation_id)
        if last and any(it.conversation_id == last.conversation_id for it in packed.packed):
            last, left = None, room  # its abbreviation stands beside what is recalled of it
        dropped, considered = [*packed.dropped, *recalled.dropped], packed.considered + len(recalled.dropped)
        reserved = packed.reserved + room - left
        packed = replace(packed, budget=room, reserved=reserved, note=recalled.note, dropped=dropped, considered=considered)
        return recalled, packed, last


def _within(context: Context, max_bytes: int) -> Context:
    """Return the context, cut to so many bytes. The newest message always stays.

    Cold messages go first, the least relevant before others, then warm and hot ones, the oldest first. Each message counts twice,
    for it stands in what is rendered too.
    """
    sizes = {it.place: 2 * message_bytes(it.message) for packed in context.tiers for it in packed.packed}
    total = sum(sizes.values()) + 2 * len(context.summary.encode())
    if total <= max_bytes:
        return context
    going = [*context.cold.packed[::-1], *context.warm.packed, *context.hot.packed]
    gone: set[tuple[str, int]] = set()
    for candidate in going[:-1]:
        if total <= max_bytes:
            break
        total -= sizes[candidate.place]
        gone.add(candidate.place)

    def cut(packed: Packed) -> Packed:
        reason = f"the answer would have more than {max_bytes} bytes"
        out = [it for it in packed.packed if it.place in gone]
        dropped = [Dropped(it.conversation_id, it.message.sequence, packed.tier, it.tokens, reason) for it in out]
        return replace(packed, packed=[it for it in packed.packed if it.place not in gone], dropped=[*dropped, *packed.dropped])

    return replace(context, hot=cut(context.hot), warm=cut(context.warm), cold=cut(context.cold), has_more=True)


def _note_damage(degraded: dict[str, str], tier: str, lines: int) -> None:
    if lines:
        degraded[tier] = f"{lines} lines of the transcript are damaged and left out"


def _fitting(summary: str, room: int) -> tuple[str, str]:
    """The summary, as much of it as there is room for, and what is to be said of that."""
    tokens = estimate_tokens(summary)
    if tokens <= room:
        return summary, f"{tokens} tokens of the budget are the summary's" if summary else ""
    cut = summary.encode()[: max(0, room * BYTES_PER_TOKEN - 3)].decode(errors="ignore")
    return (f"{cut}…" if cut else ""), f"the summary of {tokens} tokens is cut to the budget"


def _surest(anchors: list[Anchor]) -> tuple[list[Anchor], int]:
    """The surest anchors that there is room for, by key, and how many are left out."""
    chosen: list[Anchor] = []
    left = _ANCHOR_TOKENS
    for anchor in sorted(anchors, key=lambda it: (-it.confidence, -it.create_time, it.key)):
        tokens = estimate_tokens(f"{anchor.key}: {anchor.value}")
        if tokens <= left:
            left -= tokens
            chosen.append(anchor)
    return sorted(chosen, key=lambda it: it.key), len(anchors) - len(chosen)
