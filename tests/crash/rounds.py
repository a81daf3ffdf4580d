"""Rounds of: 8 callers at work, SIGKILL at a random moment, a start, and the checks."""

import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.checker import check, check_index, repeat
from tests.crash.history import History
from tests.crash.load import connected, process, under_load
from tests.server.conftest import Service

_LONGEST = 0.25  # seconds of work before a kill
_ROUNDS_A_FOLDER = 50  # so that checking does not grow with the rounds


@dataclass
class Figures:
    """Figures of the rounds."""

    rounds: int = 0
    acknowledged: int = 0
    unanswered: int = 0
    """Calls that a kill left without an answer: the next server was asked them again."""
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    longest_restart: float = 0.0
    """Seconds from the start of the process until it listens."""


def run_rounds(
    folder: Path, rounds: int, seed: int, *, cold: bool = False, url: str = ""
) -> Figures:
    """Kill a server so many times, and check after each. The folder must be there, and empty.

    `url`: the logs are in that database, of at most 50 rounds. `cold`: each server imports
    everything itself, so that the longest restart is what a user sees.
    """
    figures = Figures()
    rng = random.Random(seed)  # noqa: S311 - a test's numbers
    while figures.rounds < rounds:
        own = folder / f"after {figures.rounds}"
        left = min(_ROUNDS_A_FOLDER, rounds - figures.rounds)
        _in_one_folder(Place(own, url), left, rng, figures, cold=cold)
    return figures


@dataclass(frozen=True)
class Place:
    """Data of a server: a folder, and perhaps a database for its logs."""

    data_dir: Path
    url: str = ""

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--store", self.url) if self.url else ()

    @property
    def index(self) -> Path:
        """The folder of the index."""
        space = self.data_dir / "default"
        return next(space.glob("postgres-*")) if self.url else space / "conversations"

    def transcripts(self) -> Path:
        """Return the folder of the transcripts: of those in a database, a copy as they are now."""
        if not self.url:
            return self.index
        from tests.postgres import copy_transcripts  # only where there is a PostgreSQL

        folder = self.data_dir.with_name(f"{self.data_dir.name} copied")
        copy_transcripts(self.url, folder)
        return folder


def _in_one_folder(
    place: Place, rounds: int, rng: random.Random, figures: Figures, *, cold: bool
) -> None:
    history = History()
    since = 0
    for left in range(rounds, -1, -1):
        began = time.monotonic()
        with (
            process(place.data_dir, "", "127.0.0.1:0", *place.flags, cold=cold) as server,
            connected(server.target) as service,
        ):
            figures.longest_restart = max(figures.longest_restart, time.monotonic() - began)
            _check(history, service, place, since, figures)
            since = len(history.calls())
            if left:
                with under_load(service, history, seed=figures.rounds):
                    threading.Event().wait(rng.uniform(0.01, _LONGEST))
                    server.kill()
                figures.rounds += 1
            else:
                # All that was ever answered, once more; then as it was left, without a kill.
                figures.wrong += check(history, service, place.transcripts()).problems
                server.popen.terminate()
                server.popen.wait()
    beside = place.data_dir.with_name(f"{place.data_dir.name} anew")
    figures.wrong += check_index(place.transcripts(), beside, index=place.index)


def _check(history: History, service: Service, place: Place, since: int, figures: Figures) -> None:
    figures.unanswered += sum(not call.ended for call in history.calls()[since:])
    before = check(history, service, place.transcripts(), since)
    figures.acknowledged += before.acknowledged
    figures.wrong += repeat(history, service, since)
    for verdict in (before, check(history, service, place.transcripts(), since)):
        figures.lost += verdict.lost
        figures.duplicated += verdict.duplicated
        figures.wrong += verdict.wrong
