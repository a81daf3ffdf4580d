"""States of logs as their lines are read in order."""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from recollect_server.kernel.domain.ids import Action
from recollect_server.kernel.domain.last_used import LastUsed
from recollect_server.kernel.log.lines import Line
from recollect_server.kernel.log.order import OrderedChange
from recollect_server.kernel.log.store import START, LogNotFound, LogStore, LogUnavailable, Position

_MAX_STATES = 2000


class HasChannel(Protocol):
    """A state of a log, which is on a channel."""

    @property
    def channel(self) -> str: ...


State = TypeVar("State", bound=HasChannel)


class Replaying(Generic[State]):
    """States of the logs of one kind. One thread at a time may call it.

    The changes of a log come in the order of its lines, so most states follow from the one before.
    """

    def __init__(
        self,
        store: LogStore,
        folded: Callable[[State | None, Line, str], State | None],
        indexed: Callable[[str], tuple[Position, State] | None],
    ) -> None:
        """`folded` returns the state behind a line; `indexed` what the index has of a log, and up
        to where: then the log need not be read from its top.
        """
        self._store = store
        self._folded = folded
        self._indexed = indexed
        self._states: LastUsed[str, tuple[Position, State]] = LastUsed(_MAX_STATES)
        """Each with how much of its log is in it."""

    def behind(self, change: OrderedChange) -> State | None:
        """Return the state behind a change or a later one; None if the log is gone. Raises
        StorageUnavailable.
        """
        name = change.log
        before = self._states.get(name) if change.action is Action.APPEND else None
        if before is None and change.action is Action.APPEND and change.start:
            before = self._indexed(name)
        end, state = before or (START, None)
        if end.bytes < change.until:
            lines: Sequence[Line] = change.lines
            if change.action is not Action.APPEND or change.start != end.bytes:
                # lines between may have been no change of this kind
                end, state = (end, state) if end.bytes < change.start else (START, None)
                lines = self._read(change, end)
            for line in lines:
                state = self._folded(state, line, name)
            if not lines:
                return None
            end = Position(lines[-1].sequence, change.until)
        if state is None:
            return None
        self._states.keep(name, (end, state))
        return state

    def forget(self, name: str) -> None:
        """Drop the state of a log that is deleted."""
        self._states.pop(name, None)

    def clear(self) -> None:
        """Drop every state."""
        self._states.clear()

    def _read(self, change: OrderedChange, after: Position) -> list[Line]:
        """Return the lines of a log behind a position up to the end of a change."""
        try:
            return list(self._store.read(change.log, after, change.until))
        except LogNotFound:
            return []
        except LogUnavailable as error:
            # Named, for a stream that waits for it may watch many.
            raise LogUnavailable(change.log, "read", f"{change.log}: {error.reason}") from error
