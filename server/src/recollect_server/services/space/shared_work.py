"""The work that the processes over one store divide among them: each piece is done by one of them.

The leases and the vectors are in the store. Without other processes all work is done here, and
nothing is shared.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from recollect_server.domain.errors import StorageUnavailable
from recollect_server.storage.logs.store import Purpose, Sharing

_LEASE = 60.0  # seconds of a lease; a turn of its work is shorter but for a slow model
_REFUSED_SECONDS = 5.0  # until a lease is asked for again that another process has
_CHANGES_AGE, _MOST_CHANGES = 86_400.0, 100_000  # seconds and number of changes that are kept


class SharedWork:
    """The part of one process in the work on a space."""

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
