"""Programs as processes of their own, forked from one that has imported them.

A cold start of the server imports for a second of processor time, and the tests start hundreds. A
forked process is as real as any: it has its own memory, descriptors, signals and exit status, and
`kill -9` ends it as it ends every other. Where the cold start itself is the promise, `cold` starts
a program as users do.

Run as a program, this module is the parent of those processes: it imports, then forks for each
request that comes by a socket, together with the standard streams of the child. It stays without
threads, so that forking is safe.
"""

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import IO, Any, Self

from recollect_server.kernel import failpoints

SERVER, CLIENT, BRIDGE = "recollect_server.__main__", "recollect.cli.main", "recollect.mcp.main"
PAGE = "recollect.web.main"
"""Programs are named by the module whose `main` they run."""

_LATER = {
    SERVER: "recollect_server.run.commands.serve",
    CLIENT: "recollect.cli.group",
    BRIDGE: "recollect.mcp.server",
    PAGE: "recollect.web.app",
}
"""Modules that a program imports when it knows what it is asked for."""
_ROOT = Path(__file__).parents[1]
_SIZE = 4  # bytes of a number
_LOCK = threading.Lock()  # one request at a time


class Forked:
    """A process forked from the parent, with the part of `subprocess.Popen`'s interface that tests
    use.
    """

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
        text: bool = True,
    ) -> None:
        """Start a program. Each stream is DEVNULL, PIPE or a descriptor, which stays open here."""
        self.returncode: int | None = None
        ours: list[IO[Any] | None] = [None, None, None]
        theirs = [stdin, stdout, stderr]
        opened: list[int] = []
        for number, stream in enumerate(theirs):
            if stream == subprocess.PIPE:
                read, write = os.pipe()
                own, theirs[number] = (write, read) if number == 0 else (read, write)
                mode = "w" if number == 0 else "r"
                ours[number] = (
                    os.fdopen(own, mode, encoding="utf-8") if text else os.fdopen(own, f"{mode}b")
                )
            elif stream == subprocess.DEVNULL:
                theirs[number] = os.open(os.devnull, os.O_RDWR)
            if theirs[number] != stream:
                opened.append(theirs[number])
        self.stdin, self.stdout, self.stderr = ours
        self._status, status = os.pipe()
        request = {
            "program": program,
            "arguments": list(arguments),
            "env": dict(env or os.environ),
            "cwd": str(Path.cwd()),
        }
        data = json.dumps(request).encode()
        with _LOCK:
            parent = _parent()
            socket.send_fds(parent, [len(data).to_bytes(_SIZE, "little")], [*theirs, status])
            parent.sendall(data)
        for descriptor in (*opened, status):
            os.close(descriptor)
        self.pid = int.from_bytes(_read_exactly(self._status, _SIZE), "little")

    def poll(self) -> int | None:
        """Return the exit status as `Popen` does, None while the process runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit status; raise TimeoutExpired."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and its status is on its way
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the streams and wait for the end, as `Popen` does; after a failure kill it, so
        that the failure is what the test shows.
        """
        if kind is not None:
            self.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and self._has_ended(timeout):
            status, microseconds = json.loads(os.read(self._status, 100))
            os.close(self._status)
            self.returncode = os.waitstatus_to_exitcode(status)
            Forked.processor_seconds += microseconds / 1e6
        return self.returncode

    def _has_ended(self, timeout: float | None) -> bool:
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        return bool(poll.poll(None if timeout is None else timeout * 1000))

    processor_seconds = 0.0
    """Used by all that ended: they are no children of this process, so `os.times` lacks them."""


def ran(
    program: str,
    arguments: Sequence[str],
    *,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
) -> tuple[int, str, str]:
    """Run a program to its end; return its exit status, its output and its errors."""
    with Forked(
        program, arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with ThreadPoolExecutor(2) as pool:
            output, errors = pool.submit(process.stdout.read), pool.submit(process.stderr.read)
            try:
                with suppress(BrokenPipeError), process.stdin as file:
                    file.write(stdin)
                code = process.wait()
            finally:
                process.kill()
            return code, output.result(), errors.result()


def cold(
    program: str,
    arguments: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    stderr: int = subprocess.DEVNULL,
) -> "subprocess.Popen[str]":
    """Start a program that imports everything itself."""
    command = [sys.executable, "-m", program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=env)


@contextmanager
def closed_pipe() -> Iterator[int]:
    """Yield the descriptor of a pipe whose reader is gone."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


def free_port() -> int:
    """Return a port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def refuses(port: int) -> bool:
    """Tell whether nothing listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@cache
def _parent() -> socket.socket:
    """Start the parent, which ends when this process does."""
    ours, theirs = socket.socketpair()
    os.set_inheritable(theirs.fileno(), True)
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    os.posix_spawn(
        sys.executable, [sys.executable, "-P", __file__, str(theirs.fileno())], environment
    )
    theirs.close()
    atexit.register(ours.close)
    return ours


def _read_exactly(descriptor: int, count: int) -> bytes:
    read = b""
    while len(read) < count:
        part = os.read(descriptor, count - len(read))
        if not part:
            raise EOFError("the other end of the parent's socket died")
        read += part
    return read


# The parent ---------------------------------------------------------------------------------------


def _serve(requests: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each request. Return in each child, with its request and its standard streams."""
    reports: dict[int, int] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    # A test that ran `recollect-server serve` in its own process has left them blocked.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    # Ctrl-C is for the tests, which end their processes
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        if woken in ready:
            os.read(woken, 4096)
            _report_ended(reports)
        if requests.fileno() not in ready:
            continue
        size, descriptors, _, _ = socket.recv_fds(requests, _SIZE, 4)
        if not size:
            os._exit(0)  # the tests have ended
        *streams, report = descriptors
        request = json.loads(_read_exactly(requests.fileno(), int.from_bytes(size, "little")))
        _import(request["program"])
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            requests.close()
            for descriptor in (woken, wake, report, *reports.values()):
                os.close(descriptor)
            return request, streams
        os.write(report, pid.to_bytes(_SIZE, "little"))
        reports[pid] = report
        for descriptor in streams:
            os.close(descriptor)


@cache
def _import(program: str) -> None:
    """Import a program that is asked for first, for all of its processes."""
    importlib.import_module(program)
    if later := _LATER.get(program):
        importlib.import_module(later)
    gc.collect()
    # or each child's collector would touch, and so copy, all that it shares with this process
    gc.freeze()


def _report_ended(reports: dict[int, int]) -> None:
    """Report the exit status and the processor time of every child that has ended."""
    while reports:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            return
        report = reports.pop(pid)
        with suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(
                report, json.dumps([status, int(1e6 * (usage.ru_utime + usage.ru_stime))]).encode()
            )
        os.close(report)


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Run the program of a request as if this process had been started for it."""
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
        os.close(stream)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        raw = FileIO(descriptor, "w" if descriptor else "r", closefd=False)
        vars(raw)["name"] = f"<{name}>"
        file = BufferedWriter(raw) if descriptor else BufferedReader(raw)
        is_line_buffered = descriptor == 2 or os.isatty(descriptor)
        setattr(
            sys,
            name,
            TextIOWrapper(file, before.encoding, before.errors, line_buffering=is_line_buffered),
        )
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    importlib.reload(failpoints)  # it reads the environment when it is imported
    module = importlib.import_module(request["program"])
    sys.argv = [str(module.__file__), *request["arguments"]]
    module.main()


if __name__ == "__main__":
    sys.path.insert(0, str(_ROOT))
    _become(*_serve(socket.socket(fileno=int(sys.argv[1]))))
