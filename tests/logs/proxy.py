"""A connection to PostgreSQL that a test can lose at any statement."""

import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.postgres import Postgres


class Proxy:
    """A socket before PostgreSQL's that can lose the answer of a statement, or all connections."""

    def __init__(self, postgres: Postgres, folder: Path) -> None:
        self._target = str(postgres.folder / ".s.PGSQL.5432")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._open: set[socket.socket] = set()
        self.lose: bytes = b""
        """Text of a statement: it is passed on, and its connection ends with the answer."""
        self.lose_request = False
        """The statement is not passed on either."""
        self.is_cut = False
        """All connections end, and none begins."""
        self.hold: bytes = b""
        """Text of a statement: it is not passed on, nor is anything behind it, until `passes`."""
        self.passes = threading.Event()
        self.passes.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Let no further connection in. Those that stand end with their callers, which sign off by
        them: without one they would wait for one.
        """
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.passes.set()

    def cut(self, last: Collection[socket.socket] = ()) -> None:
        """End all connections, some of them `last`: who loses those finds no other one."""
        for end in sorted(self._open, key=last.__contains__):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                if self.is_cut:
                    caller.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self._open |= {caller, server}
                if self.is_cut:  # meanwhile, and `cut` may not have seen these
                    self._end(caller, server)
                    continue
                threading.Thread(target=self._serve, args=(caller, server), daemon=True).start()

    def _serve(self, caller: socket.socket, server: socket.socket) -> None:
        lost = threading.Event()

        def answers() -> None:
            with suppress(OSError):
                while data := server.recv(1 << 16):
                    self.passes.wait()
                    if lost.is_set():
                        if self.is_cut:
                            self.cut(last=(caller, server))
                        break
                    caller.sendall(data)
            self._end(caller, server)

        threading.Thread(target=answers, daemon=True).start()
        with suppress(OSError):
            while data := caller.recv(1 << 16):
                if self.hold and self.hold in data:
                    self.hold = b""
                    self.passes.clear()
                self.passes.wait()
                if self.lose and self.lose in data:
                    self.lose = b""
                    lost.set()
                    if self.lose_request:
                        break
                server.sendall(data)
        if lost.is_set() and not self.lose_request:
            return  # until the answer came
        self._end(caller, server)

    def _end(self, *ends: socket.socket) -> None:
        for end in ends:
            self._open.discard(end)
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def proxied(postgres: Postgres, url: str) -> Iterator[tuple[Proxy, str]]:
    with TemporaryDirectory(dir=postgres.folder) as folder:
        proxy = Proxy(postgres, Path(folder))
        try:
            yield proxy, url.replace(f"host={postgres.folder}", f"host={folder}")
        finally:
            proxy.close()
