"""The open spaces of a server: opened on demand, closed when others need their place.

A space is used by leases. One that somebody has a lease of is never closed; of the others the least
recently used one is, once as many are open as may be. Opening and closing happen outside of the
lock, one of them per name at a time: a space that is slow or fails holds up no other.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

import structlog

from recollect_server.domain.errors import Stopping, TooManySpaces
from recollect_server.services.limits import Quota

log = structlog.get_logger("recollect.spaces")

_PATIENCE = 5.0  # seconds that a call waits for the place of another space


class OpenedSpace(Protocol):
    """Protocol of an open space."""

    handlers: Mapping[str, Any]
    """Handlers of its services, by the services' names."""
    quota: Quota
    """Bound of what it keeps."""

    def close(self) -> None:
        """Close it. Nobody uses it any more."""


S = TypeVar("S", bound=OpenedSpace)


class _Place(Generic[S]):
    """Place of a space among the open ones. `Spaces` guards it."""

    __slots__ = ("leases", "name", "space")

    def __init__(self, name: str) -> None:
        self.name = name
        self.space: S | None = None
        """None while it is being opened or closed."""
        self.leases = 0


class Lease(Generic[S]):
    """Use of an open space: it is not closed before `end`."""

    __slots__ = ("_ended", "_place", "_spaces", "space")

    def __init__(self, spaces: "Spaces[S]", place: _Place[S], space: S) -> None:
        self.space = space
        self._spaces = spaces
        self._place = place
        self._ended = False

    def end(self) -> None:
        """End the use. It waits for nothing, and a second time does nothing."""
        self._spaces._end(self)

    def __enter__(self) -> S:
        return self.space

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()


class Spaces(Generic[S]):
    """All open spaces. Safe to call from any thread."""

    def __init__(self, open_space: Callable[[str], S], most: int) -> None:
        """`open_space` opens the space of a name; at most `most` are open at a time."""
        self._open_space = open_space
        self._most = most
        # guards everything below; nothing slow happens under it
        self._changed = threading.Condition()
        self._places: OrderedDict[str, _Place[S]] = OrderedDict()  # least recently used first
        self._stopping = False

    def use(self, name: str) -> Lease[S]:
        """Return a lease of a space, opened if it is not open.

        Raises TooManySpaces, Stopping, and what opening it raises.
        """
        with self._changed:
            place = self._places.get(name)
            if place is not None and place.space is not None and not self._stopping:
                place.leases += 1
                self._places.move_to_end(name)
                return Lease(self, place, place.space)
        return self._open(name)

    def names(self) -> list[str]:
        """Return the names of the open spaces, the least recently used first."""
        with self._changed:
            return [name for name, place in self._places.items() if place.space is not None]

    def close(self) -> None:
        """Wait for the leases and close every space. Nothing can be opened any more."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: (
                        not self._places
                        or any(place.space and not place.leases for place in self._places.values())
                    )
                )
                if not self._places:
                    return
                place = next(
                    place for place in self._places.values() if place.space and not place.leases
                )
                space, place.space = place.space, None
            if space is not None:
                self._close(place, space)

    def _open(self, name: str) -> Lease[S]:
        while True:
            with self._changed:
                if self._stopping:
                    raise Stopping
                place = self._places.get(name)
                if place is not None and place.space is not None:
                    place.leases += 1
                    self._places.move_to_end(name)
                    return Lease(self, place, place.space)
                if place is not None:  # somebody opens or closes it
                    self._changed.wait(_PATIENCE)
                    continue
                evicted = space = None
                if len(self._places) < self._most:
                    opened = self._places[name] = _Place(name)
                else:
                    evicted = next(
                        (it for it in self._places.values() if it.space and not it.leases), None
                    )
                    if evicted is None:
                        if not any(it.space is None for it in self._places.values()):
                            raise TooManySpaces(self._most)
                        self._changed.wait(_PATIENCE)
                        continue
                    space, evicted.space = evicted.space, None
            if evicted is not None and space is not None:
                self._close(evicted, space)
                continue
            return self._opened(opened)

    def _opened(self, place: _Place[S]) -> Lease[S]:
        try:
            space = self._open_space(place.name)
        except BaseException as error:
            log.warning("space_not_opened", space=place.name, reason=str(error))
            with self._changed:
                del self._places[place.name]
                self._changed.notify_all()
            raise
        with self._changed:
            place.space = space
            place.leases += 1
            self._changed.notify_all()
        return Lease(self, place, space)

    def _close(self, place: _Place[S], space: S) -> None:
        try:
            space.close()
        except Exception:
            # whatever one space raises, the others are served
            log.exception("space_not_closed", space=place.name)
        finally:
            with self._changed:
                del self._places[place.name]
                self._changed.notify_all()

    def _end(self, lease: Lease[S]) -> None:
        with self._changed:
            if lease._ended:
                return
            lease._ended = True
            lease._place.leases -= 1
            if not lease._place.leases:
                self._changed.notify_all()
