"""Rate limit of senders who are not owners. The stats name those who exceeded it."""

import threading
from collections import OrderedDict
from collections.abc import Hashable

import structlog

from recollect_server.domain.errors import IndexUnavailable, RateLimited
from recollect_server.services.space.space import Space

log = structlog.get_logger("recollect.rate_limit")

# milliseconds between two notes of one sender: a flood must not become one of writes
_NOTED_EVERY = 60_000
_MAX_COUNTED = 10_000
MAX_NAMES = 10_000  # some 2 MB


class Buckets:
    """Token bucket for each of many names, in bounded memory. Safe to call from any thread.

    The generic cell rate algorithm (ITU-T I.371): of each name only the moment is kept at which its
    bucket will be full again. The name that was silent longest is forgotten first: it starts anew
    with a full bucket. The libraries there are keep a list of moments or a record that a thread of
    theirs expires, read the machine's clock themselves, and have no bound on the names.
    """

    def __init__(self, per_minute: int, burst: int, most: int = MAX_NAMES) -> None:
        """`per_minute` tokens flow into a bucket of `burst`. 0 a minute: there is no limit."""
        self._step = 60_000 / per_minute if per_minute else 0.0
        self._room = self._step * burst
        self._most = most
        self._guard = threading.Lock()  # guards `_full`
        self._full: OrderedDict[Hashable, float] = OrderedDict()

    def take(self, name: Hashable, now: int) -> int:
        """Take a token at `now`, in milliseconds. Return 0 if there was one, else the milliseconds
        until there is.
        """
        if not self._step:
            return 0
        with self._guard:
            # A clock that was set back must not leave a bucket empty for longer than it takes to
            # fill.
            full = max(min(self._full.get(name, 0.0), now + self._room), now)
            wait = full + self._step - now - self._room
            self._full[name] = full if wait > 0 else full + self._step
            self._full.move_to_end(name)
            while len(self._full) > self._most:
                self._full.popitem(last=False)
            return max(1, round(wait)) if wait > 0 else 0

    def __len__(self) -> int:
        return len(self._full)


class RateLimiter:
    """Rate limiter of senders. Safe to call from any thread."""

    def __init__(self, space: Space, per_minute: int, burst: int) -> None:
        self._space = space
        self._buckets = Buckets(per_minute, burst)
        self._guard = threading.Lock()  # guards `_counted`
        # refused since when it was noted
        self._counted: OrderedDict[tuple[str, str], tuple[int, int]] = OrderedDict()

    def admit(self, channel: str, sender: str) -> None:
        """Admit a message. Raises RateLimited."""
        now = self._space.clock()
        wait = self._buckets.take((channel, sender), now)
        if not wait:
            return
        with self._guard:
            refused, noted = self._counted.get((channel, sender), (0, 0))
            due = now - noted >= _NOTED_EVERY
            self._counted[channel, sender] = (0, now) if due else (refused + 1, noted)
            self._counted.move_to_end((channel, sender))
            while len(self._counted) > _MAX_COUNTED:
                self._counted.popitem(last=False)
        if due:
            log.warning("sender_limited", channel=channel, sender=sender, refused=refused + 1)
            self._note(channel, sender, refused + 1, now)
        raise RateLimited(sender, wait)

    def close(self) -> None:
        """Write the counts to the index."""
        with self._guard:
            left = [(name, refused) for name, (refused, _) in self._counted.items() if refused]
            self._counted.clear()
        for (channel, sender), refused in left:
            self._note(channel, sender, refused, self._space.clock())

    def _note(self, channel: str, sender: str, refused: int, now: int) -> None:
        try:
            self._space.index.routing.note_limited(channel, sender, refused, now)
        except IndexUnavailable as error:
            log.warning("sender_not_noted", channel=channel, sender=sender, reason=str(error))
