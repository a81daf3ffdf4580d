"""Notes taken behind the callers: how fast, at what cost, and what AppendTurn's p99 is meanwhile
against its p99 at rest.

`python -m bench.background [--conversations 1000] [--turns 10] [--callers 8] [--calls 2000]
[--rounds 3] [--idle 100000]`

Idle conversations are written as transcripts, and the offline writer takes notes of them as soon as
the server starts: once with no caller, then, over other folders, while callers append to
conversations of their own. At rest is the same server when it is done. With `--idle`, first: what
so many conversations cost that wait for their time and are not due.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from recollect_server.notes.table import note_state_of

from bench.append import APPEND, requests
from bench.calls import Measured, measure
from bench.corpus import Corpus, Made, write_conversation
from bench.figures import Figure, Goal
from bench.servers import recollect, resident_bytes

# of each conversation that callers append to: the fifth brings a title, which is work of this kind
# too
_CALLERS_TURNS = 4


@dataclass(slots=True)
class Appends:
    """Runs of AppendTurn."""

    busy: list[Measured] = field(default_factory=list)
    """While notes were taken, from the first call to the last."""
    rest: list[Measured] = field(default_factory=list)


def write_idle(data: Path, conversations: int, turns: int) -> None:
    """Write conversations that have been quiet for years."""
    texts = (text for made in Corpus(2 * conversations * turns) for text in made.texts)
    for number in range(conversations):
        write_conversation(data, Made(number, [next(texts) for _ in range(2 * turns)]))


def waiting(data: Path) -> int:
    """Return the number of conversations without notes of their end, by the index."""
    return note_state_of(data / "default" / "conversations").without


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """Return the processor seconds that a process has used (Linux)."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waits(data: Path, conversations: int, seconds: float) -> None:
    """Print what conversations cost that wait and are not due, against a server that takes no
    notes.
    """
    write_idle(data, conversations, 1)
    with recollect(data, "--embedder", "off"):
        pass  # indexed before the clock starts
    print(f"{conversations} conversations that wait: ", end="")
    shown = []
    for name, flags in (
        ("takes no notes", ["off"]),
        ("waits", ["extractive", "--idle-timeout", "36500d"]),
    ):
        with recollect(data, "--embedder", "off", "--abbreviator", *flags) as (_, process):
            time.sleep(seconds / 5)  # its start is over by then
            base = processor_seconds(process)
            time.sleep(seconds)  # in which nothing happens: that is what is measured
            used = processor_seconds(process) - base
            shown.append(
                f"a server that {name} has {resident_bytes(process) >> 20} MiB and uses {100 * used / seconds:.2f} %"
            )
    print(" of a processor; ".join(shown), "of a processor", flush=True)


def alone(data: Path, conversations: int) -> list[Figure]:
    """Print the rate and the cost without callers."""
    with recollect(data, "--abbreviator", "off") as (_, process):
        base = processor_seconds(process)  # a start over an index that is not there
    with recollect(data, "--abbreviator", "extractive") as (_, process):
        began = time.perf_counter()
        while waiting(data):
            time.sleep(0.05)  # between two looks, which take of the processor too
        seconds, used = time.perf_counter() - began, processor_seconds(process)
    print(
        f"{conversations} idle conversations: {conversations / seconds:.0f} a second, {1e3 * used / conversations:.1f} ms of"
        f" processor each, with the start (the start before, which indexed them: {base:.1f} s)",
        flush=True,
    )
    return [
        Figure("notes taken, no callers", conversations / seconds, "/s"),
        Figure("processor for each", 1e3 * used / conversations, "ms"),
    ]


def beside_callers(data: Path, callers: int, calls: int, appends: Appends) -> None:
    """Measure appends while notes are taken and afterwards."""
    with recollect(data, "--abbreviator", "off"):
        pass  # indexed before the clock starts
    with recollect(data, "--abbreviator", "extractive") as (target, _):
        appended = 0  # conversations of the callers: nothing is idle there
        while waiting(data) > appended:
            run = measured(target, callers, calls)
            appended += calls // _CALLERS_TURNS
            if waiting(data) > appended or not appends.busy:
                appends.busy.append(run)
        for _ in range(max(1, len(appends.busy))):
            appends.rest.append(measured(target, callers, calls))


def measured(target: str, callers: int, calls: int) -> Measured:
    """Return one run's figures. Every conversation gets few turns, so that none is named
    meanwhile.
    """
    conversations = calls // _CALLERS_TURNS
    made = requests(target, conversations, calls, 1)
    return measure(
        target, APPEND, [list(chain.from_iterable(made[at::callers])) for at in range(callers)]
    )


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument(
        "--seconds", type=float, default=20, help="how long the ones that are idle are watched"
    )
    chosen = parser.parse_args(arguments)
    print(f"load average {os.getloadavg()[0]:.1f} at the start")
    appends = Appends()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.idle:
            waits(Path(folder) / "waits", chosen.idle, chosen.seconds)
        data = Path(folder) / "alone"
        write_idle(data, chosen.conversations, chosen.turns)
        figures = alone(data, chosen.conversations)
        for number in range(chosen.rounds):
            data = Path(folder) / f"round-{number}"
            write_idle(data, chosen.conversations, chosen.turns)
            beside_callers(data, chosen.callers, chosen.calls, appends)
    for name, runs in (("meanwhile", appends.busy), ("at rest", appends.rest)):
        p50, p99 = (
            statistics.median(run.milliseconds(share) for run in runs) for share in (0.5, 0.99)
        )
        rate = statistics.median(run.rate for run in runs)
        print(
            f"AppendTurn {name}: {rate:.0f} a second, p50 {p50:.1f} ms, p99 {p99:.1f} ms ({len(runs)} runs)"
        )
    busy, rest = (
        statistics.median(run.milliseconds(0.99) for run in runs)
        for runs in (appends.busy, appends.rest)
    )
    print(f"p99 meanwhile is {busy / rest:.2f} of that at rest (goal 1.5)")
    return [
        *figures,
        Figure(
            "AppendTurn p99 meanwhile",
            busy,
            "ms",
            rest,
            "at rest",
            busy / rest,
            Goal(1.5, of_ratio=True),
        ),
    ]


if __name__ == "__main__":
    main()
