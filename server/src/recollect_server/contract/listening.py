"""The addresses that the server listens on: TCP ports, and the files of Unix sockets."""

import errno
import fcntl
import os
import shutil
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

import grpc

from recollect_server.contract import endpoints
from recollect_server.contract.certificates import Certificates, TlsFiles, WrongCertificate

_SOCKET = "socket"  # name of a Unix socket's file until it takes its path
_MAX_SOCKET_PATH = 107 if sys.platform == "linux" else 103  # bytes that the system takes

_LOCK_SECONDS = 2.0  # that a start waits for another one: it takes the path in milliseconds


class CannotListen(Exception):
    """The address cannot be listened on; the text says why and what to do."""


class Listeners:
    """The addresses of one server: opened once, closed once."""

    def __init__(
        self,
        addresses: Sequence[str],
        tls: TlsFiles | None = None,
        refusal: Callable[[], str] = lambda: "",
        held: Path | None = None,
    ) -> None:
        """`addresses`: `host:port` (port 0: any free one) or `unix:PATH`. With `tls`, ports use
        TLS. `refusal` returns why nobody may call from other machines yet, with advice; empty if
        they may. `held` is a folder that this process has locked.
        """
        self._held = held
        self._addresses = addresses
        self._tls = tls
        self._refusal = refusal
        self._sockets: list[UnixSocket] = []

    def open(self, server: grpc.Server) -> list[str]:
        """Add the addresses to a server that has not started, and return those to call, in order.
        Raises CannotListen; then no file of a socket is left.
        """
        try:
            certificates = None if self._tls is None else Certificates(self._tls)
            return [self._open(address, server, certificates) for address in self._addresses]
        except WrongCertificate as error:
            raise CannotListen(f"cannot use TLS: {error}") from error
        except CannotListen:
            self.close()
            raise

    def close(self) -> None:
        """Remove the files of the Unix sockets, once the server has stopped."""
        for unix_socket in self._sockets:
            unix_socket.remove()

    def _open(self, address: str, server: grpc.Server, certificates: Certificates | None) -> str:
        if not endpoints.is_local(address) and (refusal := self._refusal()):
            raise CannotListen(f"cannot listen on {address}: {refusal}")
        try:
            if address.startswith(endpoints.UNIX):
                path = Path(address.removeprefix(endpoints.UNIX))
                self._sockets.append(UnixSocket(path, server.add_insecure_port, self._held))
                return address
            if why := _why_not(address):
                # asked of the system: gRPC would only say that it failed, and write to standard
                # error
                raise CannotListen(f"cannot listen on {address}: {why}")
            port = (
                server.add_insecure_port(address)
                if certificates is None
                else server.add_secure_port(address, certificates.credentials())
            )
        except RuntimeError as error:
            raise CannotListen(
                f"cannot listen on {address}: name another address with --listen ({error})"
            ) from error
        return f"{address.rsplit(':', 1)[0]}:{port}"


class UnixSocket:
    """The file of a Unix socket that only its owner may connect to, whatever the umask is."""

    def __init__(
        self, path: Path, listen: Callable[[str], object], held: Path | None = None
    ) -> None:
        """Listen on a path. `listen` is called with the address; `held` is a folder that this
        process has locked. Raises CannotListen, and what `listen` raises.

        The socket is made in a folder that nobody else may enter, and gets its path when its mode
        is set: nobody can connect to it before. What a server that was killed left at the path is
        removed; whatever else is there is refused.
        """
        self._path = path
        self._held = held
        try:
            left = _left_at(path)
            folder = Path(mkdtemp(prefix=".", dir=path.parent))
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                # By its descriptor where that has a path, for the path of a socket may have some
                # 100 bytes only.
                near = Path(f"/proc/self/fd/{handle}")
                listen(f"unix:{(near if near.is_dir() else folder) / _SOCKET}")
                made = folder / _SOCKET
                made.chmod(0o600)
                self._identity = _identity(made)
                self._move(made, left)
            finally:
                os.close(handle)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:
            raise CannotListen(f"cannot listen on unix:{path}: {_refusal(error)}") from error
        except _Occupied as error:
            raise CannotListen(f"cannot listen on unix:{path}: {error}") from error

    def remove(self) -> None:
        """Remove the file, unless another one took its place."""
        with suppress(OSError):
            if _identity(self._path) == self._identity:
                self._path.unlink()

    def _move(self, made: Path, left: tuple[int, int] | None) -> None:
        """Give the socket its path, in place of what was left there."""
        with _locked(self._path.parent, self._held):
            with suppress(FileNotFoundError):
                if left is not None and _identity(self._path) == left:
                    self._path.unlink()
            try:
                # a rename would replace the socket of a server that starts at the same moment
                self._path.hardlink_to(made)
            except FileExistsError:
                raise _Occupied(_LIVE) from None
            except OSError:  # a file system without hard links
                made.rename(self._path)


@contextmanager
def _locked(folder: Path, held: Path | None) -> Iterator[None]:
    """Let no other server that starts take a path in a folder meanwhile. It may have found the same
    socket left behind, and would remove the new one in its place.

    Any user who may read the folder can lock it for ever: after a while it is done without.
    """
    if held is not None and folder.samefile(held):
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until = time.monotonic() + _LOCK_SECONDS
        while not _is_locked(handle) and time.monotonic() < until:
            time.sleep(0.01)
        yield
    finally:
        os.close(handle)


def _is_locked(handle: int) -> bool:
    """Lock a folder; return False if another process has the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


class _Occupied(Exception):
    """A path is not free; the text says why and what to do."""


_LIVE = "another program listens there: stop it, or name another path with --listen"


def _identity(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


def _left_at(path: Path) -> tuple[int, int] | None:
    """Return the identity of the socket at a path that nobody listens on any more; None if there is
    nothing. Raises _Occupied.
    """
    if not path.parent.is_dir():
        raise _Occupied(
            f"there is no folder {path.parent}: make it, or name another path with --listen"
        )
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
        raise _Occupied(
            f"the path has more than {_MAX_SOCKET_PATH} bytes: name a shorter one with --listen"
        )
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise _Occupied(
                "a file that is no socket is there: move it away, or name another path with --listen"
            )
        left = _identity(path)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            probe.connect(str(path))
    except FileNotFoundError:
        return None
    except ConnectionRefusedError:
        return left
    except BlockingIOError:  # so many connect that this one would have to wait
        pass
    raise _Occupied(_LIVE)


def _why_not(listen: str) -> str:
    """Return why a `host:port` cannot be listened on, with advice; empty if it can."""
    host, port = listen.rsplit(":", 1)
    why = ""
    try:
        resolved = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        return _refusal(error)
    for family, kind, protocol, _, address in resolved:
        with socket.socket(family, kind, protocol) as probe:
            # as gRPC does: what was closed just now is in nobody's way
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                why = why or _refusal(error)
            else:
                return ""  # one that a name stands for is enough
    return why


def _refusal(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "another program listens there: stop it, or name another address with --listen"
        case errno.EACCES if error.filename:
            return f"this user may not write in {Path(error.filename).parent}: name another path with --listen"
        case errno.EACCES:
            return "this user may not: name a port from 1024 on with --listen"
        case _:
            return f"{(error.strerror or str(error)).lower()}: name another address with --listen"
