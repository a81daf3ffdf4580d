"""Uses of open spaces."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from recollect_server.services.limits import Quota


class OpenedSpace(Protocol):
    name: str
    handlers: Mapping[str, object]
    """Handlers of its services, by the services' names."""
    quota: Quota
    """Bound of what it keeps."""

    @property
    def takes_appends(self) -> bool:
        """Return whether it is suspended, and has room for what is appended meanwhile."""

    @property
    def has_backlog(self) -> bool:
        """Return whether it is suspended, and its index has not taken in everything."""

    def carry_out(self, work: Callable[..., Any], *of: Any, appends: bool = False) -> Any:
        """Return the result of a call's work `of` these arguments, behind what other processes
        wrote before it. `appends`: all that it does is to append to one conversation.
        """

    def follow(self) -> None:
        """Take in what other processes wrote."""

    def settle(self) -> None:
        """Wait until its files have all that was acknowledged, or cannot take it now."""

    def suspend(self) -> bool:
        """Close its files and stay in memory. Return False if it is to be closed instead. Nobody
        uses it now.
        """

    def appended(self) -> None:
        """Take note that an append to the suspended space is over."""

    def resume(self) -> None:
        """Open its files again. Raises IndexUnavailable, OSError: then it is to be closed."""

    def close(self) -> None:
        """Close it. Nobody uses it any more."""


S = TypeVar("S", bound=OpenedSpace)


class Lease(Generic[S]):
    """Use of an open space: it is not closed before `end`."""

    __slots__ = ("_end", "_is_append", "space")

    def __init__(self, space: S, end: Callable[[], None], *, is_append: bool = False) -> None:
        """`end` is called once, at the end. `is_append`: to append to the space, which is
        suspended.
        """
        self.space = space
        self._end: Callable[[], None] | None = end
        self._is_append = is_append

    def end(self) -> None:
        """End the use. It waits for nothing, and a second time does nothing."""
        end, self._end = self._end, None
        if end is not None:
            if self._is_append:
                self.space.appended()
            end()

    def __enter__(self) -> S:
        return self.space

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()
