"""Verification of a space while it is served: its logs are compared with its index and its vectors.

Nothing is changed, and no writer waits: a conversation's lock is held for a look at its length
alone. The contents of the index are those of one moment, and a log is read up to where the index
was then. Whatever a call changes in between looks like a difference, so all that differs is
compared a second time, and only what differs again is a problem.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from recollect_server.domain.checkpoint import ThreadBegan, log_of
from recollect_server.domain.conversation import AnchorSet
from recollect_server.domain.text import counted
from recollect_server.services.space.communication_logs import CommunicationLogs
from recollect_server.services.space.comparison import Comparison, see
from recollect_server.services.space.conversation_logs import ConversationLogs, ConversationReading
from recollect_server.services.space.logs import Logs
from recollect_server.services.space.space import Space
from recollect_server.services.upkeep.verification import anchor_differences, vector_differences
from recollect_server.storage.index.checking import Contents, WordsThen
from recollect_server.storage.logs.anchors import forgotten_keys
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.ledger import ledgers
from recollect_server.storage.logs.store import (
    ANCHORS,
    LEDGERS,
    LogNotFound,
    LogStore,
    has_conversation,
    is_taken,
)
from recollect_server.storage.vectors.checking import Outside, outside
from recollect_server.storage.vectors.file import NAME as NAME_OF_VECTORS
from recollect_server.storage.vectors.file import VectorsUnavailable
from recollect_server.storage.vectors.store import ABBREVIATION

_LINES = 50_000  # of the logs whose words are compared at a time: some 5 MB of digests
_MOST_PROBLEMS = 100  # kept; all are counted
_MOST_PER_LOG = 10  # kept of one log
_MOST_REST = 0.25  # seconds between two logs


class Interrupted(Exception):
    """The verification is to end before it looked at everything; the text says why."""


@dataclass(slots=True)
class Findings:
    """Result of a verification, as far as it is."""

    logs: int = 0
    """Logs that were looked at, of all kinds."""
    total: int = 0
    """Logs that there were when it began."""
    conversations: int = 0
    messages: int = 0
    communications: int = 0
    threads: int = 0
    problem_count: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)
    """The first of them, each with the log that it is of (empty: the space)."""

    def add(self, log: str, problems: list[str]) -> None:
        """Add the problems of a log; of many of one log those that are kept say so."""
        self.problem_count += len(problems)
        first = problems[:_MOST_PER_LOG]
        if len(problems) > len(first):
            first[-1] += f"; and {len(problems) - len(first)} more"
        left = max(0, _MOST_PROBLEMS - len(self.problems))
        self.problems += [(log, problem) for problem in first[:left]]


class LiveVerification:
    """The comparison of one open space. Use it in one thread."""

    def __init__(
        self, space: Space, store: LogStore, findings: Findings, check: Callable[[], None]
    ) -> None:
        """Fill `findings` as it goes. `check` is called often, and may raise Interrupted."""
        self._space = space
        self._store = store
        self._findings = findings
        self._check = check
        self._rested = time.monotonic()

    def run(self) -> None:
        """Compare everything. Raises Interrupted, DataUnavailable."""
        names = {kind: sorted(name for name, _ in self._store.logs(kind)) for kind in Kind}
        self._findings.total = sum(map(len, names.values()))
        self._index()
        self._vectors()
        self._compare(ConversationLogs(self._store), names[Kind.CONVERSATION], "turns")
        self._compare(CommunicationLogs(self._store), names[Kind.COMMUNICATION], "external")
        for name in names[Kind.THREAD]:
            self._findings.add(name, self._again(partial(self._thread, name)))
            self._findings.threads += 1
            self._step()
        self._findings.add("", self._again(self._ledgers))
        self._findings.add("", self._again(self._leftovers))

    def _step(self) -> None:
        """Take note of a log that was looked at, and leave the processor to others for as long as
        it took.
        """
        self._findings.logs += 1
        self._rest()

    def _rest(self) -> None:
        self._check()
        time.sleep(min(_MOST_REST, time.monotonic() - self._rested))
        self._rested = time.monotonic()

    def _again(self, problems: Callable[[], list[str]]) -> list[str]:
        """Return the problems of something; if there are any, those of a second look."""
        return problems() and problems()

    # The files by themselves --------------------------------------------------------------------

    def _index(self) -> None:
        if reason := self._space.doubt:
            self._findings.add("", [f"index: it may lack something: {reason}"])
        for problem in Contents(self._space.index).problems_by_table(self._check):
            self._findings.add("", [f"index: {problem}"])
            self._rest()

    def _vectors(self) -> None:
        def damaged() -> set[tuple[str, int]]:
            with outside(self._store.root) as vectors:
                return set(vectors.damaged()) if vectors else set()

        try:
            places = damaged()
            places = places and places & damaged()
        except VectorsUnavailable as error:
            self._findings.add("", [f"{NAME_OF_VECTORS} cannot be used: {error}"])
            return
        for name in sorted({name for name, _ in places}):
            lines = sorted(line for it, line in places if it == name)
            problem = f"{NAME_OF_VECTORS}: the vector of {{}} is missing or damaged"
            self._findings.add(name, [problem.format(_place(line)) for line in lines])

    def _ledgers(self) -> list[str]:
        problems: list[str] = []
        for ledger in LEDGERS:
            with suppress(LogNotFound):
                for line in self._store.read(ledger):
                    if line.entry is None:
                        problems.append(f"{ledger}: line {line.sequence} is damaged: {line.damage}")
                    elif (
                        ledger == ANCHORS
                        and isinstance(it := line.entry.content, AnchorSet)
                        and it.conversation_id
                        and not has_conversation(self._store, it.conversation_id)
                    ):
                        problems.append(
                            f"{ledger}: line {line.sequence} is of {it.conversation_id}, which has"
                            " no transcript"
                        )
        for own in ledgers(self._store):
            problems += [f"{own.name}: {it}" for it in own.misplaced()]
        return problems + self._store.strays()

    def _leftovers(self) -> list[str]:
        messages, texts = Contents(self._space.index).of_nobody()
        return [
            f"index: it has {what} of {counted(count, 'message')} that no transcript has"
            for what, count in (("rows", messages), ("words", texts))
            if count
        ]

    def _thread(self, name: str) -> list[str]:
        thread_id: str | None = None
        problems: list[str] = []
        try:
            for line in self._store.read(name):
                if line.entry is None:
                    problems.append(f"line {line.sequence} is damaged: {line.damage}")
                elif isinstance(line.entry.content, ThreadBegan):
                    thread_id = line.entry.content.thread_id
        except LogNotFound:
            return []
        if thread_id is None:
            problems.append("no line says which thread it is")
        elif log_of(thread_id) != name:
            problems.append(f"it is of a thread whose log is {log_of(thread_id)}")
        return problems

    # Logs and what the index has of them ----------------------------------------------------------

    def _compare(self, logs: Logs[Any], names: list[str], table: str) -> None:
        for part in self._parts(logs, names):
            doubtful = [name for name, problems, _ in self._problems(logs, part, table) if problems]
            wrong = {
                name: problems
                for name, problems, _ in self._problems(
                    logs, {name: part[name] for name in doubtful}, table, is_counted=False
                )
            }
            for name, problems in wrong.items():
                self._findings.add(name, problems)
        indexed = set(logs.progress(self._space.index))
        for name in sorted(indexed - {it for it, _ in self._store.logs(logs.kind)}):
            self._findings.add(name, self._again(partial(self._left, logs, name)))

    def _left(self, logs: Logs[Any], name: str) -> list[str]:
        """Return the problem of a log that the index alone has."""
        # In this order: a delete takes it out of the index before it ends in the store.
        if is_taken(self._store, name):
            return []
        self._space.follow()  # another process may have deleted it
        is_left = logs.find(self._space.index, name) is not None
        return ["is in the index and has no transcript"] if is_left else []

    def _parts(self, logs: Logs[Any], names: list[str]) -> Iterator[dict[str, int | None]]:
        """Yield the logs with their numbers in the index (None: it has none), some `_LINES` lines
        at a time.
        """
        index = self._space.index
        part: dict[str, int | None] = {}
        lines = 0
        for name in names:
            stored = logs.find(index, name)
            part[name] = stored.number if stored else None
            lines += stored.lines if stored else 1
            if lines >= _LINES:
                yield part
                part, lines = {}, 0
        if part:
            yield part

    def _problems(
        self,
        logs: Logs[Any],
        part: dict[str, int | None],
        table: str,
        *,
        is_counted: bool = True,
    ) -> Iterator[tuple[str, list[str], int]]:
        """Yield the logs of a part with their problems and the number of their messages."""
        if not part:
            return
        index = self._space.index
        words = WordsThen(index, table, {it for it in part.values() if it is not None})
        self._rest()
        with ExitStack() as stack:
            vectors: Outside | None = None
            with suppress(VectorsUnavailable):  # it is a problem of the space already
                if table == "turns":
                    vectors = stack.enter_context(outside(self._store.root))
            for name in part:
                problems, messages = self._of(logs, name, words, vectors)
                if is_counted:
                    self._count(logs, messages)
                    self._step()
                yield name, problems, messages

    def _count(self, logs: Logs[Any], messages: int) -> None:
        if logs.kind is Kind.CONVERSATION:
            self._findings.conversations += 1
            self._findings.messages += messages
        else:
            self._findings.communications += 1

    def _of(
        self, logs: Logs[Any], name: str, words: WordsThen, vectors: Outside | None
    ) -> tuple[list[str], int]:
        """Return the problems of a log, and the number of its messages."""
        try:
            with self._space.exclusive(conversation=name):  # all of it is queued for the index
                size = self._store.length(name)
        except LogNotFound:  # it was deleted
            return [], 0
        self._space.follow()  # another process may have written to it
        embedded: dict[int, bytes] = {}
        looked_at = 0
        with suppress(VectorsUnavailable):
            embedded, looked_at = vectors.hashes(name) if vectors else (embedded, 0)
        index = self._space.index
        with index.moment(settled=True):
            stored = logs.find(index, name)
            if stored is None:
                return ["is not in the index"], 0
            contents = Contents(index, words, words)
            reading = logs.reading(contents, stored.number)
            problems: list[str] = []
            try:
                for line in self._store.read(name, until=stored.bytes):
                    if line.entry is None:
                        problems.append(f"line {line.sequence} is damaged: {line.damage}")
                    see(logs, reading, line, name)
            except LogNotFound:
                return [], 0
            problems += [*reading.gaps, *reading.problems()]
            if reading.state is None:
                problems.append("no line can be read")
            if stored.bytes < size:
                problems.append(f"{stored.bytes} of its {size} bytes are in the index")
            is_settled = not contents.wordless(stored.number) or name not in index.wordless.due()
            comparison = Comparison(logs, contents)
            problems += comparison.differences(name, stored, reading, words=is_settled)
            if is_settled and (left := words.left_of(stored.number)):
                problems.append(
                    f"the index has words of {counted(left, 'message')} that it has not"
                )
            if isinstance(reading, ConversationReading):
                forgotten = forgotten_keys(self._store)
                problems += anchor_differences(index, stored.number, reading, forgotten)
                if looked_at < stored.lines:  # the notes may be newer than their vector
                    embedded.pop(ABBREVIATION, None)
                embedded = {line: it for line, it in embedded.items() if line <= stored.lines}
                problems += vector_differences(embedded, reading)
        return problems, reading.messages


def _place(line: int) -> str:
    return f"line {line}" if line != ABBREVIATION else "the abbreviation"
