"""Retention: conversations that rules delete or unindex by themselves, and communications with
third parties that they delete, each with a receipt.

Off without a rule. A conversation is idle since its newest message (`update_time`); those that are
pinned are never deleted, and count towards the bounds of a rule. Each is deleted as Delete does, so
streams report it, and its text is gone from every file.

The receipt is written when it is decided, under the conversation's lock, before anything goes: none
is ever missing. A server that is killed right then deletes the conversation in its next pass, as
long as it is still idle. If another server writes to it or deletes it first, a line withdraws the
receipt, and `receipts` leaves both out.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

import orjson
import structlog

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.errors import (
    CommunicationNotFound,
    ConversationNotFound,
    ConversationPinned,
    StorageUnavailable,
)
from recollect_server.kernel.domain.filters import Filter, PageEnd
from recollect_server.kernel.domain.ids import is_communication_id
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.erase.deletion import DELETE_ANCHORS, KEEP_ANCHORS, NotConfirmed
from recollect_server.kernel.index.derived import Size
from recollect_server.kernel.log.codec import NUMBER, TEXT, TIME, Codec, Field
from recollect_server.kernel.log.files import read_file, write_private
from recollect_server.kernel.log.ledger import Ledger
from recollect_server.kernel.log.store import (
    RETENTION,
    LogConflict,
    LogStore,
    Purpose,
    has_conversation,
    is_taken,
)
from recollect_server.kernel.space.space import Space
from recollect_server.people.communication import Communication, CommunicationFilter, Trust
from recollect_server.people.communication_table import external_of
from recollect_server.retention.rule import RetentionReceipt, RetentionRule, Retired

log = structlog.get_logger("recollect.retention")

_JUMP = 3_600_000
"""Milliseconds that the clock is ahead of a steady one, from which somebody set it."""
_LONGER = 100
"""Factor of the grace of a new rule, and after a jump of the clock ahead."""
_FIRST, _MOST_AT_FIRST = 3_600_000, 100
"""Milliseconds behind the grace in which no more conversations go."""
_PART = 500  # conversations of one query
_UNITS = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000))
_WITHDRAWN = ""
"""Rule of a line that withdraws the receipt before it of the same conversation."""


_RETENTION = Codec(
    RetentionReceipt,
    Field("conversation", TEXT, "retired.conversation_id"),
    Field("channel", TEXT, "retired.channel"),
    Field("updated", TIME, "retired.update_time"),
    Field("bytes", NUMBER, "retired.bytes"),
    Field("rule", TEXT, "retired.rule"),
    Field("reason", TEXT, "retired.reason"),
    Field("timestamp", TIME, "time"),
    head={"type": "retired"},
    parts={"retired": Retired},
)


def retention_ledger(store: LogStore) -> Ledger[RetentionReceipt]:
    """Return the ledger that says what rules of retention deleted."""
    return Ledger(store, RETENTION, _RETENTION)


class RetentionGrace:
    """Bound of what rules may delete or unindex now, in all spaces of a server.

    A wrong clock makes every conversation idle for years. So nothing goes for a while after a
    start, and for longer after the clock was put on; what goes first is little, for somebody to see
    it. Safe to call from any thread.
    """

    def __init__(self, grace: Live[float], clock: Clock, steady: Clock | None = None) -> None:
        """`grace` is in seconds; 0: everything goes at once. `steady` is a clock in milliseconds
        that nobody sets, None: that of the machine.
        """
        self._grace = grace
        self._clock = clock
        self._steady = steady or _uptime
        self._guard = threading.Lock()  # guards everything below
        self._last_times = self._clock(), self._steady()
        self._since = self._last_times[1]
        """Begin of the grace, by the steady clock."""
        self._times = 1
        """Factor of its length."""
        self._count = 0
        """Conversations that went behind it."""

    def allowed(self, most: int) -> int:
        """Return how many conversations may go now, at most so many."""
        grace = self._grace.now * 1000
        now, steady = self._clock(), self._steady()
        with self._guard:
            ahead = (now - self._last_times[0]) - (steady - self._last_times[1])
            self._last_times = now, steady
            if not grace:
                return most
            if abs(ahead) > _JUMP:
                self._since, self._count = steady, 0
                self._times = _LONGER if ahead > 0 else 1
                log.warning(
                    "clock_was_set", seconds=ahead // 1000, waits=round(grace * self._times / 1000)
                )
            passed = steady - self._since - grace * self._times
            if passed < 0:
                return 0
            return most if passed > _FIRST else min(most, max(0, _MOST_AT_FIRST - self._count))

    def count(self, conversations: int) -> None:
        with self._guard:
            self._count += conversations


class RuleTimesFile:
    """The times at which rules were first in force, in milliseconds by the rule's text:
    `<data-dir>/retention.json`.
    """

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / "retention.json"

    def read(self) -> dict[str, int]:
        """Return the times; none if the file is missing or damaged, so that every rule is new."""
        try:
            record = orjson.loads(read_file(self._path))
            return {str(rule): int(time) for rule, time in record.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}

    def write(self, times: dict[str, int]) -> None:
        """Keep the times. Raises StorageUnavailable."""
        try:
            write_private(self._path, orjson.dumps(times), sync=True)
        except OSError as error:
            raise StorageUnavailable(
                f"the times of the rules of retention cannot be kept: {error.strerror}"
            ) from error


class NewRules:
    """The wait of rules that are new, in all spaces of a server. Safe to call from any thread.

    A rule is known by its text, so a stricter one is new. It waits a hundred times the grace from
    the moment it is first seen in force, over restarts too, so that one that was not meant can be
    taken back. A grace of 0 means that none waits.
    """

    def __init__(
        self,
        rules: Live[tuple[RetentionRule, ...]],
        grace: Live[float],
        clock: Clock,
        file: RuleTimesFile,
    ) -> None:
        """`rules` are those of all spaces; `grace` is in seconds."""
        self._rules = rules
        self._grace = grace
        self._clock = clock
        self._file = file
        self._guard = threading.Lock()  # guards the times
        self._times: dict[str, int] | None = None

    def start(self, rule: RetentionRule) -> int:
        """Return the time from which a rule in force counts, in milliseconds."""
        wait = round(self._grace.now * 1000) * _LONGER
        return self.follow().get(rule.text, self._clock()) + wait if wait else 0

    def last_start(self) -> int | None:
        """Return when all rules that wait now will count, in milliseconds; None if none waits."""
        self.follow()
        starts = [self.start(rule) for rule in self._rules.now]
        return max((it for it in starts if it > self._clock()), default=None)

    def follow(self) -> dict[str, int]:
        """Return the times of the rules in force, after noting those that are new or gone: a rule
        that is taken back and comes again is new.
        """
        with self._guard:
            before = self._file.read() if self._times is None else self._times
            now = self._clock()
            times = {rule.text: before.get(rule.text, now) for rule in self._rules.now}
            if times != before:
                new = sorted(times.keys() - before.keys())
                try:
                    self._file.write(times)
                except StorageUnavailable as error:
                    log.warning("new_rules_not_kept", reason=str(error))
                if new:
                    log.info("retention_rules_are_new", rules=new)
            self._times = times
            return times


@dataclass(frozen=True, slots=True)
class Planned:
    """A conversation or communication that rules are about, with its name for people."""

    retired: Retired
    name: str
    space: str


@dataclass(slots=True)
class RetentionPlan:
    """The conversations and communications that rules are about now."""

    limit: int
    shown: list[Planned] = field(default_factory=list)
    """At most `limit` of them."""
    conversations: int = 0
    communications: int = 0
    all_conversations: int = 0
    """Conversations that are there, whether a rule is about them or not."""
    all_communications: int = 0

    @property
    def total(self) -> int:
        """The number of all that rules are about."""
        return self.conversations + self.communications

    @property
    def is_most(self) -> bool:
        """True if rules are about more than half of the ones or of the others."""
        return (
            2 * self.conversations > self.all_conversations
            or 2 * self.communications > self.all_communications
        )


def _uptime() -> int:
    """Return the milliseconds since the machine started, in which it slept or not."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return round(time.clock_gettime(clock) * 1000)


class Retention:
    """The rules of a space, carried out. Raises DataUnavailable. Safe to call from any thread."""

    def __init__(
        self,
        space: Space,
        rules: Callable[[], tuple[RetentionRule, ...]],
        receipts: Ledger[RetentionReceipt],
        grace: RetentionGrace,
        new_rules: NewRules,
    ) -> None:
        """`rules` returns those about this space; the first that a conversation meets counts."""
        self._space = space
        self._grace = grace
        self.rules = rules
        self._receipts = receipts
        self._new_rules = new_rules

    def plan(
        self, plan: RetentionPlan, rules: tuple[RetentionRule, ...] | None, space: str
    ) -> None:
        """Add to a plan what rules (None: those in force) are about in this space."""
        index = self._space.index
        for it in self.due(rules):
            is_communication = is_communication_id(it.conversation_id)
            if is_communication:
                plan.communications += 1
            else:
                plan.conversations += 1
            if len(plan.shown) < plan.limit:
                name = ""
                if is_communication and (talk := external_of(index).find(it.conversation_id)):
                    name = talk.state.party_name or talk.state.party
                elif stored := index.conversations.find(it.conversation_id):
                    name = stored.state.title or stored.state.request
                plan.shown.append(Planned(it, name, space))
        plan.all_conversations += index.conversations.total(Filter())[0]
        if plan.communications:
            every = _every(
                partial(external_of(index).sizes, CommunicationFilter(with_messages=True))
            )
            plan.all_communications += sum(1 for _ in every)

    def due(self, rules: tuple[RetentionRule, ...] | None = None) -> Iterator[Retired]:
        """Yield the conversations that rules (None: those in force) are about now, rule by
        rule, those that are idle for longest first. None comes twice.
        """
        named: set[str] = set()
        for rule in self.rules() if rules is None else rules:
            for retired in self._due(rule):
                if retired.conversation_id not in named:
                    named.add(retired.conversation_id)
                    yield retired

    def settle(self) -> bool:
        """Finish what is left of unindexing; one conversation. Return False if nothing is left."""
        return self._space.unindexing.settle()

    def alone(self) -> AbstractContextManager[bool]:
        """Enter to carry the rules out, if no other process does now."""
        return self._space.shared_work.alone(Purpose.RETENTION)

    def carry_out(self, limit: int) -> int:
        """Delete or unindex at most `limit` of those that are due, or as many as the grace lets.
        Return how many were.
        """
        now = self._space.clock()
        rules = {it.text: it for it in self.rules() if self._new_rules.start(it) <= now}
        limit = self._grace.allowed(limit)  # without rules too: it watches the clock
        if not rules or not limit:
            return 0
        self._space.follow()
        count = 0
        for retired in list(islice(self.due(tuple(rules.values())), limit)):
            rule = rules.get(retired.rule)
            if rule is None:
                continue  # the rules changed meanwhile
            decided: list[Retired] = []
            anchors = KEEP_ANCHORS if rule.keeps_anchors else DELETE_ANCHORS

            def confirm(
                it: Conversation | Communication,
                rule: RetentionRule = rule,
                retired: Retired = retired,
                decided: list[Retired] = decided,
            ) -> bool:
                if it.update_time != retired.update_time:
                    return False  # somebody wrote to it
                if isinstance(it, Communication) and not _is_about(rule, it.trust):
                    return False  # its party is blocked since
                decided.append(retired)
                self._receipts.add(RetentionReceipt(retired, self._space.clock()))
                return True

            try:
                if rule.unindexes:
                    self._space.unindexing.unindex(retired.conversation_id, confirm)
                else:
                    self._space.deletions.delete(retired.conversation_id, anchors, confirm=confirm)
            except (
                NotConfirmed,
                CommunicationNotFound,
                ConversationNotFound,
                ConversationPinned,
                LogConflict,
            ):
                for it in decided:
                    withdrawn = replace(it, rule=_WITHDRAWN)
                    self._receipts.add(RetentionReceipt(withdrawn, self._space.clock()))
                continue  # another pass looks again
            except StorageUnavailable as error:
                log.warning(
                    "conversation_not_retired",
                    conversation=retired.conversation_id,
                    reason=str(error),
                )
                raise
            count += 1
            self._grace.count(1)
            log.info(
                "conversation_retired", conversation=retired.conversation_id, rule=retired.rule
            )
        return count

    def due_at(self) -> int | None:
        """Return when the rules delete something next, in milliseconds; None if nothing is there
        that they would.
        """
        times: list[int] = []
        for rule in self.rules():
            start = self._new_rules.start(rule)
            if rule.idle:
                idle = self._idle(rule, None, 1, None)
                times += [max(it.update_time + rule.idle, start) for it in idle]
            elif next(self._due(rule), None) is not None:
                times.append(max(self._space.clock(), start))
        return min(times, default=None)

    def _due(self, rule: RetentionRule) -> Iterator[Retired]:
        now, table = self._space.clock(), self._space.index.conversations
        if rule.idle:
            before = now - rule.idle + 1
            for it in _every(partial(self._idle, rule, before)):
                yield _retired(it, rule, f"it has been idle for {_span(now - it.update_time)}")
            return
        there = table.total(_chosen(rule))
        count, size = there
        place = "indexed" if rule.unindexes else "there"
        for it in _every(partial(table.sizes, _chosen(rule, pinned=False))):
            if rule.conversations is not None:
                if count <= rule.conversations:
                    return
                reason = f"{there[0]} conversations are {place}, and {rule.conversations} may be"
            else:
                assert rule.bytes is not None
                if size <= rule.bytes:
                    return
                reason = f"{there[1]} bytes are {place}, and {rule.bytes} may be"
            count, size = count - 1, size - it.bytes
            yield _retired(it, rule, f"{reason}; it is one of those that are idle for longest")

    def _idle(
        self, rule: RetentionRule, before: int | None, limit: int, after: PageEnd | None
    ) -> list[Size]:
        """Return those that a rule is about once they are idle, without a change since `before`."""
        index = self._space.index
        if not rule.is_about_third_parties:
            chosen = _chosen(rule, pinned=False, updated_before=before)
            return index.conversations.sizes(chosen, limit, after)
        of = CommunicationFilter(
            trust=rule.trust,
            except_trust=None if rule.trust else Trust.BLOCKED,
            channels=(rule.channel,) if rule.channel else (),
            updated_before=before,
            with_messages=True,
        )
        return external_of(index).sizes(of, limit, after)


def _every(part: Callable[[int, PageEnd | None], list[Size]]) -> Iterator[Size]:
    """Yield all of what `part` returns so many of, behind a place."""
    after: PageEnd | None = None
    while True:
        sizes = part(_PART, after)
        yield from sizes
        if len(sizes) < _PART:
            return
        after = sizes[-1].update_time, sizes[-1].id


def receipts(
    store: LogStore, before: int | None, limit: int
) -> tuple[list[RetentionReceipt], int | None]:
    """Return receipts of a space, the newest first: those before a place; and the place of the next
    page. Raises LogUnavailable.

    One that was withdrawn is left out, and so is one of a conversation that is still there, because
    its server was killed right then.
    """
    entries = list(retention_ledger(store).entries())
    out: set[int] = set()
    newest: dict[str, int] = {}
    for at, it in enumerate(entries):
        name, rule = it.retired.conversation_id, it.retired.rule
        before_it = newest.pop(name, None)
        if before_it is not None and not entries[before_it].retired.rule.startswith("unindex"):
            out.add(before_it)  # a conversation is deleted once: it was decided again
        if rule == _WITHDRAWN:
            out |= {at} if before_it is None else {at, before_it}
        else:
            newest[name] = at
    page: list[RetentionReceipt] = []
    for at in reversed(range(len(entries[:before]))):
        retired = entries[at].retired
        is_delete = not retired.rule.startswith("unindex")
        if at in out or (is_delete and _is_there(store, retired.conversation_id)):
            continue
        page.append(entries[at])
        if len(page) == limit:
            return page, at or None
    return page, None


def _is_about(rule: RetentionRule, trust: Trust) -> bool:
    return trust is rule.trust if rule.trust else trust is not Trust.BLOCKED


def _is_there(store: LogStore, name: str) -> bool:
    return is_taken(store, name) if is_communication_id(name) else has_conversation(store, name)


def _span(milliseconds: int) -> str:
    """Return a span of time as text, in the largest unit that it fills; no rule has less than a
    minute.
    """
    unit, length = next((it for it in _UNITS if milliseconds >= it[1]), _UNITS[-1])
    count = milliseconds // length
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _chosen(
    rule: RetentionRule, *, pinned: bool | None = None, updated_before: int | None = None
) -> Filter:
    channels = (rule.channel,) if rule.channel else ()
    return Filter(
        channels=channels,
        pinned=pinned,
        updated_before=updated_before,
        unindexed=False if rule.unindexes else None,
    )


def _retired(it: Size, rule: RetentionRule, reason: str) -> Retired:
    return Retired(it.id, it.channel, it.update_time, it.bytes, rule.text, reason)
