"""A space whose index is being made anew: what was read so far answers searches, and says so."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from recollect_server.kernel.compare.recovery import Making
from recollect_server.kernel.domain.errors import IndexUnavailable, StorageUnavailable
from recollect_server.kernel.domain.ids import Action
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.store import LogStore
from recollect_server.kernel.space.space import Space

_GONE = frozenset({Action.DELETE, Action.REDACT, Action.REPLACE})
"""Changes after which the index may have something that nobody is to find any more."""


class IndexReading(Making):
    """The state of an index that is being made. Safe to call from any thread."""

    def __init__(self, logs: LogStore, moment: str) -> None:
        """`moment`: one before the first log is read."""
        self._logs = logs
        self._moment = moment
        self._guard = threading.Condition()  # guards everything below
        self._index: Index | None = None
        self._users = 0
        self._done = self._of = 0

    def begin(self, index: Index) -> None:
        """Let an index be searched, which has nothing of before."""
        with self._guard:
            self._index = index

    def progress(self, done: int, of: int) -> None:
        """Note how many conversations are read."""
        self._done, self._of = done, of

    def end(self) -> None:
        """Let nobody search it any more, and wait for those who do: it is to be closed."""
        with self._guard:
            self._index = None
            self._guard.wait_for(lambda: not self._users)

    def reason(self) -> str:
        """Return why a search may miss something."""
        return (
            f"the index is being made: {self._done} of {self._of} conversations are read, the"
            " oldest first"
        )

    @contextmanager
    def using(self, index: Index) -> Iterator[None]:
        """Keep the index open. Raises DataUnavailable if it is not to be searched any more."""
        with self._guard:
            if self._index is not index:
                raise IndexUnavailable("the index is being made once more")
            self._users += 1
        try:
            yield
        finally:
            with self._guard:
                self._users -= 1
                self._guard.notify_all()

    def index(self) -> Index | None:
        """Return the index; None if it is not to be searched: there is none yet, or it may have
        something that another process deleted since it was read.
        """
        index = self._index
        if index is None or (sharing := self._logs.sharing) is None:
            return index
        with suppress(StorageUnavailable):
            elsewhere = sharing.changes(self._moment)
            if elsewhere.is_whole and not any(it.action in _GONE for it in elsewhere.changes):
                return index
        return None


class ReadingSpace:
    """A space that is being read, for one call. It writes nothing."""

    is_resting = False

    def __init__(
        self,
        name: str,
        reading: IndexReading,
        index: Index,
        space: Space,
        handlers: Mapping[str, object],
    ) -> None:
        self.name = name
        self.space = space
        self.handlers = handlers
        """Handlers of the services that answer searches."""
        self._use = partial(reading.using, index)

    def carry_out(self, work: Callable[..., Any], *of: Any, appends: bool = False) -> Any:
        """Return the result of a call that reads."""
        assert not appends
        with self._use():
            return work(*of)

    def follow(self) -> None:
        """Do nothing: what others write is read with the rest."""
