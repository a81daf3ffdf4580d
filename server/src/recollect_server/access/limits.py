"""Limits of tokens and spaces: calls a second, bytes a day, open streams, and what a space keeps.

A call is charged to its token first, then to its space, before its request is parsed. 0 is no limit
everywhere. Who was refused today, and the bytes of the day, are kept in a small file
(`access.usage_file`), which is written some seconds behind: a server that is killed forgets those.
"""

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import structlog

from recollect_server.access.principal import Principal
from recollect_server.access.usage_file import DailyUsage, UsageFile
from recollect_server.kernel.domain.errors import IndexUnavailable, LimitExceeded
from recollect_server.kernel.domain.last_used import LastUsed
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.time import DAY, Clock

log = structlog.get_logger("recollect.limits")

MAX_NAMES = 10_000  # of buckets, some 2 MB
_LOGGED_EVERY = 60_000  # milliseconds between two lines about one token or space
_STREAM_RETRY = 1000  # milliseconds: a stream may end at any time
_STORE_RETRY = 60_000  # somebody has to delete something first
_COUNTED_EVERY = 60_000  # milliseconds between two counts of what a space keeps, as notes grow too
_REFUSED_FOR = 1000  # milliseconds for which a full space is not counted again
_LINE_BYTES = 1024  # of a stored line beside its text, at the most usually


class Rate(NamedTuple):
    """Rate of a token bucket, in milliseconds."""

    step: float = 0.0
    """Time in which one token flows in. 0: there is no limit."""
    room: float = 0.0
    """Time in which an empty bucket fills."""

    @classmethod
    def of(cls, tokens: float, milliseconds: int, burst: float) -> "Rate":
        """Return the rate of so many tokens in a span of time, into a bucket of `burst`. 0 tokens:
        no limit.
        """
        step = milliseconds / tokens if tokens else 0.0
        return cls(step, step * max(1, burst))


class Buckets:
    """Token bucket for each of many names, in bounded memory. Safe to call from any thread.

    The generic cell rate algorithm (ITU-T I.371): of each name only the moment is kept at which its
    bucket will be full again. The name that was silent longest is forgotten first: it starts anew
    with a full bucket. The libraries there are keep a list of moments or a record that a thread of
    theirs expires, read the machine's clock themselves, and have no bound on the names.
    """

    def __init__(self, rate: Rate, most: int = MAX_NAMES) -> None:
        self._rate = rate
        self._guard = threading.Lock()  # guards `_full`
        self._full: LastUsed[Hashable, float] = LastUsed(most)

    def take(self, name: Hashable, now: int, rate: Rate | None = None) -> int:
        """Take a token at `now`, in milliseconds. Return 0 if there was one, else the milliseconds
        until there is. `rate` is this name's own.
        """
        step, room = rate or self._rate
        if not step:
            return 0
        with self._guard:
            # A clock that was set back must not leave a bucket empty for longer than it takes to
            # fill.
            full = max(min(self._full.get(name, 0.0), now + room), now)
            wait = full + step - now - room
            self._full.keep(name, full if wait > 0 else full + step)
            return max(1, round(wait)) if wait > 0 else 0

    def __len__(self) -> int:
        return len(self._full)


@dataclass(frozen=True, slots=True)
class Allowance:
    """Amounts that a token or a space may use. 0: no limit."""

    calls: float = 0
    """Calls a second."""
    burst: float = 0
    """Calls at once; 0: those of a second."""
    bytes: float = 0
    """Bytes of requests in a day (UTC)."""
    streams: float = 0

    def but(self, limits: Mapping[str, float]) -> "Allowance":
        """Return these amounts, with those that a token has of its own. Other keys are ignored."""
        own = {name: limits[name] for name in ALLOWANCES if name in limits}
        return replace(self, **own) if own else self

    @property
    def rate(self) -> Rate:
        return Rate.of(self.calls, 1000, self.burst or self.calls)


ALLOWANCES = tuple(each.name for each in fields(Allowance))
"""Keys of a token's own limits, as its ledger line has them."""


@dataclass(frozen=True, slots=True)
class Allowances:
    """Amounts that each token and each space may use."""

    token: Allowance = Allowance()
    space: Allowance = Allowance()


class Limiter:
    """Limiter of tokens and spaces. Safe to call from any thread."""

    def __init__(
        self,
        clock: Clock,
        allowances: Live[Allowances],
        limits_of: Callable[[str], Mapping[str, float]],
        file: UsageFile,
    ) -> None:
        """`limits_of` gives the limits that a token has of its own, by its id."""
        self._clock = clock
        self._allowances = allowances
        self._limits_of = limits_of
        self._file = file
        self._calls = Buckets(Rate())
        self._guard = threading.Lock()  # guards the fields below; nothing slow happens under it
        self._usage = file.read()
        self._streams: dict[tuple[str, str], int] = {}
        self._logged: dict[tuple[str, str], int] = {}
        self._has_changed = False

    def admit(self, principal: Principal, size: int) -> None:
        """Charge a call whose request has `size` bytes. Raises LimitExceeded."""
        space = self._allowances.now.space
        if not (principal.token_id or space.calls or space.bytes):
            return
        now = self._clock()
        for of, name, allowance in self._charged(principal):
            if allowance.calls and (wait := self._calls.take((of, name), now, allowance.rate)):
                self._refuse(of, name, "calls", allowance.calls, wait, now)
            if allowance.bytes:
                self._charge(of, name, allowance.bytes, size, now)

    def charge(self, principal: Principal, size: int) -> None:
        """Charge further bytes of a call that was admitted. Raises LimitExceeded."""
        now = self._clock()
        for of, name, allowance in self._charged(principal):
            if allowance.bytes:
                self._charge(of, name, allowance.bytes, size, now)

    def open_stream(self, principal: Principal) -> Callable[[], None]:
        """Count a stream that opens. Return the function to call once it has ended. Raises
        LimitExceeded.
        """
        now = self._clock()
        counted: list[tuple[str, str]] = []
        for of, name, allowance in self._charged(principal):
            if not allowance.streams:
                continue
            with self._guard:
                is_full = self._streams.get((of, name), 0) >= allowance.streams
                if not is_full:
                    self._streams[of, name] = self._streams.get((of, name), 0) + 1
            if is_full:
                self._end_stream(counted)
                self._refuse(of, name, "streams", allowance.streams, _STREAM_RETRY, now)
            counted.append((of, name))
        return lambda: self._end_stream(counted)

    def refuse_store(self, space: str, limit: str, most: int) -> None:
        """Refuse a write of a space that keeps as much as it may. Raises LimitExceeded."""
        self._refuse("space", space, limit, most, _STORE_RETRY, self._clock())

    def save(self) -> None:
        """Write the file, if there is anything new to write."""
        with self._guard:
            if not self._has_changed:
                return
            self._has_changed = False
            usage = self._usage.copy()
        try:
            self._file.write(usage)
        except OSError as error:
            log.warning("limits_not_saved", reason=error.strerror or str(error))

    def _charged(self, principal: Principal) -> list[tuple[str, str, Allowance]]:
        """Return what a call is charged to: `token` or `space`, the name, and what it may use."""
        allowances = self._allowances.now
        charged = [("space", principal.space, allowances.space)]
        if principal.token_id:
            allowance = allowances.token.but(self._limits_of(principal.token_id))
            charged.insert(0, ("token", principal.token_id, allowance))
        return charged

    def _charge(self, of: str, name: str, most: float, size: int, now: int) -> None:
        with self._guard:
            usage = self._today(now)
            used = usage.bytes.get((of, name), 0)
            if used + size <= most:
                usage.bytes[of, name] = used + size
                usage.shrink()
                self._has_changed = True
                return
        self._refuse(of, name, "bytes", most, DAY - now % DAY, now)

    def _refuse(self, of: str, name: str, limit: str, most: float, wait: int, now: int) -> None:
        with self._guard:
            usage = self._today(now)
            refused = usage.refused.get((of, name, limit), 0) + 1
            usage.refused[of, name, limit] = refused
            usage.shrink()
            self._has_changed = True
            is_due = not 0 <= now - self._logged.get((of, name), -_LOGGED_EVERY) < _LOGGED_EVERY
            if is_due:
                if len(self._logged) >= MAX_NAMES:
                    self._logged.clear()
                self._logged[of, name] = now
        if is_due:
            log.warning("limited", of=of, name=name, limit=limit, most=most, refused_today=refused)
        raise LimitExceeded(limit, of, wait, most)

    def _today(self, now: int) -> DailyUsage:
        """Return the usage of the day, which begins empty. `_guard` is held."""
        if self._usage.day != now // DAY:
            self._usage = DailyUsage(now // DAY)
            self._logged.clear()
        return self._usage

    def _end_stream(self, counted: list[tuple[str, str]]) -> None:
        with self._guard:
            while counted:
                key = counted.pop()
                self._streams[key] -= 1
                if not self._streams[key]:
                    del self._streams[key]


@dataclass(frozen=True, slots=True)
class StoredAmounts:
    """Amounts that a space keeps, or may keep (0: no limit)."""

    conversations: int = 0
    bytes: int = 0
    """Of its logs."""

    def plus(self, other: "StoredAmounts") -> "StoredAmounts":
        return StoredAmounts(self.conversations + other.conversations, self.bytes + other.bytes)


class Quota:
    """Bound of what one space keeps. Safe to call from any thread.

    What is kept is counted anew only when what was admitted since the last count might have used up
    the rest, and now and then; a write is refused by a fresh count only.
    """

    def __init__(
        self,
        limiter: Limiter,
        space: str,
        most: Live[StoredAmounts],
        count: Callable[[], StoredAmounts],
        clock: Clock,
    ) -> None:
        self._limiter = limiter
        self._space = space
        self._most = most
        self._count = count
        self._clock = clock
        self._guard = threading.Lock()  # guards the fields below, and keeps counts apart
        self._stored: StoredAmounts | None = None
        self._admitted = StoredAmounts()
        """Since the count, at the most."""
        self._counted = 0
        self._count_again = 0
        """Time before which a full space is not counted again."""

    def admit(self, *, conversations: int = 0, size: int = 0) -> None:
        """Admit a write of so many new conversations, or of a request of `size` bytes. Raises
        LimitExceeded.
        """
        bounds = self._most.now
        if conversations and bounds.conversations:
            limit, most = "conversations", bounds.conversations
        elif size and bounds.bytes:
            limit, most = "stored_bytes", bounds.bytes
        else:
            return
        now = self._clock()
        expected = StoredAmounts(conversations, 2 * size + _LINE_BYTES)
        with self._guard:
            is_fresh = 0 <= now - self._counted < _COUNTED_EVERY
            # A clock that was set back must not keep a space full for longer than that.
            is_full = 0 < self._count_again - now <= _REFUSED_FOR
            if self._stored is None or not (is_full or (is_fresh and self._fits(expected))):
                try:
                    self._stored, self._admitted, self._counted = (
                        self._count(),
                        StoredAmounts(),
                        now,
                    )
                except IndexUnavailable:  # messages are accepted without an index
                    return
            fits = self._fits(StoredAmounts(conversations, size))
            if fits:
                self._admitted = self._admitted.plus(expected)
            else:
                self._count_again = now + _REFUSED_FOR
        if not fits:
            self._limiter.refuse_store(self._space, limit, most)

    def _fits(self, added: StoredAmounts) -> bool:
        assert self._stored is not None
        most = self._most.now
        total = self._stored.plus(self._admitted).plus(added)
        return not (
            (added.conversations and 0 < most.conversations < total.conversations)
            or (added.bytes and 0 < most.bytes < total.bytes)
        )
