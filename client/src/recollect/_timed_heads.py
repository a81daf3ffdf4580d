"""HTTP connections whose requests must begin in time, so that half-sent ones keep nobody out."""

import asyncio
import socket
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedHeads(H11Protocol):
    """A connection that ends where the head of a request takes too long, or where many newer
    connections wait for theirs.
    """

    seconds: ClassVar[float] = 10.0
    """Time for a head, from the connection or, of a later request, from its first byte."""
    most: ClassVar[int] = 256
    """Connections that wait for a head at the same time; of more the oldest ends."""

    _end: asyncio.TimerHandle | None = None
    """Ends the connection while a head is awaited."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        # asyncio does so only where a socket names its protocol, which `create_server` does not:
        # head and body are written apart, and the body waited 40 ms for the head's acknowledgement.
        connection = transport.get_extra_info("socket")
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End with the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._end is None and not self.transport.is_closing():
            self._await_head()

    def _await_head(self) -> None:
        self._end = self.loop.call_later(self.seconds, self.transport.abort)
        waiting = [it for it in self.connections if isinstance(it, TimedHeads) and it._end]
        if len(waiting) > self.most:
            oldest = min(waiting, key=lambda it: it._end.when() if it._end else 0.0)
            oldest._stop_waiting()
            oldest.transport.abort()

    def _stop_waiting(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None
