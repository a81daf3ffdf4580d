"""Verifications that administrators ask for: of one space after another, beside the calls."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import structlog

from recollect_server.admin.spaces import SpaceStores
from recollect_server.kernel.compare.checks import Findings
from recollect_server.kernel.compare.verification import Interrupted
from recollect_server.kernel.domain.errors import RecollectError, SpaceNotFound, TooManySpaces
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.space.opened import OpenedSpace
from recollect_server.kernel.space.spaces import Lease, Spaces

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
        if not self._stores.is_space(space):
            raise SpaceNotFound(space)
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
        if not self._stores.is_space(space):
            raise SpaceNotFound(space)
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
