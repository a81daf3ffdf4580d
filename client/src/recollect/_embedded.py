"""A server for a folder, started with its first client and stopped with its last one.

Each client holds a shared lock of the file `.embedded/clients` in the data folder. The server waits
for an exclusive lock of it, and stops when it has it. The kernel releases a process's locks however
the process ends, so a client that is killed counts no longer, and no server is left behind. A
client that comes while the server stops waits for its lock until the server has ended.
"""

import asyncio
import fcntl
import hashlib
import importlib.util
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from os import PathLike
from pathlib import Path
from typing import Any

from recollect._async.client import AsyncClient
from recollect._sync.client import Client
from recollect.errors import Unavailable

_LONGEST = 100  # bytes of a socket's path: a system's address has room for some 104
_PATIENCE = 10.0  # seconds that a folder may be in use without an address: its user starts or stops
_INTERVAL = 0.02  # seconds between two looks


class Embedded:
    """A hold on the server of a folder: it runs while anybody has one."""

    def __init__(self, data_dir: str | PathLike[str]) -> None:
        """Find the server of a data folder, or start it. Raises Unavailable, OSError."""
        folder = Path(data_dir).absolute()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = folder / ".embedded"
        beside.mkdir(mode=0o700, exist_ok=True)
        self._handle: int | None = _locked(beside / "clients", fcntl.LOCK_SH)
        try:
            starting = _locked(beside / "start", fcntl.LOCK_EX)  # of several clients one starts it
            try:
                self.target = address_of(folder) or _start(folder, beside)
            finally:
                os.close(starting)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let the server stop, if nobody else holds it. A second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


class EmbeddedClient(Client):
    """A client with a hold on the server of a folder, which `close` gives back."""

    def __init__(self, server: Embedded, **options: Any) -> None:
        self._server = server
        try:
            super().__init__(server.target, **options)
        except BaseException:
            server.release()
            raise

    def close(self) -> None:
        """End the connection. The server stops if this was its last client."""
        super().close()
        self._server.release()


class EmbeddedAsyncClient(AsyncClient):
    """A client for asyncio with a hold on the server of a folder, which `close` gives back."""

    def __init__(self, server: Embedded, **options: Any) -> None:
        self._server = server
        try:
            super().__init__(server.target, **options)
        except BaseException:
            server.release()
            raise

    async def close(self) -> None:
        """End the connection. The server stops if this was its last client."""
        await super().close()
        self._server.release()


def embedded(data_dir: str | PathLike[str], **options: Any) -> Client:
    """Return a client of the server of a data folder, which is started if none runs and stops with
    its last client, in whatever process. `options` are those of `Client`.

    >>> with recollect.embedded("notes") as client:
    ...     client.conversations.create("web")

    The server is `recollect-server`, installed beside this package. It listens on a Unix socket
    that this user alone may open, and reads the settings of the environment, as
    RECOLLECT_EMBEDDER. A server that runs on the folder already is called where it listens. Raises
    Unavailable if it cannot start.
    """
    return EmbeddedClient(Embedded(data_dir), **options)


async def embedded_async(data_dir: str | PathLike[str], **options: Any) -> AsyncClient:
    """Return a client for asyncio, as `embedded` does.

    >>> async with await recollect.embedded_async("notes") as client:
    ...     await client.conversations.create("web")
    """
    holding, is_abandoned, holds = threading.Lock(), False, list[Embedded]()

    def hold() -> Embedded:
        server = Embedded(data_dir)
        with holding:
            holds.append(server)
            if is_abandoned:
                server.release()
        return server

    try:
        server = await asyncio.to_thread(hold)
    except asyncio.CancelledError:  # the thread goes on, and nobody takes what it returns
        with holding:
            is_abandoned = True
            for server in holds:
                server.release()
        raise
    return EmbeddedAsyncClient(server, **options)


def _locked(path: Path, kind: int) -> int:
    """Return a descriptor of a file that holds its lock, once it is free."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, kind)
    except BaseException:
        os.close(handle)
        raise
    return handle


def address_of(folder: Path) -> str | None:
    """Return the address of the server that runs on a folder; None if none does. Raises
    Unavailable if something else uses the folder.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            # what is no regular file, a pipe say, is for a server or a command to name
            handle = os.open(folder / "recollect.lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = os.pread(handle, 1 << 16, 0)
            else:
                return None
        finally:
            os.close(handle)
        if text:
            return _local(folder, json.loads(text)["addresses"])
        if time.monotonic() > deadline:
            raise _unavailable(
                f"the data folder {folder} is in use by a command, such as verify, or by a server"
                " that is starting: try again when it is done"
            )
        # Two events end this wait, the address and the lock's end, and no call waits for either of
        # both, nor for a lock with a time-out.
        time.sleep(_INTERVAL)


def _local(folder: Path, addresses: list[str]) -> str:
    """Return the address to call: a socket, else one of this machine. Raises Unavailable."""
    for address in sorted(addresses, key=lambda it: not it.startswith("unix:")):
        if address.startswith(("unix:", "127.", "localhost:", "[::1]:")):
            return address
    raise _unavailable(
        f"a server uses the data folder {folder} and listens on {', '.join(addresses)}: call it"
        " there with recollect.Client"
    )


def _start(folder: Path, beside: Path) -> str:
    """Start a server on a folder, and return its address. Raises Unavailable."""
    if importlib.util.find_spec("recollect_server") is None:
        raise _unavailable(
            "an embedded server needs the package recollect-server: install it beside"
            " recollect-client, as with `pip install ./server`"
        )
    address = f"unix:{_socket_path(beside)}"
    log = beside / "server.log"
    command = [sys.executable, "-m", "recollect_server", "serve", "--data-dir", str(folder)]
    command += ["--listen", address, "--while-locked", str(beside / "clients")]
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as errors:
        process = subprocess.Popen(  # noqa: S603 - the command is made here
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C of one client is not for the server of others
        )
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline()  # written when it listens
    # It is waited for at its end, so that it is no zombie of a client that runs on.
    threading.Thread(target=process.wait, name="embedded-server", daemon=True).start()
    if not line:
        lines = log.read_text(errors="replace").strip().splitlines()
        reason = lines[-1].removeprefix("Error: ") if lines else "it said nothing"
        raise _unavailable(f"no server could be started on {folder}: {reason}")
    return address


def _socket_path(beside: Path) -> Path:
    """Return the path of the socket: in the data folder, or where that is too long for an address
    of the system, in a folder of this user's own below the temporary one. Raises Unavailable.
    """
    path = beside / "socket"
    if len(os.fsencode(path)) <= _LONGEST:
        return path
    folder = Path(tempfile.gettempdir()) / f"recollect-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise _unavailable(
            f"{folder} is not a folder of this user alone: remove it, or take a data folder with a"
            " shorter path"
        )
    return folder / hashlib.sha256(os.fsencode(beside)).hexdigest()[:32]


def _unavailable(text: str) -> Unavailable:
    return Unavailable(text, code="UNAVAILABLE")
