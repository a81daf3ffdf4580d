"""Following: the index of this process is kept up to what other processes write to the same logs.

`follow` asks the store what was committed since it last asked, by one cheap query, and takes it in
before it returns: a caller that reads after it sees everything that was acknowledged anywhere.
Lines that another process appended are taken in as if they were appended here; deletes and
redactions of others remove here what they remove there.

A process that was away for long, whose changes were pruned, compares the lengths of all logs. So
does one that finds that a copy of the store took over, which may lack what this process had taken
in: where the index has more of a log than both histories have, it is made anew, and what is
remembered of the log is forgotten. One that another process took for gone may find that a text was
deleted whose words it still has: then its index is made anew.

States of a query, of which one runs at a time: begun, done. A caller waits for one that began after
its call, so callers that wait at once share one.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

import structlog

from recollect_server.kernel.compare.comparison import Comparison
from recollect_server.kernel.domain.errors import (
    ConversationNotFound,
    DataUnavailable,
    IndexUnavailable,
    RecollectError,
    StorageUnavailable,
)
from recollect_server.kernel.domain.ids import LEDGER, Action, Kind
from recollect_server.kernel.erase.deletion import Deletions
from recollect_server.kernel.erase.redaction import Redactions
from recollect_server.kernel.index.checking import Words
from recollect_server.kernel.log.store import (
    Change,
    LogConflict,
    LogNotFound,
    Position,
    Purpose,
    Sharing,
    Version,
    has_conversation,
    has_version,
    timeline_of,
)
from recollect_server.kernel.space.events import ChangedElsewhere
from recollect_server.kernel.space.logs import Logs
from recollect_server.kernel.space.parts import Parts

R = TypeVar("R")

log = structlog.get_logger("recollect.following")

_TRIES = 50  # of a call that others' changes keep from being carried out
_FEW = 3  # of a call that found a log gone
_LONGEST = 8.0  # seconds in which they are made
_PAUSE, _MOST_PAUSE = 0.001, 0.05  # seconds between two, at most so much at random
_FRESH = 0.25  # seconds after a query in which an append is tried without one
_PATIENCE = 1.0  # seconds of failing reads behind which no other log is read
_LEASE = 60.0  # seconds of a lease; a turn of its work is shorter but for a slow model
_REFUSED_SECONDS = 5.0  # until a lease is asked for again that another process has
_CHANGES_AGE, _MOST_CHANGES = 86_400.0, 100_000  # seconds and number of changes that are kept


class SharedWork:
    """The part of one process in the work on a space, which the processes over one store divide
    among them: each piece is done by one of them.

    The leases and the vectors are in the store. Without other processes all work is done here, and
    nothing is shared.
    """

    def __init__(self, sharing: Sharing | None) -> None:
        """`sharing`: what the store has for processes that share it; None if there is one."""
        self._sharing = sharing
        self._refused: dict[str, float] = {}
        """Until when leases that others have are not asked for again."""

    @contextmanager
    def alone(self, purpose: str, seconds: float = _LEASE) -> Iterator[bool]:
        """Yield True if work may be done now that one process does at a time: a `Purpose`. Once
        another process may, what is appended within raises StorageUnavailable. Another one may
        after so many seconds in which this one did not ask.
        """
        if self._sharing is None:
            yield True
            return
        with ExitStack() as held:
            number = 0
            if self._refused.get(str(purpose), 0.0) < time.monotonic():
                with suppress(StorageUnavailable):
                    number = held.enter_context(self._sharing.lease(str(purpose), seconds))
                if not number:
                    until = time.monotonic() + min(_REFUSED_SECONDS, seconds)
                    self._refused[str(purpose)] = until
            yield number > 0

    def moment(self) -> str:
        """Return the present moment of the store; empty without other processes. Raises
        StorageUnavailable.
        """
        return self._sharing.moment() if self._sharing else ""

    def changed(self, moments: Mapping[str, str]) -> set[str]:
        """Return those of spaces that have changes behind a moment of each, by one query. Raises
        StorageUnavailable.
        """
        return self._sharing.changed(moments) if self._sharing else set()

    def vectors(self, model: str, texts: Sequence[tuple[str, bytes]]) -> dict[bytes, bytes]:
        """Return vectors that a process made, of texts by conversation and hash. Raises
        StorageUnavailable.
        """
        return self._sharing.vectors(model, texts) if self._sharing else {}

    def keep_vectors(
        self, model: str, conversation_id: str, vectors: Mapping[bytes, bytes], moment: str
    ) -> None:
        """Let other processes have the vectors of texts that were read since a moment. Raises
        StorageUnavailable.
        """
        if self._sharing:
            self._sharing.keep_vectors(model, conversation_id, vectors, moment)

    def prune_changes(self) -> int:
        """Remove old changes, which other processes have taken in or will not ask for. Return how
        many. Raises StorageUnavailable.
        """
        if self._sharing is None:
            return 0
        with self.alone(Purpose.PRUNING) as may:
            return self._sharing.prune_changes(_CHANGES_AGE, _MOST_CHANGES) if may else 0


class Following:
    """Follows what other processes write to a space. Safe to call from any thread."""

    def __init__(
        self,
        parts: Parts,
        sharing: Sharing,
        moment: str,
        deletions: Deletions,
        redactions: Redactions,
    ) -> None:
        """`moment`: one before the index was brought up to the logs."""
        self.failure = ""
        """Reason for which it is not known what others wrote; empty if it is."""
        self._parts = parts
        self._indexed = {str(it.kind) for it in parts.kinds}
        """Kinds of logs that the index has."""
        self._sharing = sharing
        self._deletions = deletions
        self._redactions = redactions
        self._turns = threading.Condition()  # guards the next three
        self._last = self._done = 0
        self._is_busy = False
        self._followed_at = -_FRESH
        # Used by one thread at a time: the one whose query runs.
        self._moment = moment
        self._due: dict[str, list[Change]] = {}
        """Changes that are not taken in yet, by log."""
        self._must_compare = False
        self._before_takeover = ""
        """A moment in the history before, until the index is known to follow the present one."""

    def carry_out(self, work: Callable[[], R], *, appends: bool = False) -> R:
        """Return the result of work that begins behind what others wrote. It is done again while
        others write to the same logs just then: nothing is stored of work that raised for that.

        `appends`: it is an append to one log and its answer is of that log alone. The store refuses
        it where that is not as it is here, so it needs no query before it; whatever else it is
        refused for is decided behind one.
        """
        if appends and time.monotonic() < self._followed_at + _FRESH:
            try:
                return work()
            except (LogConflict, LogNotFound):
                pass
            except StorageUnavailable:
                raise  # its messages may be held
            except RecollectError as error:
                log.debug("append_tried_again", reason=str(error))
        until = time.monotonic() + _LONGEST
        for left in reversed(range(_TRIES)):
            self.follow()
            try:
                return work()
            except LogConflict:
                if not left or time.monotonic() > until:
                    raise
            except LogNotFound:  # deleted just then: the next try knows
                if left < _TRIES - _FEW:
                    raise
            pause = min(_MOST_PAUSE, _PAUSE * 2 ** (_TRIES - left))
            time.sleep(random.uniform(0, pause))  # noqa: S311 - no secret
        raise AssertionError("unreachable")

    def follow(self) -> None:
        """Take in what others committed before this call. Raises nothing: where the store cannot be
        asked, `failure` says so. Hold no lock of a conversation.
        """
        with self._turns:
            target = self._last + 1
            while self._done < target and self._is_busy:
                self._turns.wait()
            if self._done >= target:
                return
            self._is_busy = True
            self._last += 1
            number = self._last
        try:
            self._take_in()
        finally:
            with self._turns:
                self._is_busy = False
                self._done = number
                self._turns.notify_all()

    @property
    def moment(self) -> str:
        """Return the moment up to which everything was taken in; empty if something is left to be
        done, whatever others write.
        """
        is_left = self.failure or self._due or self._must_compare or self._deletions.is_any_left
        return "" if is_left else self._moment

    def compare_all(self) -> None:
        """Compare the lengths of all logs at the next call: the index is another one."""
        self._must_compare = True

    # Inside ---------------------------------------------------------------------------------------

    def _take_in(self) -> None:
        failure = ""
        try:
            elsewhere = self._sharing.changes(self._moment)
            if elsewhere.is_taken_over:
                self._before_takeover = self._before_takeover or self._moment
            self._moment = elsewhere.moment
            for change in elsewhere.changes:
                if not change.is_own or self._may_have_failed(change):
                    self._due.setdefault(change.log, []).append(change)
            if not elsewhere.is_whole:
                log.warning("changes_missed", reason="they were pruned, or the database changed")
            if not elsewhere.is_whole or self._must_compare:
                self._must_compare = True
                if self._before_takeover:
                    self._leave_history(self._before_takeover)
                    self._before_takeover = ""
                self._compare_lengths()
                self._must_compare = False
            failure = self._take_each(list(self._due), self._take_in_due)
            not_hidden = self._take_each(self._deletions.unfinished(), self._deletions.follow)
            failure = failure or not_hidden
        except DataUnavailable as error:
            failure = failure or str(error)
        if not failure:
            self.failure = ""
            self._followed_at = time.monotonic()
            return
        if not self.failure:
            log.warning("changes_not_followed", reason=failure)
        self.failure = f"what other servers wrote is not known: {failure}"

    def _take_each(self, names: Iterable[str], take: Callable[[str], None]) -> str:
        """Take one log after the other. Return why one could not be read, which holds up no other,
        unless that took long: who waits for a lock on all logs waits for it once. Empty: all could.
        Raises DataUnavailable where the store itself does not answer.
        """
        failure = ""
        until = time.monotonic() + _PATIENCE
        for name in names:
            try:
                take(name)
            except DataUnavailable as error:
                failure = failure or f"{name}: {error}"
                if time.monotonic() > until:
                    break
                self._sharing.moment()
        return failure

    def _take_in_due(self, name: str) -> None:
        """Take in what is due of a log. Raises DataUnavailable."""
        self._take_in_log(name, self._due[name])
        del self._due[name]

    def _may_have_failed(self, change: Change) -> bool:
        """Return whether a change of this process may have failed for its caller, although it is
        there.
        """
        if change.action is Action.APPEND:
            return change.kind in self._indexed
        return self._parts.doubts.has(change.action, change.log)

    def _take_in_log(self, name: str, changes: list[Change]) -> None:
        """Take in the changes of one log. Raises DataUnavailable."""
        kind = changes[0].kind
        if kind not in self._indexed:
            self._take_in_other(name, kind)
            return
        try:
            deletes = [at for at, it in enumerate(changes) if it.action is Action.DELETE]
            if deletes:
                self._deletions.follow(name)
                changes = changes[deletes[-1] + 1 :]
            is_redacted = any(it.action is Action.REDACT for it in changes)
            if is_redacted:
                with self._parts.locks.conversations.hold(name):
                    self._redactions.follow(name)
                    if kind == Kind.CONVERSATION:
                        self._reload(name)
            if kind != Kind.CONVERSATION:
                if changes and not self._has(name, max(it.end for it in changes)):
                    self._take_in_other(name, kind)
            elif changes and not is_redacted:
                self._append(name, changes)
        except LogNotFound:
            pass  # deleted meanwhile: its delete comes
        except IndexUnavailable as error:
            if kind != Kind.CONVERSATION:
                raise
            # The index refuses, or is lost: it is caught up as after a write that it refused.
            self._parts.states.forget(name)
            self._parts.projection.overlay.note_lag(name, str(error))

    def _take_in_other(self, name: str, kind: str) -> None:
        for it in self._parts.participants:
            if name in it.ledgers:
                with suppress(IndexUnavailable):  # a new index takes it in
                    it.follow(self._parts.projection.index)
        self._parts.publish(ChangedElsewhere(name, kind))

    def _has(self, name: str, end: int) -> bool:
        stored = self._parts.logs_of(name).find(self._parts.projection.index, name)
        return stored is not None and stored.bytes >= end

    def _append(self, name: str, changes: list[Change]) -> None:
        # Looked at without the lock first, which a writer may hold for long.
        if (state := self._parts.states.held(name)) is not None and state.size >= changes[-1].end:
            return
        with self._parts.locks.conversations.hold(name):
            state = self._parts.states.held(name)
            size = state.size if state else 0
            if state is not None and size >= changes[-1].end:
                return
            if (
                state is None
                and changes[0].is_own
                and not has_conversation(self._parts.store, name)
            ):
                return  # nobody was answered with its begin, and to ask for it undid that
            is_next = size == changes[0].start and (state is None or state.indexed)
            if is_next and not self._parts.pending.of(name):
                end = Position(state.lines, state.size) if state else Position()
                lines = list(self._parts.store.read(name, end, changes[-1].end))
                is_whole = bool(lines) and all(line.entry for line in lines)
                # Asked behind the read: lines of a redacted log are not to meet an index of before.
                if has_version(self._parts.store, name, Version.REPLACED):
                    self._redactions.follow(name)
                elif is_whole and lines[-1].end == changes[-1].end:
                    self._parts.writes.take_in(name, state, lines)
                    return
            self._reload(name)

    def _reload(self, name: str) -> None:
        """Index what the index lacks of a conversation. Raises StorageUnavailable where the store
        does not answer at all. Hold its lock.
        """
        if not self._parts.writes.settle(name):
            self._parts.projection.overlay.note_lag(name, "it has messages that wait")
            self._sharing.moment()
            return
        self._parts.states.forget(name)
        with suppress(ConversationNotFound):
            self._parts.states.get(name)

    def _leave_history(self, moment: str) -> None:
        """Forget what a copy of the store that took over never got. Raises DataUnavailable."""
        self._sharing.moment(join=True)  # that may be lost too
        timeline = timeline_of(self._parts.store)
        lost = self._lost_logs(moment)
        log.warning("store_taken_over", logs_with_lost_lines=len(lost))
        if not lost:
            self._parts.projection.index.note_timeline(timeline)
            return
        self._parts.states.distrust(f"a standby took over that lacks lines of {lost[0]}")
        for name in lost:
            self._parts.states.forget(name)
        for stuck in self._parts.pending.all():
            name = stuck.written.conversation.id
            with self._parts.locks.conversations.hold(name):
                self._reload(name)
        for name in self._ledgers():
            self._take_in_other(name, LEDGER)
        self._parts.publish(ChangedElsewhere("", ""))
        # At last: whatever refuses before, the next try finds them again.
        for name in lost:
            self._deletions.revive(name)

    def _lost_logs(self, moment: str) -> list[str]:
        """Return the logs of which the index has, or may have, more than both histories: the one of
        a moment, and the present one.
        """
        index = self._parts.projection.index
        indexed = {logs: logs.progress(index) for logs in self._parts.kinds}
        # Lengths first: what is appended between the two is counted by where it begins.
        lengths = {logs: dict(self._parts.store.logs(logs.kind)) for logs in self._parts.kinds}
        changed = self._sharing.changed_since_takeover(moment)
        # Deletes that were lost, of what is not out of the index yet.
        lost = [
            name for names in lengths.values() for name in names if self._deletions.is_left(name)
        ]
        for logs in self._parts.kinds:
            for name, size in indexed[logs].items():
                if name in lost:
                    continue
                if changed is None:
                    lost.append(name)
                elif name not in changed and name not in lengths[logs]:
                    if not any(it.action is Action.DELETE for it in self._due.get(name, ())):
                        lost.append(name)
                elif name not in changed:
                    if size > lengths[logs][name]:
                        lost.append(name)
                elif size > changed[name] and self._differs(logs, name):
                    lost.append(name)
        return lost

    def _differs(self, logs: Logs[Any], name: str) -> bool:
        """Return whether the index has otherwise what a log has: it may have followed it already
        since the copy took over.
        """
        index = self._parts.projection.index
        with self._parts.locks.conversations.hold(name):
            stored = logs.find(index, name)
            if stored is None:
                return False
            words = Words(index, *logs.words, [stored.number])
            compared = Comparison(self._parts.store, index).of(logs, name, words)
            return compared is None or bool(compared.differences)

    def _compare_lengths(self) -> None:
        """Make changes of what the lengths of all logs say. Raises DataUnavailable."""
        index = self._parts.projection.index
        for logs in self._parts.kinds:
            indexed = logs.progress(index)
            there = dict(self._parts.store.logs(logs.kind))
            for name, size in there.items():
                if indexed.pop(name, 0) != size:
                    self._due.setdefault(name, []).append(
                        _change(name, logs.kind, Action.APPEND, size)
                    )
            for name in indexed:
                self._due[name] = [_change(name, logs.kind, Action.DELETE, 0)]
        for logs in self._parts.kinds:
            for name, _ in self._parts.store.logs(logs.kind, Version.REPLACED):
                self._due.setdefault(name, []).append(_change(name, logs.kind, Action.REDACT, 0))
        for name in self._ledgers():
            self._due.setdefault(name, []).append(_change(name, LEDGER, Action.REPLACE, 0))
        self._parts.publish(ChangedElsewhere("", ""))

    def _ledgers(self) -> list[str]:
        """Return the ledgers that features have of the space."""
        return [name for it in self._parts.participants for name in it.ledgers]


def _change(name: str, kind: str, action: Action, end: int) -> Change:
    return Change(name, kind, action, -1, end, is_own=False)
