"""Verification of a space: its logs are compared with its index and its vectors, and all that is
damaged is named. Changes nothing.

`Verifier` does so while the space is served, without that a writer waits (see
`services.space.comparison`), and `verify` has it look at a folder without a server.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from recollect_server.domain.checkpoint import ThreadBegan, log_of
from recollect_server.domain.conversation import AnchorSet
from recollect_server.domain.errors import IndexUnavailable
from recollect_server.domain.wording import counted
from recollect_server.services.recall.embedding_texts import text_of
from recollect_server.services.space.comparison import Compared, Comparison
from recollect_server.services.space.conversation_logs import ConversationReading
from recollect_server.services.space.logs import Logs
from recollect_server.services.upkeep.recovery import Progress, no_progress, opened
from recollect_server.storage.index.checking import Words
from recollect_server.storage.index.file import NAME
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.ledger import ledgers
from recollect_server.storage.logs.store import (
    ANCHORS,
    LEDGERS,
    LogNotFound,
    Version,
    has_conversation,
    has_version,
)
from recollect_server.storage.vectors.checking import outside
from recollect_server.storage.vectors.checking import problems as vector_problems
from recollect_server.storage.vectors.file import NAME as NAME_OF_VECTORS
from recollect_server.storage.vectors.file import VectorsUnavailable
from recollect_server.storage.vectors.store import ABBREVIATION, hash_of

_MOST_PROBLEMS = 100  # kept of a space that is served; all are counted
_MOST_PER_LOG = 10  # kept of one log


class Interrupted(Exception):
    """The verification is to end before it looked at everything; the text says why."""


@dataclass(slots=True)
class Findings:
    """Result of a verification, as far as it is."""

    most: int = _MOST_PROBLEMS
    """Problems that are kept."""
    most_per_log: int = _MOST_PER_LOG
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
    cut: list[str] = field(default_factory=list)
    """Files with what starts cut off logs: no problem, and kept until somebody removes them."""

    def add(self, log: str, problems: list[str]) -> None:
        """Add the problems of a log; of many of one log those that are kept say so."""
        self.problem_count += len(problems)
        first = problems[: self.most_per_log]
        if len(problems) > len(first):
            first[-1] += f"; and {len(problems) - len(first)} more"
        left = max(0, self.most - len(self.problems))
        self.problems += [(log, problem) for problem in first[:left]]

    def lines(self) -> list[str]:
        """Return the problems as a line each."""
        return [f"{log}: {problem}" if log else problem for log, problem in self.problems]


class Verifier:
    """The verification of one space. Use it in one thread."""

    def __init__(
        self, comparison: Comparison, findings: Findings, progress: Progress = no_progress
    ) -> None:
        """Fill `findings` as the comparison goes; `progress` is called before each conversation."""
        self._comparison = comparison
        self._store = comparison.store
        self._findings = findings
        self._progress = progress

    def run(self) -> None:
        """Compare everything. Raises DataUnavailable, and what ends the comparison."""
        findings = self._findings
        names = {kind: sorted(name for name, _ in self._store.logs(kind)) for kind in Kind}
        findings.total = sum(map(len, names.values()))
        if self._comparison.index is not None:
            for problem in self._comparison.problems_of_index():
                findings.add("", [f"index: {problem}"])
            forgotten = self._again(self._comparison.problems_of_forgotten)
            findings.add("", [f"index: {problem}" for problem in forgotten])
        self._vectors()
        for logs in self._comparison.kinds:
            self._compare(logs, names[logs.kind])
        for name in names[Kind.THREAD]:
            findings.add(name, self._again(partial(self._thread, name)))
            findings.threads += 1
            findings.logs += 1
            self._comparison.rest()
        findings.add("", self._again(self._ledgers))

    def _again(self, problems: Callable[[], list[str]]) -> list[str]:
        """Return the problems of something; if there are any, those of a second look."""
        return problems() and problems()

    # The logs -------------------------------------------------------------------------------------

    def _compare(self, logs: Logs[Any], names: list[str]) -> None:
        findings = self._findings
        is_conversations = logs.kind is Kind.CONVERSATION
        for it in self._comparison.each(logs, names, self._look):
            if is_conversations:
                self._progress(findings.conversations, len(names))
                findings.conversations += 1
                findings.messages += it.reading.messages
            else:
                findings.communications += 1
            findings.logs += 1
            findings.add(it.name, it.problems)
        if self._comparison.index is not None:
            for name in self._comparison.indexed_alone(logs):
                findings.add(name, ["is in the index and has no transcript"])

    def _look(self, logs: Logs[Any], name: str, words: Words | None) -> Compared | None:
        """Compare a log with the index, and with the vectors as they were right before."""
        embedded: dict[int, bytes] = {}
        looked_at = 0
        if logs.kind is Kind.CONVERSATION:
            with suppress(VectorsUnavailable):  # it is a problem of the space already
                embedded, looked_at = self._embedded(name)
        compared = self._comparison.of(logs, name, words)
        if compared is None or not isinstance(compared.reading, ConversationReading):
            return compared
        if (stored := compared.stored) is not None:
            embedded = {line: it for line, it in embedded.items() if line <= stored.lines}
            if looked_at < stored.lines:  # the notes may be newer than their vector
                embedded.pop(ABBREVIATION, None)
        compared.differences += _vector_differences(embedded, compared.reading)
        return compared

    def _embedded(self, name: str) -> tuple[dict[int, bytes], int]:
        with outside(self._store.root) as vectors:
            return vectors.hashes(name) if vectors else ({}, 0)

    def _thread(self, name: str) -> list[str]:
        """Return the problems of a thread of checkpoints, of which the index knows nothing."""
        thread_id: str | None = None
        problems: list[str] = []
        try:
            for line in self._comparison.lines(name):
                if isinstance(line, str):
                    problems.append(line)
                elif line.entry is not None and isinstance(line.entry.content, ThreadBegan):
                    thread_id = line.entry.content.thread_id
        except LogNotFound:
            return []
        if thread_id is None:
            problems.append("no line says which thread it is")
        elif log_of(thread_id) != name:
            problems.append(f"it is of a thread whose log is {log_of(thread_id)}")
        return problems

    # The files by themselves --------------------------------------------------------------------

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
            if not has_version(self._store, ledger, Version.PRESENT):
                continue
            name = self._shown(ledger)
            for line in self._comparison.lines(ledger):
                if isinstance(line, str):
                    problems.append(f"{name}: {line}")
                elif (
                    ledger == ANCHORS
                    and line.entry is not None
                    and isinstance(it := line.entry.content, AnchorSet)
                    and it.conversation_id
                    and not has_conversation(self._store, it.conversation_id)
                ):
                    problems.append(
                        f"{name}: line {line.sequence} is of {it.conversation_id}, which has no"
                        " transcript"
                    )
        for own in ledgers(self._store):
            problems += [f"{self._shown(own.name)}: {it}" for it in own.misplaced()]
        return problems + self._store.strays()

    def _shown(self, ledger: str) -> str:
        """Return the name of a ledger as people look for it."""
        return self._store.path(ledger).name if isinstance(self._store, FolderStore) else ledger


def verify(store: FolderStore, progress: Progress) -> Findings:
    """Verify a folder, torn tails too. Nobody may have it open. Raises LogUnavailable, OSError."""
    findings = Findings(sys.maxsize, sys.maxsize)
    for name, _ in store.logs(Kind.CONVERSATION, Version.DELETED):
        findings.add(name, ["its delete has begun and not ended: the next start ends it"])
    findings.add("", [f"{NAME_OF_VECTORS}: {problem}" for problem in vector_problems(store.root)])
    for file, size in store.torn_files().items():
        findings.cut.append(f"{counted(size, 'byte')} that a start cut off a log are in {file}")
    index = _open(store, findings)
    try:
        comparison = Comparison(
            store, index, read=lambda log, end: store.problems(log, acknowledged=end)
        )
        Verifier(comparison, findings, progress).run()
    except IndexUnavailable as error:
        findings.add("", [f"index: {error}"])
    finally:
        if index is not None:
            index.close()
    return findings


def _open(store: FolderStore, findings: Findings) -> Index | None:
    if not (store.root / NAME).exists():
        findings.add("", ["index: there is none: the next start makes it"])
        return None
    index, problem = opened(store.root)
    if problem:
        findings.add("", [f"index: cannot be used: {problem}: the next start makes it anew"])
    return index


def _vector_differences(embedded: dict[int, bytes], reading: ConversationReading) -> Iterator[str]:
    """Yield vectors of other texts than the transcript has. A missing one is worked out while a
    server runs: no problem.
    """
    texts: dict[int, str] = {}
    if reading.state is None or not reading.state.unindexed:
        texts = {message.sequence: text_of(message) for _, message in reading.messages_read}
        texts[ABBREVIATION] = reading.state.abbreviation if reading.state else ""
    for line, embedded_hash in sorted(embedded.items()):
        if line not in texts or embedded_hash != hash_of(texts[line]):
            yield f"{NAME_OF_VECTORS} has another text than {_place(line)}"


def _place(line: int) -> str:
    return f"line {line}" if line != ABBREVIATION else "the abbreviation"
