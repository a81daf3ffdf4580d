"""Spaces as their administrators see them: listed and verified, whether they are open or not; and
their rules of retention, what these would delete, and what they deleted.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

import structlog

from recollect_server.admin.due import DueMarkers
from recollect_server.admin.statistics import Statistics, statistics_of
from recollect_server.kernel.compare.checks import Findings
from recollect_server.kernel.compare.verification import Interrupted
from recollect_server.kernel.domain.errors import (
    InvalidField,
    RecollectError,
    SpaceNotFound,
    StorageUnavailable,
    TooManySpaces,
)
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.index.checking import SpaceTotals, totals_of
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.space_removal import SpaceReceipt
from recollect_server.kernel.log.store import LogStore
from recollect_server.kernel.space.opened import OpenedSpace
from recollect_server.kernel.space.spaces import Lease, Spaces
from recollect_server.retention.rule import RetentionReceipt, RetentionRule
from recollect_server.retention.service import NewRules, Retention, RetentionPlan, receipts

_PATIENCE = 10.0  # seconds that a delete waits for the calls that use the space


class SpaceStores(Protocol):
    """Protocol of the log stores of all spaces."""

    def of(self, space: str) -> LogStore:
        """Return the store of a space."""

    def folder_of(self, space: str) -> FolderStore:
        """Return the folder of a space's logs. Raises NoBackupFolder if they are in none."""

    def make(self, name: str) -> bool:
        """Make a space, durably; return whether it is new. Raises StorageUnavailable, OSError."""

    def remove(self, name: str, now: int) -> SpaceReceipt:
        """Delete a space with all its data, which nobody has open. Raises StorageUnavailable,
        OSError.
        """

    def receipts(self) -> list[SpaceReceipt]:
        """Return the receipts of deleted spaces, oldest first. Raises StorageUnavailable,
        OSError.
        """

    def is_space(self, name: str) -> bool:
        """Return whether there is a space of a name."""

    def names(self) -> list[str]:
        """Return the names of all spaces, in order."""


def _check_space(stores: SpaceStores, name: str) -> None:
    """Raise SpaceNotFound if there is no space of a name."""
    if not stores.is_space(name):
        raise SpaceNotFound(name)


class SpaceState(Enum):
    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class SpaceOverview:
    name: str
    state: SpaceState
    is_default: bool
    totals: SpaceTotals


class SpaceAdministration:
    """The spaces of a server. Safe to call from any thread."""

    def __init__(
        self,
        stores: SpaceStores,
        data_dir: Path,
        default: str,
        spaces: Spaces[Any],
        without_streams: Callable[[str], AbstractContextManager[None]],
        clock: Clock,
    ) -> None:
        """`without_streams` ends the streams of a space, and keeps them ended in its block."""
        self._stores = stores
        self._without_streams = without_streams
        self._clock = clock
        self._due = DueMarkers(data_dir)
        self._default = default
        self._spaces: Spaces[OpenedSpace] = spaces

    def names(self, is_listed: Callable[[str], bool]) -> list[str]:
        """Return the names of the spaces that are listed, in order."""
        return [name for name in self._stores.names() if is_listed(name)]

    def overview(self, name: str) -> SpaceOverview:
        self._settle(name)
        return SpaceOverview(
            name, self._state(name), name == self._default, totals_of(self._stores.of(name).root)
        )

    def held(self, name: str) -> tuple[int, str]:
        """Return the number of messages that a space holds in memory, and why."""
        for space in self._spaces.open_now():
            if space.name == name:
                return space.held()[0], space.held_because()
        return 0, ""

    def statistics(self, name: str) -> Statistics:
        """Return what a space holds. Raises SpaceNotFound."""
        _check_space(self._stores, name)
        self._settle(name)
        return statistics_of(self._stores.of(name))

    def create(self, name: str) -> tuple[SpaceOverview, bool]:
        """Make a space, unless there is one; return it, and whether it was made. Raises
        StorageUnavailable.
        """
        try:
            is_new = self._stores.make(name)
            # Opened, it has an index, and is there for all that look at it.
            self._spaces.use(name).end()
        except OSError as error:
            raise StorageUnavailable(
                f"the space {name} cannot be made: {error.strerror or error}"
            ) from error
        return self.overview(name), is_new

    def delete(self, name: str) -> SpaceReceipt:
        """Delete a space with all its data, and end its streams. Raises SpaceNotFound,
        InvalidField, SpaceBeingDeleted, StorageUnavailable.
        """
        if name == self._default:
            raise InvalidField.of(
                "name",
                "is the space of calls that name none, which the server keeps: delete its"
                " conversations",
            )
        _check_space(self._stores, name)
        try:
            with self._without_streams(name):
                return self._spaces.remove(
                    name, _PATIENCE, lambda: self._stores.remove(name, self._clock())
                )
        except OSError as error:
            raise StorageUnavailable(
                f"the space {name} cannot be deleted: {error.strerror or error}"
            ) from error
        finally:
            self._due.remove(name)

    def receipts(
        self, is_listed: Callable[[str], bool], before: int | None, limit: int
    ) -> tuple[list[SpaceReceipt], int | None]:
        """Return receipts of deleted spaces, the newest first: those before a place; and the place
        of the next page. Raises StorageUnavailable.
        """
        try:
            entries = [it for it in self._stores.receipts() if is_listed(it.name)][:before]
        except OSError as error:
            reason = error.strerror or error
            raise StorageUnavailable(f"the receipts cannot be read: {reason}") from error
        start = max(0, len(entries) - limit)
        return entries[start:][::-1], start or None

    def counts(self) -> tuple[int, int]:
        """Return the numbers of all spaces and of the open ones."""
        names = set(self._stores.names())
        return len(names), len(names.intersection(self._spaces.names()))

    def _settle(self, name: str) -> None:
        """Wait until the files of an open space have all that was acknowledged."""
        for space in self._spaces.open_now(at_rest=True):
            if space.name == name and (lease := self._spaces.borrow(space)) is not None:
                with lease:
                    if not space.is_resting:
                        space.follow()
                    space.settle()

    def _state(self, name: str) -> SpaceState:
        return SpaceState.OPEN if name in self._spaces.names() else SpaceState.CLOSED


class RetentionAdministration:
    """The retention of all spaces. Safe to call from any thread."""

    def __init__(
        self,
        stores: SpaceStores,
        rules: Live[tuple[RetentionRule, ...]],
        new_rules: NewRules,
        spaces: Spaces[Any],
        clock: Clock,
    ) -> None:
        self._stores = stores
        self._rules = rules
        self._new_rules = new_rules
        self._clock = clock
        self._spaces: Spaces[OpenedSpace] = spaces

    def rules(self, space: str) -> list[RetentionRule]:
        return [rule for rule in self._rules.now if rule.is_for(space)]

    def start(self, rule: RetentionRule) -> int | None:
        """Return the time from which a rule in force counts, in milliseconds; None if it does."""
        start = self._new_rules.start(rule)
        return start if start > self._clock() else None

    def last_start(self) -> int | None:
        """Return when all rules that wait now will count, in milliseconds; None if none waits."""
        return self._new_rules.last_start()

    def preview(
        self, spaces: Iterable[str], rules: tuple[RetentionRule, ...] | None, limit: int
    ) -> RetentionPlan:
        """Return what rules (None: those in force) are about now. Raises SpaceNotFound."""
        plan = RetentionPlan(limit)
        for space in spaces:
            lease = self._spaces.use_behind(space)
            if lease is None:
                raise SpaceNotFound(space)
            with lease as opened:
                opened.follow()
                own = None if rules is None else tuple(rule for rule in rules if rule.is_for(space))
                opened.service(Retention).plan(plan, own, space)
        return plan

    def receipts(
        self, space: str, before: int | None, limit: int
    ) -> tuple[list[RetentionReceipt], int | None]:
        """Return receipts, the newest first: those before a place; and the place of the next page.
        Raises SpaceNotFound, LogUnavailable.
        """
        _check_space(self._stores, space)
        return receipts(self._stores.of(space), before, limit)


log = structlog.get_logger("recollect.verification")

_MOST_KEPT = 1000  # verifications that ended, of different spaces
_AGAIN = 1.0  # seconds until a place of a space is looked for again


class VerificationState(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(slots=True)
class Verification:
    space: str
    created: int
    """Milliseconds since 1970."""
    state: VerificationState = VerificationState.WAITING
    ended: int | None = None
    failure: str = ""
    """Reason why it ended before it looked at everything; empty if it did not."""
    findings: Findings = field(default_factory=Findings)


class VerifiedSpace(OpenedSpace, Protocol):
    """Protocol of an open space that can be verified."""

    def verify(self, findings: Findings, check: Callable[[], None]) -> None:
        """Compare its logs with its index and vectors."""


class VerificationAdministration:
    """The verifications of a server. Safe to call from any thread."""

    def __init__(self, stores: SpaceStores, spaces: Spaces[Any], clock: Clock) -> None:
        self._stores = stores
        self._spaces: Spaces[VerifiedSpace] = spaces
        self._clock = clock
        self._guard = threading.Lock()  # guards the two below; nothing slow happens under it
        self._newest: OrderedDict[str, Verification] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self, space: str) -> Verification:
        """Begin a verification of a space; return the one that waits or runs, if there is one.
        Raises SpaceNotFound.
        """
        _check_space(self._stores, space)
        with self._guard:
            newest = self._newest.get(space)
            if newest is not None and newest.ended is None:
                return newest
            newest = self._newest[space] = Verification(space, self._clock())
            self._newest.move_to_end(space)
            ended = [name for name, it in self._newest.items() if it.ended is not None]
            for name in ended[: max(0, len(self._newest) - _MOST_KEPT)]:
                del self._newest[name]
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name="verifier", daemon=True)
                self._thread.start()
        return newest

    def newest(self, space: str) -> Verification | None:
        """Return the newest verification of a space; None if there was none. Raises
        SpaceNotFound.
        """
        _check_space(self._stores, space)
        return self._newest.get(space)

    def stop(self) -> None:
        """End what is under way, and begin nothing more."""
        self._stopping.set()
        with self._guard:
            thread = self._thread
        if thread is not None:
            thread.join(self._spaces.patience())

    def _run(self) -> None:
        while True:
            with self._guard:
                waiting = [it for it in self._newest.values() if it.ended is None]
                if not waiting or self._stopping.is_set():
                    self._thread = None
                    return
            self._verify(waiting[0])

    def _verify(self, verification: Verification) -> None:
        space, findings = verification.space, verification.findings
        verification.state = VerificationState.RUNNING

        def check() -> None:
            if self._stopping.is_set():
                raise Interrupted("the server stops")
            if self._spaces.is_leaving(space):
                raise Interrupted(f"the space {space} is being deleted")

        try:
            with self._lease(space, check) as opened:
                opened.verify(findings, check)
        except (Interrupted, RecollectError) as error:
            verification.failure = str(error)
        except Exception as error:  # the thread goes on with the other spaces
            log.exception("verification_failed", space=space)
            verification.failure = (
                f"an unforeseen failure ({type(error).__name__}; the server's log has all of it)"
            )
        is_whole = not verification.failure
        verification.state = VerificationState.DONE if is_whole else VerificationState.FAILED
        verification.ended = self._clock()
        log.info(
            "space_verified",
            space=space,
            logs=findings.logs,
            problems=findings.problem_count,
            failure=verification.failure,
        )

    def _lease(self, space: str, check: Callable[[], None]) -> Lease[VerifiedSpace]:
        while True:
            try:
                lease = self._spaces.use_behind(space)
            except TooManySpaces:  # others need their places now
                check()
                self._stopping.wait(_AGAIN)
                continue
            if lease is None:
                raise SpaceNotFound(space)
            return lease
