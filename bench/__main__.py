"""Every benchmark in a short form, one table of what was seen, and the pictures.

`python -m bench [--set DIR ...] [--only NAME ...] [--pictures DIR]`, or `make bench`

A recall set is a folder as `bench.recall` reads it; of each, the first group is asked. The figures
of `README.md` come from the long forms: what is small here says whether something is out of order,
not how fast it is at full size.
"""

import argparse
import importlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.figures import Row, measured, table
from bench.pictures import Line, bars, lines


@dataclass(frozen=True, slots=True)
class Short:
    """A benchmark with the arguments of its short form. Its module has `main`, which takes them and
    returns figures.
    """

    module: str
    arguments: str
    wants_set: bool = False


BENCHMARKS = (
    Short("append", "--rounds 1 --calls 1000 --callers 1 2 4 8 16 32"),
    Short("fairness", "--rounds 1 --seconds 1"),
    Short("neighbours", "--messages 1000 --seconds 2 --words"),
    Short("load", "--rounds 1 --calls 300 --turns 5 50 500 5000 50000"),
    Short("gateway", "--rounds 1 --calls 300"),
    Short("adapters", "--calls 50"),
    Short("search", "--rounds 1 --questions 100 --messages 1000 10000 100000"),
    Short("worst_search", "--messages 10000 --questions 1"),
    Short("beside", "--rounds 1 --messages 2000 --searches 10 --calls 200 --words"),
    Short("meaning", "--rounds 1 --calls 500"),
    Short("embedding", "--rounds 1 --messages 200"),
    Short("languages", "--words"),
    Short("household", "--half learn --languages de"),
    Short("newcomers", "--words --half learn"),
    Short("first_minute", "--people 4"),
    Short("context", "--messages 10000 --calls 100"),
    Short(
        "receive",
        "--rounds 1 --calls 800 --callers 8 --contacts 10000 --threads 10000 --mails 100000",
    ),
    Short("insight", "--messages 20000 --rounds 3 --calls 500"),
    Short("stream", "--rounds 1 --calls 1000 --few 50 --many 300 --events 40 --missed 2000"),
    Short("deletes", "--conversations 100 --rounds 1"),
    Short("start", "--rounds 1 --conversations 2000"),
    Short("spaces", "--spaces 50 --open 10 --calls 200 --on-disk 500"),
    Short("backup", "--rounds 1 --messages 2000 --calls 400"),
    Short("background", "--rounds 1 --conversations 100 --calls 200"),
    Short("soak", "--appends 5000 --conversations 500"),
    Short("crash", "--rounds 10 --power-loss 200"),
    Short("search", "--rounds 1 --questions 100", wants_set=True),
    Short("recall", "--legs", wants_set=True),
    Short("context", "--tokens 1000 4400", wants_set=True),
    Short("dialogue", "--questions 20", wants_set=True),
    Short("abbreviations", "", wants_set=True),
)
"""Not here: `bench.learn`, which takes hours and writes weights, `bench.stream --soak`,
`bench.peers`, which installs other libraries, and `bench.published`, whose data is elsewhere.
"""


def runs(chosen: Sequence[str], sets: Sequence[Path]) -> list[tuple[str, list[str]]]:
    """Return the modules to run, each with its arguments."""
    made = []
    for short in BENCHMARKS:
        if chosen and short.module not in chosen:
            continue
        arguments = short.arguments.split()
        if short.wants_set:
            made += [
                (short.module, [*arguments, "--set", str(it), "--groups", first_group(it)])
                for it in sets
            ]
        else:
            made.append((short.module, arguments))
    return made


def first_group(folder: Path) -> str:
    """Return the first group of a recall set."""
    recall = importlib.import_module("bench.recall")
    return str(min(recall.read_questions(folder / recall.QUERIES)))


def drawn(rows: Sequence[Row], note: str) -> dict[str, str]:
    """Return the pictures that these figures are enough for, by the name of their file."""
    made = {}
    rates, rates_of_echo = points(rows, "append", "appends")
    if len(rates) > 1:
        both = [Line("AppendTurn, durable", rates), Line("bare echo", rates_of_echo, base=True)]
        made["append"] = lines(
            "Append rate against callers",
            "callers",
            "calls a second",
            both,
            note,
            logarithmic=False,
        )
    load, load_echo = points(rows, "load", "Load p50", 2)
    search, plain = points(rows, "search", "Search p50")
    if len(load) > 1 and len(search) > 1:
        four = [
            Line("Search", search),
            Line("plain FTS5", plain, base=True),
            Line("Load of the tail", load, 1),
            Line("bare echo of its size", load_echo, 1, base=True),
        ]
        made["latency"] = lines(
            "Latency against size",
            "messages in the history",
            "ms, p50",
            four,
            note,
            logarithmic=True,
        )
    figures = [
        row.figure
        for row in rows
        if row.benchmark == "recall" and row.figure.name.startswith("messages")
    ]
    for name in dict.fromkeys(figure.name for figure in figures):
        of_set = [figure for figure in figures if figure.name == name]
        # a leg may have had nothing to search
        parts = [(figure.part, figure.value) for figure in of_set if figure.value]
        parts[1:1] = [
            ("plain FTS5", figure.baseline) for figure in of_set[:1] if figure.baseline is not None
        ]
        made[f"recall-{name.rsplit()[-1]}"] = bars(f"Recall by leg: {name}", parts, "%", note)
    return made


def points(
    rows: Sequence[Row], benchmark: str, name: str, by: float = 1
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the values of a figure at each size, and its baseline; `by` multiplies the sizes."""
    figures = [
        row.figure
        for row in rows
        if row.benchmark == benchmark and row.figure.name == name and row.figure.at is not None
    ]
    ours = [((figure.at or 0) * by, figure.value) for figure in figures]
    base = [
        ((figure.at or 0) * by, figure.baseline)
        for figure in figures
        if figure.baseline is not None
    ]
    return ours, base


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run them, print the table and write the pictures."""
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--set",
        type=Path,
        nargs="+",
        default=[],
        metavar="DIR",
        help="folders with conversations.jsonl and queries.jsonl",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        choices={it.module for it in BENCHMARKS},
        help="only these",
    )
    parser.add_argument(
        "--pictures",
        type=Path,
        default=Path(__file__).parent,
        metavar="DIR",
        help="where the pictures are written",
    )
    chosen = parser.parse_args(arguments)
    began, load = time.monotonic(), os.getloadavg()[0]
    rows = []
    for module, own in runs(chosen.only, chosen.set):
        print(f"\n== bench.{module} {' '.join(own)} ({time.monotonic() - began:.0f} s)", flush=True)
        rows += [Row(module, figure) for figure in measured(module, own)]
    loads = f"load average {load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end"
    note = f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {loads}; the short form of each benchmark"
    print(
        f"\n{note}, {time.monotonic() - began:.0f} s in all. Goals are those of the size that was measured, where it has one.\n"
    )
    print(table(rows))
    for name, picture in drawn(rows, note).items():
        path = chosen.pictures / f"{name}.svg"
        path.write_text(picture)
        print(f"\ndrew {path}")
    return rows


if __name__ == "__main__":
    missed = [row for row in main() if row.figure.goal and not row.figure.goal.met(row.figure)]
    if missed:
        print(
            f"\n{len(missed)} goals missed: "
            + "; ".join(f"{row.benchmark}: {row.figure.name}" for row in missed)
        )
