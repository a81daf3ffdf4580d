"""A connection that breaks: a TCP proxy between a client and a server."""

import contextlib
import socket
import threading


class Proxy:
    """Passes bytes on to a server, which may change, until it breaks the connections or is told to
    freeze.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.received = self.sent = 0
        """Bytes from clients, and from the server, that were passed on."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._guard = threading.Lock()
        self._open: set[socket.socket] = set()
        self._bytes_left: int | None = None
        self._moving = threading.Event()
        self._moving.set()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def break_now(self) -> None:
        """Break every connection."""
        with self._guard:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._bytes_left = None

    def break_after(self, count: int) -> None:
        """Break every connection after `count` more bytes from the server."""
        with self._guard:
            self._bytes_left = count

    def freeze(self) -> None:
        """Forward nothing any more, and leave the connections open."""
        self._moving.clear()

    def thaw(self) -> None:
        """Forward everything again."""
        self._moving.set()

    def close(self) -> None:
        self._closed = True
        self.thaw()
        self._listener.shutdown(socket.SHUT_RDWR)  # a close alone leaves its thread waiting
        self._listener.close()
        self.break_now()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            host, port = self.target.rsplit(":", 1)
            try:
                far = socket.create_connection((host, int(port)), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._guard:
                self._open |= {near, far}
            threading.Thread(target=self._pass_on, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(far, near, True), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 14):
                self._moving.wait()
                with self._guard:
                    self.sent += len(data) * counted
                    self.received += len(data) * (not counted)
                    if counted and self._bytes_left is not None:
                        data, self._bytes_left = (
                            data[: self._bytes_left],
                            self._bytes_left - len(data),
                        )
                        over = self._bytes_left <= 0
                    else:
                        over = False
                sink.sendall(data)
                if over:
                    self.break_now()
                    break
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        with self._guard:
            self._open -= {source, sink}
