"""Checks of what features keep, which they register with a verification, and what is found."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from recollect_server.kernel.compare.comparison import Compared, Comparison
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.store import LogStore

_MOST_PROBLEMS = 100  # kept of a space that is served; all are counted
_MOST_PER_LOG = 10  # kept of one log


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


class Checker:
    """Verification of what a feature keeps of a space. It changes nothing."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def of_files(self) -> Iterable[str]:
        """Yield the problems of a feature's files by themselves, which nobody has open."""
        return ()

    def of_space(self, findings: Findings) -> None:
        """Add what is wrong in the space."""

    def look(self, name: str) -> None:
        """Look at what there is of a conversation, right before its log is read."""

    def differences(self, compared: Compared) -> Iterable[str]:  # noqa: ARG002
        """Yield what a conversation's log, which was read then, has otherwise."""
        return ()


def again(problems: Callable[[], list[str]]) -> list[str]:
    """Return the problems of something beside calls; if there are any, those of a second look."""
    return problems() and problems()


def shown(store: LogStore, ledger: str) -> str:
    """Return the name of a ledger as people look for it."""
    return store.path(ledger).name if isinstance(store, FolderStore) else ledger
