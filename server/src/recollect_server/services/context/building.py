"""Builds a context: hot, warm and cold, one after the other, each with what those before it left of
the budget.

A tier that fails is named, and the others stand.
"""

from dataclasses import dataclass, replace
from datetime import UTC, tzinfo

from recollect_server.domain.anchors import Anchor
from recollect_server.domain.budget import estimate_tokens
from recollect_server.domain.context import (
    Budget,
    Context,
    GroupMessage,
    Packed,
    Source,
)
from recollect_server.domain.conversation import NO_SPLIT
from recollect_server.domain.errors import (
    DataUnavailable,
    DeadlineExceeded,
)
from recollect_server.domain.live import Live
from recollect_server.domain.rendering.form import Form
from recollect_server.domain.rendering.messages import is_said
from recollect_server.domain.routing import group_of
from recollect_server.domain.telemetry import Count
from recollect_server.domain.time import UNLIMITED, Deadline
from recollect_server.services.anchors import Anchors
from recollect_server.services.context import past
from recollect_server.services.context.fitting import named_once, rendered_within, within_bytes
from recollect_server.services.context.following import as_said, asker_of, question_of, unanswered
from recollect_server.services.context.inquiry import ContextTask, Inquiry, Weighing
from recollect_server.services.context.own_tiers import Choosing, Own, OwnTiers
from recollect_server.services.context.packing import pack_cold
from recollect_server.services.context.parts import CallersParts
from recollect_server.services.context.relevance import words_of
from recollect_server.services.external.external import External
from recollect_server.services.recall.meaning import Meaning
from recollect_server.services.space.conversation_logs import ConversationState
from recollect_server.services.space.space import Space
from recollect_server.services.tiers import Tiers

_ANCHOR_TOKENS, _ANCHOR_SHARE = 600, 5
"""Tokens of all anchors at the most, and by what the total is divided for them; the surest come
first.
"""
_GROUP_MESSAGES = 20  # of other members of a group, at the most
_GROUP_TOKENS, _GROUP_SHARE = 900, 5  # of all of them, as for anchors
_GROUP_TEXT = 1000  # characters of one of them
_LENT = 0.75
"""Share of the warm turns' tokens that recalled turns may take where they are likely to help and
need more than the cold tier's budget.
"""
_ASKED = 4000  # characters of a message that words are taken from


@dataclass(frozen=True, slots=True)
class _Shares:
    tiers: Budget
    """Rest of the total, which the tiers share."""
    group: int
    """Tokens of what others wrote in the group, at the most."""
    anchors: list[Anchor]
    """The anchors that there is room for."""
    left_out: int
    """Number of the others."""


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
        self._choosing = choosing
        self._own = OwnTiers(space, choosing, tiers.left_memory, max_bytes)
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
        query: str = "",
        sender: str = "",
        parts: CallersParts | None = None,
        zone: tzinfo = UTC,
        include_group: bool = False,
        explain: bool = False,
    ) -> Context:
        """Return the context of an answer to a message in a conversation; on request with what
        others wrote in its group. No message: the one that the conversation ends with, if a user
        wrote it. `query`: what is looked for instead of the message; `sender`: who wrote that. The
        dates in it, and those that are rendered, are of the zone. `parts` are what the caller
        decides itself.

        All of it, as `form` writes it, takes at most the total of the budget. `explain` names what
        was near to the message and scored too low to be recalled. The deadline is the search's:
        what it does not allow is named in `degraded`, and the rest stands. Raises CallerGone.
        """
        deadline.check_caller()
        holding = self._anchors.holding()
        degraded = {"anchors": holding.degraded} if holding.degraded else {}
        newest = self._own.newest(conversation_id, degraded)
        message = message if message.strip() else unanswered(newest.messages)
        asker = asker_of(message, newest, sender)
        question = query or question_of(message, newest.messages, asker)
        parts = parts or CallersParts()
        newest = newest.without(parts)
        weighing = self._weighing(question, form or Form(), holding.anchors, zone)
        task = ContextTask(conversation_id, message, question, weighing, deadline, degraded, parts)
        settled = budget.settled(self._choosing.now.budget)
        is_said_already = is_said(newest.messages, message)
        answered = message if is_said_already else as_said(message, asker)
        shares = _shares(
            settled,
            task,
            holding.anchors,
            answer=task.form.answer(answered),
            include_group=include_group,
            is_said=is_said_already,
        )
        # what recall does not need, the turns of the conversation itself have
        may_lend = not budget.cold
        spare = shares.tiers.cold if may_lend and not budget.warm else 0
        tiers = self._own.packed(task, newest, shares.tiers, spare, holding.anchors)
        deadline.check_caller()
        group = self._group(task, tiers.head, shares.group) if include_group else []
        tiers, cold, recalled, last = self._with_past(
            task, tiers, shares, group, may_lend=may_lend, explain=explain
        )
        deadline.check_caller()
        left = self._left(task, tiers, shares, group) - cold.used
        tiers = self._own.grown(task, newest, shares.tiers, tiers, left)
        head, warm = tiers.head, tiers.warm
        if shares.left_out:
            note = f"the least sure anchors are left out: {shares.left_out}"
            warm = replace(warm, note=f"{warm.note}; {note}".removeprefix("; "))
        context = Context(
            tiers.hot,
            warm,
            cold,
            shares.anchors,
            tiers.summary,
            recalled.sources.about,
            task.degraded,
            group=group,
            conversation_id=conversation_id,
            last=last,
            now=weighing.now,
            zone=zone,
            condensed=self._own.condensed(task, head) if tiers.summary else 0,
            begins=head.conversation.compressed_through + 1 if head else 1,
            split=head.conversation.split if head else NO_SPLIT,
            known_sources=recalled.sources,
        )
        context = within_bytes(context, self._max_bytes)
        context = named_once(rendered_within(context, task.form, answered, settled.total))
        self._tiers.built(conversation_id, context, in_memory=tiers.in_memory)
        for part in task.degraded:
            self._space.telemetry.count(Count.DEGRADED, label=part)
        return context

    def _weighing(self, message: str, form: Form, anchors: list[Anchor], zone: tzinfo) -> Weighing:
        """Return the means to weigh messages for the one to be answered."""
        strengths: dict[tuple[str, int], float] = {}
        for anchor in anchors:
            place = (anchor.conversation_id, anchor.sequence)
            strengths[place] = max(strengths.get(place, 0.0), anchor.confidence)
        return Weighing(words_of(message[:_ASKED]), self._space.clock(), strengths, form, zone)

    def _with_past(
        self,
        task: ContextTask,
        tiers: Own,
        shares: _Shares,
        group: list[GroupMessage],
        *,
        may_lend: bool,
        explain: bool,
    ) -> tuple[Own, Packed, past.Past, Source | None]:
        """Return the tiers of the conversation, which may have less than before, and the cold one;
        with what was recalled, and the conversation before this one where its abbreviation is
        shown.
        """
        budget, left = shares.tiers, self._left(task, tiers, shares, group)
        room = max(0, min(budget.cold + tiers.warm.left, left))
        of_warm = sum(it.tokens for it in tiers.warm.packed)
        lent = min(of_warm, max(budget.cold - room, int(_LENT * of_warm))) if may_lend else 0
        recalled, last = self._recall(
            task,
            tiers,
            lent,
            room + lent,
            own_room=budget.cold,
            explain=explain,
        )
        if task.parts.include:
            try:
                recalled = past.with_included(
                    recalled, self._space, task, self._choosing.now.excerpt_tokens
                )
            except DataUnavailable as error:
                task.degraded["cold"] = str(error)
        cold = self._cold(task, recalled, last, room + lent, tiers.lines)
        # what fits the message is worth more than all of the earlier turns
        excess = cold.used - min(room, left)
        if cold.used and excess > 0:
            before = tiers.warm.used
            tiers = tiers.with_warm(max(0, before - excess))
            room += before - tiers.warm.used
            cold = self._cold(task, recalled, last, room, tiers.lines)
        if last and any(it.conversation_id == last.conversation_id for it in cold.packed):
            last = None  # its abbreviation stands beside what is recalled of it
        own = {
            it.message.turn_number
            for it in cold.packed
            if it.conversation_id == task.conversation_id
        }
        tiers = tiers.without_summaries(own) if own else tiers
        return tiers, cold, recalled, last

    def _left(
        self, task: ContextTask, tiers: Own, shares: _Shares, group: list[GroupMessage]
    ) -> int:
        """Return the tokens of the total that the conversation itself and its group leave."""
        form = task.form
        of_group = form.frame("group") + sum(map(form.group_message, group)) if group else 0
        return shares.tiers.total + shares.group - of_group - tiers.used - form.frame("recalled")

    def _group(
        self, task: ContextTask, head: ConversationState | None, room: int
    ) -> list[GroupMessage]:
        """Return the newest messages of the group's other members that there is room for, oldest
        first.
        """
        form, degraded = task.form, task.degraded
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
        except DataUnavailable as error:
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

    def _recall(
        self,
        task: ContextTask,
        tiers: Own,
        lent: int,
        room: int,
        *,
        own_room: int,
        explain: bool,
    ) -> tuple[past.Past, Source | None]:
        """Return the turns that may be recalled into `room` tokens, of which the warm tier lends
        `lent`, and the conversation before this one where its abbreviation is shown. More than
        `own_room` is used where recall is likely to help.

        Raises CallerGone.
        """
        choosing, form, degraded = self._choosing.now, task.form, task.degraded
        head = tiers.head
        last: Source | None = None
        try:
            index = self._space.index
            last = past.last_conversation(self._space, head, room, task) if head else None
            left = room - form.source(last) if last else room
            if note := past.why_not(task.message, left):
                return past.Past(note=note), last
            shown = tiers.shown(task.conversation_id, lent)
            # the transcript or the index was of no help for it, and other lines of it may be found
            if shown.number is None:
                numbers = index.conversations.numbers([shown.conversation_id])
                shown = replace(shown, number=numbers.get(shown.conversation_id))
            if doubt := self._space.doubt:
                degraded["cold"] = doubt
            inquiry = Inquiry(
                task,
                shown,
                left,
                own_room,
                choosing.recalling,
                choosing.excerpt_tokens,
                explain=explain,
            )
            recalled = past.recall(self._space, self._meaning, self._tiers, inquiry)
        except DeadlineExceeded as error:
            degraded["cold"] = f"recall timed out: it had {error.seconds:.3g} s"
            return past.Past(note=degraded["cold"]), last
        except DataUnavailable as error:
            degraded["cold"] = str(error)
            return past.Past(note=f"it cannot be searched: {error}"), None
        degraded |= recalled.degraded
        return recalled, last

    def _cold(
        self,
        task: ContextTask,
        recalled: past.Past,
        last: Source | None,
        room: int,
        lines: frozenset[int],
    ) -> Packed:
        """Return the cold tier, of `room` tokens: the recalled turns without those lines of the
        conversation that other tiers show.
        """
        of_last = task.form.source(last) if last else 0
        left = max(0, room - of_last)
        packed = pack_cold(
            past.unshown(recalled.turns, task.conversation_id, lines),
            min(recalled.budget, left),
            self._choosing.now.recalling,
            recalled.sources,
            task.form,
            included=past.unshown(recalled.included, task.conversation_id, lines),
            best_at_most=left,
        )
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


def _shares(
    budget: Budget,
    task: ContextTask,
    anchors: list[Anchor],
    *,
    answer: int,
    include_group: bool,
    is_said: bool,
) -> _Shares:
    """Return the parts of a settled budget: the message to be answered, of `answer` tokens, the
    anchors and the group have theirs before the tiers.
    """
    form, total = task.form, budget.total
    if is_said and answer <= budget.hot:
        answer = 0  # it is the newest turn
    surest, left_out = _surest(anchors, min(_ANCHOR_TOKENS, total // _ANCHOR_SHARE), form)
    around = form.frame("context") + form.frame("conversation") + answer
    if form.has_text and task.weighing.zone is not UTC:
        around += estimate_tokens(str(task.weighing.zone)) + 1  # it stands beside what now is
    of_anchors = form.frame("anchors") + sum(map(form.anchor, surest)) if surest else 0
    for_group = min(_GROUP_TOKENS, total // _GROUP_SHARE) if include_group else 0
    tiers = budget.within(max(0, total - around - of_anchors - for_group))
    return _Shares(tiers, for_group, surest, left_out)


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
