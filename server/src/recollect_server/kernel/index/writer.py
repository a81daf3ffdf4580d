"""The writer of the index: one connection, used by one thread at a time, behind a queue.

Every change is queued and executed in order. An append waits for nobody: it is durable in its
transcript, and queues what it adds to the index as one JSON document. The writer takes all waiting
documents into one transaction by one SQL statement (the view `incoming`), so the work runs
without Python's global lock and its cost per append falls as the load grows.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, cast

import apsw

from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.domain.telemetry import UNMEASURED, Step, Telemetry
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index import updates as update_log
from recollect_server.kernel.index.file import (
    DAMAGED,
    NAME,
    Readers,
    break_seal,
    identity,
    open_writer,
)
from recollect_server.kernel.index.gaps import Gaps
from recollect_server.kernel.index.migrations import migrate
from recollect_server.kernel.index.sqlite import DAMAGE, FAILURES
from recollect_server.kernel.index.threads import NEVER, THREADS

T = TypeVar("T")

_BATCH = 256  # documents in one transaction at the most
# bytes of documents that may wait: more than that, and appends wait with them
_MAX_WAITING = 32 << 20
_TAKE_IN = "INSERT INTO incoming SELECT jsonb(value) FROM json_each(?)"
_LINGER = 0.02  # seconds that documents wait for company, unless somebody reads
_LINGER_WATCHED = 0.002  # while somebody watches the updates: each waits for its document


@dataclass(slots=True)
class _Document:
    """Document of an append, and the callback for when it cannot be taken in."""

    number: int
    build: Callable[[int], str]
    size: int
    cursor: int
    updates: int
    failed: Callable[[str], None]
    notice: object
    since: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class _Job:
    """A change that its caller waits for."""

    work: Callable[[apsw.Connection, int], Any]
    cursor: int
    notices: Sequence[object]
    alone: bool
    then: Callable[[apsw.Connection], object] | None
    result: Any = None
    error: Exception | None = field(default_factory=lambda: apsw.Error("the writer stopped"))


class Writer:
    """The only connection that changes the index file. Safe to call from any thread. Who queues
    something or waits for it gets IndexUnavailable if it is refused or the writer has stopped.
    """

    def __init__(self, path: Path, schema: str = "") -> None:
        """Open or create the file; the statements of `schema` make tables of features in a new
        one. Raises apsw.Error if it is not a database, ValueError if it is
        of a newer version.
        """
        self.path = path
        self.listeners: list[Callable[[Sequence[tuple[int, object]]], None]] = []
        """Called in the writer's thread with the notices of what was just written, in its order and
        each with the cursor before it: an `Added`, or the `UpdateRow` of a deletion. They must
        return at once.
        """
        self.watched = False
        """True if somebody watches: then documents wait less for company."""
        self.woken: Callable[[], None] = lambda: None
        """Called, from any thread, when the file that was closed is open again, before anybody else
        may use it: it may not read it, nor wait for who does.
        """
        self.damage = ""
        """Why the content of the file is wrong; empty: nobody found that."""
        self.telemetry: Telemetry = UNMEASURED
        self._opening = threading.Lock()  # held while the closed file is opened
        # guards everything below; nothing slow happens under it; all writers share it
        self._changed = THREADS.changed
        self.due = NEVER
        self.is_running = False
        self._waiting: deque[_Document | _Job] = deque()
        self._waiting_size = 0
        self._put = 0  # how many were put in, ever
        self._taken = 0  # how many of them are done with
        self._at_work_since = 0.0  # of the first document that is being taken in; 0: none is
        # callers wait until `_taken` is this; in order, and woken once each
        self._expected: deque[tuple[int, threading.Event]] = deque()
        self._stopped = self._is_abandoned = False
        self.is_resting = False
        """True while the file is closed: the next read or batch opens it."""
        self._closed_as: list[int] = []  # identity of the file as it was closed
        self._refused_cursors: list[tuple[int, int]] = []  # pairs as `updates.skip` takes them
        self._writer = open_writer(path)
        try:
            self.gaps = Gaps(self._writer)
            """Gaps of the file's pages. Used in the writer's thread."""
            migrate(self._writer, schema)
            self._inode = path.stat().st_ino
            self._cursor = update_log.last(self._writer)
        except BaseException:
            self._writer.close(force=True)
            raise
        THREADS.begin()

    def put(
        self,
        number: int,
        build: Callable[[int], str],
        size: int,
        updates: int,
        failed: Callable[[str], None],
        notice: object = None,
    ) -> int:
        """Queue a document of about `size` bytes about the conversation of a number, which adds
        `updates` rows to the update log.

        `build` makes its text, given the cursor before its own, in the writer's thread: many at
        once cost less. `failed` is called there too, with the reason, if it cannot be written;
        `notice` is passed on (see `listeners`) if it is. Returns the cursor of the last of its rows
        (0: none).
        """
        while True:
            with self._changed:
                if self._waiting_size <= _MAX_WAITING or self._stopped:
                    # The cursors are given out here, in the order of the queue: a later batch has
                    # later ones.
                    document = _Document(number, build, size, self._cursor, updates, failed, notice)
                    self._cursor += updates
                    self._enqueue(document)
                    self._waiting_size += size
                    return self._cursor if updates else 0
                room = self._expect()
            room.wait()

    def write(
        self,
        work: Callable[[apsw.Connection, int], T],
        *,
        updates: int = 0,
        notices: Sequence[object] = (),
        alone: bool = False,
        then: Callable[[apsw.Connection], object] | None = None,
    ) -> T:
        """Run the work in a transaction of its own, after everything queued before, and return its
        result.

        It may add `updates` rows to the update log, and is given the cursor before theirs;
        `notices`, which it may fill, are passed on (see `listeners`). `alone` runs it outside of
        any transaction, and `then` is run behind the transaction, before anything else is written.
        """
        with self._changed:
            job = _Job(work, self._cursor, notices, alone, then)
            self._cursor += updates
            self._enqueue(job)
            done = self._expect()
        done.wait()
        if job.error is not None:
            raise IndexUnavailable(f"the index refused a write: {job.error}") from job.error
        return cast(T, job.result)

    @property
    def puts(self) -> int:
        """Return the number of documents and jobs ever put in."""
        return self._put

    @property
    def taken(self) -> int:
        """Return the number of them that are done: taken in, or refused and their `failed`
        called.
        """
        return self._taken

    def note_damage(self, error: Exception) -> None:
        """Note what a read or a write raised, if it says that the file is damaged; the next start
        knows it too.
        """
        if isinstance(error, DAMAGE):
            self.damage = str(error)
            with suppress(OSError):
                self.path.with_name(NAME + DAMAGED).touch(0o600)

    def moved(self) -> str:
        """Return why the file's name leads to another file, or to none: SQLite writes on to the one
        it opened, and raises nothing.
        """
        try:
            inode = self.path.stat().st_ino
        except FileNotFoundError:
            return "its file was removed"
        except OSError:
            return ""
        return "" if inode == self._inode else "its file was replaced"

    def skip_cursors(self) -> None:
        """Skip the cursors that may have been given out for updates lost in a crash."""
        with self._changed:
            begin = self._cursor
            end = self._cursor = begin + update_log.CRASH_GAP
        # Written down: else a start that is killed before it takes anything in would be followed by
        # one that gives them out again.
        self.write(lambda connection, _: update_log.skip(connection, begin, end))

    def note_refused_cursors(self) -> bool:
        """Write down the cursors that were given out for what was refused. False if there are
        none.
        """
        if not self._refused_cursors:
            return False
        with self._changed:
            pairs, self._refused_cursors = self._refused_cursors, []
        try:
            self.write(lambda connection, _: update_log.note_lost(connection, pairs))
        except IndexUnavailable:
            with self._changed:
                self._refused_cursors += pairs
            raise
        return True

    def given_out(self) -> int:
        """Return the last cursor that was given out, for a row that is written or queued."""
        with self._changed:
            return self._cursor

    def settle(self) -> None:
        """Wait until everything queued before is written."""
        # both only grow, and `_taken` is read first: if they are equal, they were
        if self._taken == self._put:
            return
        with self._changed:
            put = self._put
            if self._taken >= put:
                return
            reached = self._expect()
        reached.wait()
        if self._taken < put:
            raise IndexUnavailable("the index's writer stopped")

    def waiting(self) -> tuple[int, int]:
        """Return the number of changes that wait, and their size in bytes."""
        with self._changed:
            return len(self._waiting), self._waiting_size

    def lag(self) -> float:
        """Return the seconds that the oldest addition waits; 0 if none does."""
        with self._changed:
            waiting = (it.since for it in self._waiting if isinstance(it, _Document))
            since = self._at_work_since or next(waiting, 0.0)
        return time.monotonic() - since if since else 0.0

    def rest(self, readers: Readers) -> None:
        """Execute what is queued and close every connection; the next read or batch opens the file
        again. No call may be under way. Raises IndexUnavailable if the writer had stopped: then it
        is closed.
        """
        if not self._end(readers):
            raise IndexUnavailable("the index's writer stopped")
        with suppress(OSError):
            self._closed_as = identity(self.path)
        with self._changed:
            self.is_resting, self._stopped = True, self._is_abandoned

    def wake(self) -> None:
        """Open the file, if it is closed. Raises apsw.Error, also if it is not the file that was
        closed: then it is never used again.
        """
        with self._opening:
            if not self.is_resting:
                return
            try:
                if identity(self.path) != self._closed_as:
                    self.damage = "its file is not as this server closed it"
                    raise apsw.CantOpenError(self.damage)
                self._writer = open_writer(self.path)
                self.gaps = Gaps(self._writer)
                break_seal(self.path.parent)  # only now: a file that cannot be opened stays sealed
            except OSError as error:
                self._writer.close()
                raise apsw.CantOpenError(str(error)) from error
            self.woken()
            with self._changed:
                self.is_resting = False
                self._schedule()

    def close(self, readers: Readers) -> bool:
        """Execute what is queued, then close every connection. No call may be under way. What waits
        for a closed file is dropped. Return False if the file lacks something that was queued.
        """
        if self.is_resting:
            self._stop()
            return True
        return self._end(readers)

    def abandon(self) -> None:
        """Take in nothing more: every caller, also one that waits, gets IndexUnavailable. It waits
        for nothing, and any thread may call it.

        The transcripts have what is queued, and the next start takes it in.
        """
        self._is_abandoned = True
        self._stop()

    def _end(self, readers: Readers) -> bool:
        """Return False if the writer stopped before it had done everything."""
        with self._changed:
            done = self._expect()
        done.wait()
        is_done = not self._stopped
        self._stop()
        # first: only the last connection that closes empties the write-ahead log, and a reader
        # cannot
        readers.close()
        with self._changed:
            is_left = not is_done and self.is_running  # a thread hangs in a batch: it has that one
        if not is_left:
            self._writer.close()
        return is_done

    # The queue ------------------------------------------------------------------------------------

    def _enqueue(self, item: _Document | _Job) -> None:
        if self._stopped:
            raise IndexUnavailable("the index's writer stopped")
        self._waiting.append(item)
        self._put += 1
        if len(self._waiting) == 1:
            self._schedule()

    def _expect(self) -> threading.Event:
        """Return what is set once all that is put in by now is done, or the writer stops."""
        if self._expected and self._expected[-1][0] == self._put:
            return self._expected[-1][1]
        event = threading.Event()
        if self._stopped or self._taken == self._put:
            event.set()
        else:
            self._expected.append((self._put, event))
            if len(self._expected) == 1:
                self._schedule()  # it may be waiting for company
        return event

    def _schedule(self) -> None:
        """Have the next batch taken in when it is due. Hold the lock."""
        THREADS.expect(self, self._next_at())

    def _next_at(self) -> float:
        """Return when the next batch is due. Documents that nobody waits for wait for company: they
        cost less together; and for a file that is closed, to be opened for something else.
        """
        if self._expected:
            return time.monotonic()
        if not self._waiting or self.is_resting or self._stopped:
            return NEVER
        return time.monotonic() + (_LINGER_WATCHED if self.watched else _LINGER)

    def run_batch(self) -> None:
        """Execute one job, or write all documents before the next one."""
        try:
            batch = self._next()
            if batch and isinstance(batch[0], _Job):
                self._run(batch[0])
            elif batch:
                self._take_in(cast(list[_Document], batch))
        except BaseException:
            self._stop()
            with self._changed:
                THREADS.end(self, NEVER)
            raise
        with self._changed:
            self._taken += len(batch)
            self._at_work_since = 0.0
            while self._expected and self._expected[0][0] <= self._taken:
                self._expected.popleft()[1].set()
            THREADS.end(self, self._next_at())

    def _stop(self) -> None:
        """Refuse everything from here on, and let nobody wait for it."""
        with self._changed:
            self._stopped = True
            while self._expected:
                self._expected.popleft()[1].set()

    def _next(self) -> list[_Document | _Job]:
        """Return one job, or all documents before the next job."""
        with self._changed:
            batch: list[_Document | _Job] = []
            if self._stopped:  # those who waited got an error: it must not be done later
                return batch
            while self._waiting and len(batch) < _BATCH:
                if isinstance(item := self._waiting[0], _Job):
                    return batch or [self._waiting.popleft()]
                self._waiting_size -= item.size
                self._at_work_since = self._at_work_since or item.since
                batch.append(self._waiting.popleft())
            return batch

    def _take_in(self, documents: list[_Document]) -> None:
        # FTS5 writes the words that it holds in memory whenever a row's id is below the last one's:
        # by conversation, whose documents keep their order, it writes them once for all.
        ascending = sorted(documents, key=attrgetter("number"))
        text = f"[{','.join(document.build(document.cursor) for document in ascending)}]"
        hit("index.taking_in")
        try:
            self.wake()
            with self.telemetry.step(Step.TAKE_IN):
                self._writer.execute(_TAKE_IN, (text,))
            hit("index.taken_in")
            if notices := [
                (document.cursor, document.notice)
                for document in documents
                if document.notice is not None
            ]:
                self._notify(notices)
        except apsw.Error as error:
            self.note_damage(error)
            if len(documents) == 1:
                if documents[0].updates:
                    with self._changed:
                        self._refused_cursors.append(
                            (documents[0].cursor, documents[0].cursor + documents[0].updates + 1)
                        )
                documents[0].failed(str(error))
            else:  # one of them is at fault: each alone
                for document in documents:
                    self._take_in([document])

    def _run(self, job: _Job) -> None:
        try:
            self.wake()
            if job.alone:
                job.result = job.work(self._writer, job.cursor)
            else:
                self._run_in_transaction(job)
            if job.notices:
                self._notify([(job.cursor, it) for it in job.notices])
            if job.then is not None:
                job.then(self._writer)
            job.error = None
        except FAILURES as error:
            job.error = error
            self.note_damage(error)

    def _run_in_transaction(self, job: _Job) -> None:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            job.result = job.work(self._writer, job.cursor)
            hit("index.job_done")
            self._writer.execute("COMMIT")
            hit("index.job_committed")
        finally:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def _notify(self, notices: Sequence[tuple[int, object]]) -> None:
        for listener in self.listeners:
            listener(notices)
