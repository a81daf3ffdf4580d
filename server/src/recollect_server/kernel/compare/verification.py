"""Verification of a space: its logs are compared with its index and with what features keep, and
all that is damaged is named. Changes nothing.

`Verifier` does so while the space is served, without that a writer waits (see
`kernel.compare.comparison`), and `verify` has it look at a folder without a server.
"""

import sys
from typing import Any

from recollect_server.kernel.compare.checks import Findings, again, shown
from recollect_server.kernel.compare.comparison import Compared, Comparison
from recollect_server.kernel.compare.recovery import Progress, no_progress, opened
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.index.checking import Words
from recollect_server.kernel.index.file import NAME
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.store import LEDGERS, Version, has_version
from recollect_server.kernel.space.features import Features
from recollect_server.kernel.space.logs import Logs


class Interrupted(Exception):
    """The verification is to end before it looked at everything; the text says why."""


class Verifier:
    """The verification of one space. Use it in one thread."""

    def __init__(
        self,
        comparison: Comparison,
        features: Features,
        findings: Findings,
        progress: Progress = no_progress,
    ) -> None:
        """Fill `findings` as the comparison goes; `progress` is called before each conversation."""
        self._checkers = [it(comparison) for it in features.checkers]
        self._ledger_kinds = features.ledgers
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
        for it in self._checkers:
            it.of_space(findings)
        for logs in self._comparison.kinds:
            self._compare(logs, names[logs.kind])
        findings.add("", again(self._ledgers))

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
        """Compare a log with the index, and with what features have of it."""
        checkers = self._checkers if logs.kind is Kind.CONVERSATION else ()
        for it in checkers:
            it.look(name)
        compared = self._comparison.of(logs, name, words)
        if compared is not None:
            for it in checkers:
                compared.differences += it.differences(compared)
        return compared

    # The files by themselves --------------------------------------------------------------------

    def _ledgers(self) -> list[str]:
        problems: list[str] = []
        for ledger in LEDGERS:
            if not has_version(self._store, ledger, Version.PRESENT):
                continue
            name = shown(self._store, ledger)
            lines = self._comparison.lines(ledger)
            problems += [f"{name}: {line}" for line in lines if isinstance(line, str)]
        for own in (it(self._store) for it in self._ledger_kinds):
            problems += [f"{shown(self._store, own.name)}: {it}" for it in own.misplaced()]
        return problems + self._store.strays()


def verify(store: FolderStore, features: Features, progress: Progress) -> Findings:
    """Verify a folder, torn tails too. Nobody may have it open. Raises LogUnavailable, OSError."""
    findings = Findings(sys.maxsize, sys.maxsize)
    for name, _ in store.logs(Kind.CONVERSATION, Version.DELETED):
        findings.add(name, ["its delete has begun and not ended: the next start ends it"])
    alone = Comparison(store, None)
    findings.add("", [it for own in features.checkers for it in own(alone).of_files()])
    for file, size in store.torn_files().items():
        findings.cut.append(f"{counted(size, 'byte')} that a start cut off a log are in {file}")
    index = _open(store, features, findings)
    try:
        comparison = Comparison(
            store,
            index,
            features.kinds_of(store),
            read=lambda log, end: store.problems(log, acknowledged=end),
        )
        Verifier(comparison, features, findings, progress).run()
    except IndexUnavailable as error:
        findings.add("", [f"index: {error}"])
    finally:
        if index is not None:
            index.close()
    return findings


def _open(store: FolderStore, features: Features, findings: Findings) -> Index | None:
    if not (store.root / NAME).exists():
        findings.add("", ["index: there is none: the next start makes it"])
        return None
    index, problem = opened(store.root, features)
    if problem:
        findings.add("", [f"index: cannot be used: {problem}: the next start makes it anew"])
    return index
