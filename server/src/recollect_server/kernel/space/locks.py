"""The locks of a space by name, and the one order in which a thread takes them.

| rank | name | orders |
| --- | --- | --- |
| `REQUEST` | a request id, else what the call is about | a repeat waits for its first try |
| `DELIVERY` | channel and provider's id | a third party's message is kept once |
| `PLACE` | a place (`people.routing.Place`) | two first messages begin one conversation |
| `MAIL` | the ids that an e-mail names | it is routed when all that came before it is stored |
| `PARTY` | channel and address | a third party has one communication |
| `CONVERSATION` | a conversation or a communication | its lines |

A thread that holds a lock takes none of the same or a lower rank. Locks of one rank share a fixed
number of stripes, so two names may be one lock: those of one rank are taken together, or not at
all.

Behind all of them come `AnchorLedger.lock` and then the index's own. The other locks of the server
guard a few fields of one object each, and nothing is called under them that takes one of these.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import IntEnum
from types import TracebackType

from recollect_server.kernel.domain.telemetry import UNMEASURED, Step, Telemetry

_STRIPES = 1024

Lock = AbstractContextManager[object]
"""A lock, or several that are taken together."""
_NO_LOCK: Lock = nullcontext()


class Rank(IntEnum):
    """The kinds of named locks, in the order in which they are taken."""

    REQUEST = 1
    DELIVERY = 2
    PLACE = 3
    MAIL = 4
    PARTY = 5
    CONVERSATION = 6


class LockOrderError(AssertionError):
    """Locks were taken in another order than their ranks say: two such threads may wait for each
    other.
    """


class LockOrder:
    """The order of locks as threads really take them, checked. Tests switch it on."""

    def __init__(self) -> None:
        self._held = threading.local()

    @contextmanager
    def checked(self, rank: Rank, lock: Lock) -> Iterator[None]:
        """Hold a lock of a rank. Raise LockOrderError if this thread holds one of the same or a
        higher rank.
        """
        held: list[Rank] = self._held.__dict__.setdefault("ranks", [])
        if held and held[-1] >= rank:
            raise LockOrderError(
                f"a {rank.name} lock is taken while {', '.join(it.name for it in held)} is held"
            )
        with lock:
            held.append(rank)
            try:
                yield
            finally:
                held.pop()


class _Stripes(dict[int, threading.Lock]):
    """Locks by their numbers, made when first held: most names never come."""

    def __missing__(self, stripe: int) -> threading.Lock:
        # `setdefault` is atomic: all callers get the same one.
        return self.setdefault(stripe, threading.Lock())


class StripedLocks:
    """The locks of one rank: a fixed number that share all names between them."""

    def __init__(self, rank: Rank, order: LockOrder | None = None) -> None:
        """`order` checks every lock that is taken."""
        self._rank = rank
        self._order = order
        self._locks = _Stripes()

    def hold(self, name: str) -> Lock:
        """Return the lock that a name falls to, for a `with`."""
        lock = self._locks[hash(name) % _STRIPES]
        return self._order.checked(self._rank, lock) if self._order else lock

    def hold_each(self, names: Iterable[str]) -> Lock:
        """Return the locks of several names together, for a `with`."""
        return self._together(sorted({hash(name) % _STRIPES for name in names}))

    def hold_all(self) -> Lock:
        """Return every lock of the rank together, for a `with`: nobody else holds any."""
        return self._together(range(_STRIPES))

    def _together(self, stripes: Iterable[int]) -> Lock:
        locks = _Several([self._locks[stripe] for stripe in stripes])
        return self._order.checked(self._rank, locks) if self._order else locks


class _Several:
    """Locks that are taken together, in the order given.

    Written out, not with an `ExitStack`, which takes five times as long.
    """

    __slots__ = ("_locks",)

    def __init__(self, locks: Sequence[Lock]) -> None:
        self._locks = locks

    def __enter__(self) -> None:
        for taken, lock in enumerate(self._locks):
            try:
                lock.__enter__()
            except BaseException:
                for before in reversed(self._locks[:taken]):
                    before.__exit__(None, None, None)
                raise

    def __exit__(self, *_: object) -> None:
        for lock in reversed(self._locks):
            lock.__exit__(None, None, None)


class _Measured:
    """A lock; the wait for it is measured."""

    __slots__ = ("_lock", "_telemetry")

    def __init__(self, lock: Lock, telemetry: Telemetry) -> None:
        self._lock = lock
        self._telemetry = telemetry

    def __enter__(self) -> None:
        with self._telemetry.step(Step.LOCK):
            self._lock.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.__exit__(kind, error, traceback)


class Locks:
    """All named locks of a space."""

    def __init__(self, order: LockOrder | None = None, telemetry: Telemetry = UNMEASURED) -> None:
        self._telemetry = telemetry
        (
            self.requests,
            self.deliveries,
            self.places,
            self.mails,
            self.parties,
            self.conversations,
        ) = (StripedLocks(rank, order) for rank in Rank)

    def to_write(self, conversation: str, request: str) -> tuple[Lock, Lock]:
        """Return the locks of a request (empty: none) and of a conversation, for a `with` that
        takes them in this order. The wait is measured.
        """
        first = self.requests.hold(request) if request else _NO_LOCK
        second = self.conversations.hold(conversation)
        if self._telemetry is UNMEASURED:
            return first, second
        return _Measured(_Several([first, second]), self._telemetry), _NO_LOCK

    def exclusive(
        self,
        *,
        request: str = "",
        delivery: str = "",
        place: str = "",
        mails: Collection[str] = (),
        all_mails: bool = False,
        party: str = "",
        conversation: str = "",
    ) -> Lock:
        """Return a lock, for a `with`, that keeps out every other call about any of what is named.

        An empty name is none. The locks of all that is named are taken in their order.
        """
        locks: list[Lock] = []
        if request:
            locks.append(self.requests.hold(request))
        if delivery:
            locks.append(self.deliveries.hold(delivery))
        if place:
            locks.append(self.places.hold(place))
        if all_mails:
            locks.append(self.mails.hold_all())
        elif mails:
            locks.append(self.mails.hold_each(mails))
        if party:
            locks.append(self.parties.hold(party))
        if conversation:
            locks.append(self.conversations.hold(conversation))
        return locks[0] if len(locks) == 1 else _Several(locks)
