"""A token bucket for each of many names, in bounded memory.

The generic cell rate algorithm (ITU-T I.371): of each name only the moment is kept at which its
bucket will be full again. The libraries there are keep a list of moments or a record that a thread
of theirs expires, read the machine's clock themselves, and have no bound on the names; this is a
dozen lines.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable

MAX_NAMES = 10_000  # some 2 MB


class Buckets:
    """Safe to call from any thread. The name that was silent longest is forgotten first: it starts
    anew with a full bucket.
    """

    def __init__(self, per_minute: int, burst: int, most: int = MAX_NAMES) -> None:
        """`per_minute` tokens flow into a bucket of `burst`. 0 a minute: there is no limit."""
        self._step = 60_000 / per_minute if per_minute else 0.0
        self._room = self._step * burst
        self._most = most
        self._guard = threading.Lock()  # guards `_full`
        self._full: OrderedDict[Hashable, float] = OrderedDict()

    def take(self, name: Hashable, now: int) -> int:
        """Takes a token at `now`, in milliseconds. 0 if there was one, else after how many
        milliseconds there is.
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
