"""A data folder without a server, as tests look at it: the one place that knows the index's file,
its seal, and how the logs of a folder are read, checked and opened.
"""

from dataclasses import dataclass
from pathlib import Path

from recollect_server.kernel.compare import recovery, verification
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.index import file
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log import reader
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.lines import Line
from recollect_server.kernel.space.space import Space
from recollect_server.run.features import FEATURES

INDEX = file.NAME
SEAL = file.SEAL


@dataclass(frozen=True)
class Opened:
    """A space over a folder, in this process and without a network."""

    logs: FolderStore
    index: Index
    space: Space

    def close(self) -> None:
        """Close the logs and the index."""
        self.logs.close()
        self.index.close()


def opened(
    folder: Path, *, sync: bool = True, compared_at_once: int = recovery.COMPARED_AT_ONCE
) -> Opened:
    """Open a space's folder as a server that starts does."""
    logs = FolderStore(folder, sync=sync)
    index = recovery.recover(
        logs, FEATURES, system_clock, recovery.no_progress, compared_at_once
    ).index
    return Opened(logs, index, Space(logs, index, FEATURES, system_clock))


def lines_of(transcript: Path) -> list[Line]:
    """Return the whole lines of a log; that of a damaged one has no entry."""
    return list(reader.scan(transcript))


def problems(folder: Path) -> list[str]:
    """Return what `recollect-server verify` finds in a space's folder."""
    return verification.verify(FolderStore(folder), FEATURES, recovery.no_progress).lines()


def is_sealed(folder: Path) -> bool:
    """Tell whether a space's index is byte for byte what a server closed."""
    return file.read_seal(folder) is file.Seal.INTACT
