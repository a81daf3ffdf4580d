"""HTTP connections that are bounded in time and in number, so that no client keeps others out."""

import asyncio
import socket
from collections.abc import Hashable
from typing import ClassVar, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_CONNECTION = "recollect.connection"
"""The key of a request's scope under which its connection is."""


class BoundedHttp(H11Protocol):
    """A connection that ends where the client keeps it waiting.

    Each state in which the server waits for bytes of a request has a limit of its own, which a
    single byte does not renew: `_follow` names the state after every change. uvicorn limits an idle
    connection alone. A client that does not read is given up where it takes nothing for a while.

    Where more than `most` connections wait for their clients, the one that waits longest ends. One
    that serves a caller whom the application admitted does not count: of those each caller has a
    share.
    """

    head_seconds: ClassVar[float] = 10.0
    """Time for a head, from the connection or, of a later request, from its first byte."""
    body_seconds: ClassVar[float] = 30.0
    """Time for a body, from the end of its head."""
    rest_seconds: ClassVar[float] = 5.0
    """Time for the rest of a body whose request has been answered."""
    reading_seconds: ClassVar[float] = 30.0
    """Time in which a client must take a part of what is sent to it."""
    most: ClassVar[int] = 256
    """Connections that wait for their clients at the same time."""
    share: ClassVar[int] = 128
    """Connections that serve one caller at the same time."""

    _caller: Hashable | None = None
    """The caller that is served, once the application has admitted the request."""
    _owes: str | None = None
    """The part of a request that the client must send in time."""
    _limit: asyncio.TimerHandle | None = None
    """Ends the connection unless that part comes."""
    _waits_since = 0.0
    _reading: asyncio.TimerHandle | None = None
    """Looks whether the client reads."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        # asyncio does so only where a socket names its protocol, which `create_server` does not:
        # head and body are written apart, and the body waited 40 ms for the head's acknowledgement.
        connection = transport.get_extra_info("socket")
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._waits_since = self.loop.time()
        self._limit_to("head", self.head_seconds)
        waiting = [it for it in self._all() if it._is_waiting()]
        if len(waiting) > self.most:
            min(waiting, key=lambda it: it._waits_since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End with the connection."""
        self._limit_to(None)
        self._stop_looking()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request."""
        super().data_received(data)
        self._follow()

    def handle_events(self) -> None:
        """Let the requests that begin here know their connection."""
        super().handle_events()
        if self.cycle is not None:
            cast("dict[str, object]", self.cycle.scope)[_CONNECTION] = self

    def on_response_complete(self) -> None:
        """Wait for the rest of a request, or for the next one."""
        self._caller = None
        self._waits_since = self.loop.time()
        super().on_response_complete()
        self._follow(is_idle=True)
        self._look_at_reader()

    def pause_writing(self) -> None:
        """Give the client time to read."""
        super().pause_writing()
        self._look_at_reader()

    def resume_writing(self) -> None:
        """Go on with a client that has read, and must read what is left, too."""
        super().resume_writing()
        self._look_at_reader()

    def admit(self, caller: Hashable) -> bool:
        """Serve a caller, unless as many connections as its share do so already."""
        if sum(it._caller == caller for it in self._all()) >= self.share:
            return False
        self._caller = caller
        return True

    def extend_body(self, seconds: float) -> None:
        """Give the body that is awaited a time of its own, from now on."""
        if self._owes == "body":
            self._limit_to(None)
            self._limit_to("body", seconds)

    def _all(self) -> list["BoundedHttp"]:
        return [it for it in self.connections if isinstance(it, BoundedHttp)]

    def _is_waiting(self) -> bool:
        if self._caller is not None or self.transport.is_closing():
            return False
        return self._owes is not None or self.cycle is None or self.cycle.response_complete

    def _follow(self, is_idle: bool = False) -> None:
        """Limit what the client owes now. `is_idle` is true if nothing came of a next head."""
        theirs = self.conn.their_state
        if theirs is h11.SEND_BODY and self.cycle.response_complete:
            self._limit_to("rest", self.rest_seconds)
        elif theirs is h11.SEND_BODY:
            self._limit_to("body", self.body_seconds)
        elif theirs is h11.IDLE and not is_idle:
            self._limit_to("head", self.head_seconds)
        else:
            self._limit_to(None)

    def _limit_to(self, owed: str | None, seconds: float = 0.0) -> None:
        if owed == self._owes:
            return
        if self._limit is not None:
            self._limit.cancel()
        self._owes = owed
        self._limit = self.loop.call_later(seconds, self.transport.abort) if owed else None

    def _look_at_reader(self) -> None:
        self._stop_looking()
        before = self.transport.get_write_buffer_size()

        def look() -> None:
            if self.transport.get_write_buffer_size() >= before:
                self.transport.abort()
            else:
                self._look_at_reader()

        if before:
            self._reading = self.loop.call_later(self.reading_seconds, look)

    def _stop_looking(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None


def connection_of(scope: object) -> BoundedHttp | None:
    """Return the connection of a request, by its scope; None where another server took it."""
    connection = cast("dict[str, object]", scope).get(_CONNECTION)
    return connection if isinstance(connection, BoundedHttp) else None
