"""Builds a context: hot, warm and cold, one after the other, each with what those before it left of
the budget.

A tier that fails is named, and the others stand.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo

from recollect_server.anchors.log import Anchor
from recollect_server.anchors.service import Anchors
from recollect_server.context import recalled
from recollect_server.context.context import (
    About,
    Budget,
    Context,
    GroupMessage,
    Limits,
    Packed,
    Source,
    cost,
)
from recollect_server.context.counts import ContextCounts
from recollect_server.context.fitting import named_once, rendered_within, within_bytes
from recollect_server.context.following import as_said, asker_of, question_of, unanswered
from recollect_server.context.inquiry import (
    CallersParts,
    ContextTask,
    Inquiry,
    RecallDial,
    Weighing,
)
from recollect_server.context.own_tiers import Choosing, NewestMessages, Own, OwnTiers
from recollect_server.context.profile import UserProfile
from recollect_server.context.relevance import by_occasion, words_of
from recollect_server.context.rendering.form import Form
from recollect_server.context.rendering.messages import is_said
from recollect_server.kernel.domain.conversation import NO_SPLIT
from recollect_server.kernel.domain.errors import DataUnavailable, DeadlineExceeded, InvalidField
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.message import estimate_tokens
from recollect_server.kernel.domain.telemetry import Count
from recollect_server.kernel.domain.time import UNLIMITED, Deadline
from recollect_server.kernel.space.conversation_logs import ConversationState
from recollect_server.kernel.space.space import Space
from recollect_server.people.communication_service import External
from recollect_server.people.routing import group_of
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.model.statement import (
    ProfileStatement,
    StatementKind,
    as_shown,
    by_turns,
)

_ANCHOR_TOKENS, _ANCHOR_SHARE = 600, 5
"""Tokens of all anchors at the most, and by what the total is divided for them; the surest come
first.
"""
_GROUP_MESSAGES = 20  # of other members of a group, at the most
_GROUP_TOKENS, _GROUP_SHARE = 900, 5  # of all of them, as for anchors
_GROUP_TEXT = 1000  # characters of one of them
_LENT = 0.75
"""Share of the warm turns' tokens that recalled messages may take where they need more than the
cold tier's budget.
"""
_ASKED = 4000  # characters of a message that words are taken from


@dataclass(frozen=True, slots=True)
class _Shares:
    tiers: Limits
    """Rest of the total, which the tiers share."""
    group: int
    """Tokens of what others wrote in the group, at the most."""
    anchors: list[Anchor]
    """The anchors that there is room for."""
    left_out: int
    """Number of the others."""
    profile: list[ProfileStatement]
    """The statements that there is room for, in the order in which they are shown."""
    profile_left_out: int


class ContextBuilder:
    """Builds contexts. Raises `kernel.domain.errors`; safe to call from any thread."""

    def __init__(
        self,
        space: Space,
        meaning: Meaning,
        profile: UserProfile,
        anchors: Anchors,
        counts: ContextCounts,
        choosing: Live[Choosing],
        external: External,
        max_bytes: int,
    ) -> None:
        """`max_bytes` of one answer: no more are read of the conversation's own turns, nor
        packed.
        """
        self._space = space
        self._meaning = meaning
        self._profile = profile
        self._anchors = anchors
        self._counts = counts
        self._choosing = choosing
        self._own = OwnTiers(space, choosing, max_bytes)
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
        dial: RecallDial | None = None,
        explain: bool = False,
    ) -> Context:
        """Return the context of an answer to a message in a conversation, or in one that does not
        exist yet (an empty id); on request with what others wrote in its group. No message: the one
        that the conversation ends with, if a user wrote it. `query`: what is looked for instead of
        the message; `sender`: who wrote that. The dates in it, and those that are rendered, are of
        the zone. `parts` are what the caller decides itself.

        All of it, as `form` writes it, takes at most the total of the budget. `explain` names what
        was near to the message and scored too low to be recalled. The deadline is the search's:
        what it does not allow is named in `degraded`, and the rest stands. Raises CallerGone.
        """
        deadline.check_caller()
        self._meaning.question_at = time.monotonic()
        holding = self._anchors.holding()
        degraded = {"anchors": holding.degraded} if holding.degraded else {}
        newest = NewestMessages(None, trouble="there is no conversation yet")
        if conversation_id:
            newest = self._own.newest(conversation_id, degraded)
        elif not message.strip():
            raise InvalidField.of("message", "is empty, and there is no conversation")
        message = message if message.strip() else unanswered(newest.messages)
        asker = asker_of(message, newest, sender)
        question = query or question_of(message, newest.messages, asker)
        parts = parts or CallersParts()
        newest = newest.without(parts)
        weighing = Weighing(words_of(question[:_ASKED]), self._space.clock(), form or Form(), zone)
        task = ContextTask(conversation_id, message, question, weighing, deadline, degraded, parts)
        settled = budget.settled(self._choosing.now.budget)
        is_said_already = is_said(newest.messages, message)
        answered = message if is_said_already else as_said(message, asker)
        shares = _shares(
            settled,
            task,
            holding.anchors,
            answer=task.form.answer(answered),
            profile=self._profile_of(task, newest),
            include_group=include_group,
            is_said=is_said_already,
        )
        # what recall does not need, the turns of the conversation itself have
        spare = shares.tiers.cold if budget.cold is None and budget.warm is None else 0
        tiers = self._own.packed(task, newest, shares.tiers, spare)
        deadline.check_caller()
        group = self._group(task, tiers.head, shares.group) if include_group else []
        tiers, cold, about, last = self._with_past(
            task,
            tiers,
            shares,
            group,
            dial or self._choosing.now.dial,
            explain=explain,
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
            shares.profile,
            shares.profile_left_out,
            tiers.summary,
            about,
            task.degraded,
            group=group,
            conversation_id=conversation_id,
            last=last,
            now=weighing.now,
            zone=zone,
            condensed=self._own.condensed(task, head) if tiers.summary else 0,
            begins=head.conversation.compressed_through + 1 if head else 1,
            split=head.conversation.split if head else NO_SPLIT,
        )
        context = within_bytes(context, self._max_bytes)
        context = named_once(rendered_within(context, task.form, answered, settled.total))
        if conversation_id:
            self._counts.built(context, in_memory=tiers.in_memory)
        for part in task.degraded:
            self._space.telemetry.count(Count.DEGRADED, label=part)
        return context

    def _profile_of(self, task: ContextTask, newest: NewestMessages) -> list[ProfileStatement]:
        """Return the profile, in the order in which it gets room, without what the newest turns
        say anyway: of the instructions those first that govern the answer.
        """
        try:
            statements = self._profile.statements()
        except DataUnavailable as error:
            task.degraded["profile"] = str(error)
            return []
        shown = {(task.conversation_id, it.sequence) for it in newest.messages}
        statements = [it for it in statements if (it.conversation_id, it.sequence) not in shown]
        instructions = [it for it in statements if it.kind is StatementKind.INSTRUCTION]
        others = [it for it in statements if it.kind is not StatementKind.INSTRUCTION]
        return by_turns([*by_occasion(instructions, task.question[:_ASKED]), *others])

    def _with_past(
        self,
        task: ContextTask,
        tiers: Own,
        shares: _Shares,
        group: list[GroupMessage],
        dial: RecallDial,
        *,
        explain: bool,
    ) -> tuple[Own, Packed, Mapping[str, About], Source | None]:
        """Return the tiers of the conversation, which may have less than before, and the cold one;
        with what is said of the conversations that messages are recalled from, and the conversation
        before this one where its abbreviation is shown.
        """
        budget, left = shares.tiers, self._left(task, tiers, shares, group)
        room = max(0, min(budget.cold + tiers.warm.left, left)) if budget.cold else 0
        lent = int(_LENT * cost(tiers.warm.packed)) if budget.may_lend else 0
        past, last = self._recall(task, tiers, lent, room + lent, dial, explain=explain)
        if task.parts.include:
            try:
                past = recalled.with_included(
                    past, self._space, task, self._choosing.now.excerpt_tokens
                )
            except DataUnavailable as error:
                task.degraded["cold"] = str(error)
        cold, about = self._cold(task, past, last, room + lent, tiers)
        # what fits the message is worth more than all of the earlier turns
        excess = cold.used - min(room, left)
        if cold.used and excess > 0:
            before = tiers.warm.used
            tiers = tiers.with_warm(max(0, before - excess))
            room += before - tiers.warm.used
            cold, about = self._cold(task, past, last, room, tiers)
        if last and last.conversation_id in about:
            last = None  # its own words stand there
        own = {
            it.message.turn_number
            for it in cold.packed
            if it.conversation_id == task.conversation_id
        }
        tiers = tiers.without_summaries(own) if own else tiers
        return tiers, cold, about, last

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
        dial: RecallDial,
        *,
        explain: bool,
    ) -> tuple[recalled.Past, Source | None]:
        """Return the messages that may be recalled into `room` tokens, of which the warm tier lends
        `lent`, and the conversation before this one where its abbreviation is shown.

        Raises CallerGone.
        """
        choosing, form, degraded = self._choosing.now, task.form, task.degraded
        head = tiers.head
        last: Source | None = None
        try:
            index = self._space.index
            last = recalled.last_conversation(self._space, head, room, task) if head else None
            left = room - form.source(last) if last else room
            if note := recalled.why_not(task.message, self._meaning, left, dial):
                return recalled.Past(note=note), last
            shown = tiers.shown(task.conversation_id, lent)
            # the transcript or the index was of no help for it, and other lines of it may be found
            if shown.number is None:
                numbers = index.conversations.numbers([shown.conversation_id])
                shown = replace(shown, number=numbers.get(shown.conversation_id))
            if doubt := self._space.doubt:
                degraded["cold"] = doubt
            inquiry = Inquiry(task, shown, left, dial, choosing.excerpt_tokens, explain=explain)
            past = recalled.recall(self._space, self._meaning, inquiry)
        except DeadlineExceeded as error:
            degraded["cold"] = f"recall timed out: it had {error.seconds:.3g} s"
            return recalled.Past(note=degraded["cold"]), last
        except DataUnavailable as error:
            degraded["cold"] = str(error)
            return recalled.Past(note=f"it cannot be searched: {error}"), None
        degraded |= past.degraded
        return past, last

    def _cold(
        self, task: ContextTask, past: recalled.Past, last: Source | None, room: int, tiers: Own
    ) -> tuple[Packed, Mapping[str, About]]:
        """Return the cold tier, of `room` tokens, without what other tiers show; and what is said
        of its conversations.
        """
        own, form = task.conversation_id, task.form
        shown = {(own, line) for line in tiers.lines}
        of_last = form.source(last) if last else 0
        packed, about = recalled.pack_cold(past, max(0, room - of_last), own, form, shown)
        if last and last.conversation_id in about:
            of_last = 0
        return replace(packed, budget=room, reserved=packed.reserved + of_last), about


def _shares(
    budget: Limits,
    task: ContextTask,
    anchors: list[Anchor],
    *,
    answer: int,
    profile: list[ProfileStatement],
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
    statements = _fitting(profile, budget.profile, form)
    of_profile = form.frame("profile") + sum(map(form.statement, statements)) if statements else 0
    for_group = min(_GROUP_TOKENS, total // _GROUP_SHARE) if include_group else 0
    tiers = budget.within(max(0, total - around - of_anchors - of_profile - for_group))
    return _Shares(
        *(tiers, for_group, surest, left_out),
        as_shown(statements),
        len(profile) - len(statements) if budget.profile else 0,
    )


def _fitting(profile: list[ProfileStatement], room: int, form: Form) -> list[ProfileStatement]:
    """Return the statements that there is room for, of those that get it first."""
    chosen: list[ProfileStatement] = []
    room -= form.frame("profile")
    for it in profile:
        if (tokens := form.statement(it)) <= room:
            room -= tokens
            chosen.append(it)
    return chosen


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
