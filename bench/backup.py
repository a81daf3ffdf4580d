"""Cost of backups for appends: AppendTurn alone and beside backups, one after the other.

`python -m bench.backup [--messages 20000] [--calls 4000] [--callers 4] [--rounds 5] [--call]`

Both come from the same server in one run, in turn: alone, beside backups, and so on. Backups are
made by `recollect-server backup` in a process of its own, as a timer does, at the lowest priority
(`nice -n 19`) as the unit of systemd gives it; with `--call` by the call Backup, within the server.
The ratio of a round is that of its two parts.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree

from recollect import Client

from bench.append import APPEND, requests
from bench.calls import Measured, measure
from bench.corpus import Corpus, write_transcripts
from bench.figures import Figure, Goal
from bench.servers import recollect


class _Backups:
    """Makes backups one after the other until it is stopped."""

    def __init__(self, make: Callable[[], None], folder: Path) -> None:
        self._make = make
        self._folder = folder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def __enter__(self) -> "_Backups":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            rmtree(self._folder, ignore_errors=True)
            self._make()
            self.count += 1


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--callers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--call", action="store_true", help="backups by the call Backup")
    chosen = parser.parse_args(arguments)
    pairs: list[tuple[Measured, Measured]] = []
    backups = 0
    with tempfile.TemporaryDirectory() as folder:
        data, copies = Path(folder) / "data", Path(folder) / "backups"
        write_transcripts(data, Corpus(chosen.messages))
        flags = ("--embedder", "off", "--backup-dir", str(copies))
        with recollect(data, *flags) as (target, _), Client(target) as client:
            command = ["nice", "-n", "19", sys.executable, "-m", "recollect_server", "backup"]
            command += ["--data-dir", str(data), "--backup-dir", str(copies)]

            def by_process() -> None:
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

            def by_call() -> None:
                client.admin.backup(timeout=600)

            def append() -> Measured:
                return measure(target, APPEND, requests(target, chosen.callers, chosen.calls, 2))

            make = by_call if chosen.call else by_process
            append()
            for _ in range(chosen.rounds):
                alone = append()
                with _Backups(make, copies) as running:
                    beside = append()
                backups += running.count
                pairs.append((alone, beside))
    cost = statistics.median(alone.rate / beside.rate for alone, beside in pairs)
    rate, rate_beside = (statistics.median(it[at].rate for it in pairs) for at in (0, 1))
    p99, p99_beside = (
        statistics.median(it[at].milliseconds(0.99) for it in pairs) for at in (0, 1)
    )
    print(
        f"{chosen.callers} callers: {rate:.0f} appends/s, p99 {p99:.1f} ms alone; {rate_beside:.0f} appends/s,"
        f" p99 {p99_beside:.1f} ms beside {backups} backups; an append takes {cost:.2f} times as long"
    )
    how = "by the call" if chosen.call else "by a process"
    return [
        Figure("AppendTurn beside backups", rate_beside, "/s", rate, "alone", cost, Goal(1.2, of_ratio=True),
               chosen.callers, "callers", how),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
