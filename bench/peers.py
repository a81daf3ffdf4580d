"""Recollect beside other memory libraries that run offline without a key, in one run.

`python -m bench.peers --set DIR ... [--groups NAME ...] [--peers NAME ...] [--json OUT.json]
[--picture OUT.svg] [--vectors FILE] [--journal FILE] [--here]`

Each library is installed with pip into a virtual environment of its own, in `--environments`, and
driven over JSON lines as a process (`peer_drivers.py`): one that does not install or run is a row
with the reason. `--here` installs nothing and takes what this environment has. `--read OUT.json`
measures nothing and draws the figures of an earlier run. `--vectors FILE` embeds each text once for
all libraries, for large sets. `--journal FILE` gets a line for each library and group as soon as it
is measured, and what it has already is not measured again: a run that was ended goes on, and
libraries can be measured one by one.

Everybody stores the same messages, one a call, in the order of their conversations, and answers the
same questions with ten messages. A library gets speaker and date in the text; Recollect has fields
for them. A question with a time is asked when everything before it, and nothing after it, is
stored. A message counts if it is one of the question's gold messages. Then the process is ended in
order, its files are measured, and it starts again; some messages more are stored, and it is killed
with SIGKILL as soon as they are acknowledged. A new process says how many of all it holds.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from recollect import Message
from recollect.imports import recall_sets
from recollect.imports.plans import Plan
from recollect_server.recall.model.weights import MODEL

from bench.figures import Figure, number
from bench.peer_environments import (
    PEERS,
    PLAIN_FTS5,
    PLAIN_VECTORS,
    RECOLLECT,
    RECOLLECT_WORDS,
    Failed,
    Peer,
    installed,
    size_of,
)
from bench.peer_memories import Item, Memory, opened
from bench.pictures import bars
from bench.recall import (
    QUERIES,
    Found,
    Question,
    Tally,
    means,
    messages_of,
    read_conversations,
    read_questions,
    started,
)

_PROBES = 20
"""Messages that are stored just before the process is killed."""


@dataclass(slots=True)
class Row:
    """Measurements of a peer on a set, of one group or more."""

    peer: Peer
    tally: Tally = field(default_factory=Tally)
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Seconds: of each call, and of embedding in it."""
    messages: int = 0
    bytes: int = 0
    memory: int = 0
    held: int = 0
    """Messages read after the kill, of those stored some time before it."""
    probes: int = 0
    """The same, of the last ones."""
    probes_stored: int = 0
    failure: str = ""
    load: float = 0.0
    """The highest load average at the end of a group."""
    date: str = ""

    def add(self, group: "Row") -> None:
        """Add the measurements of another group."""
        self.tally.conversations += group.tally.conversations
        self.tally.messages += group.tally.messages
        for name, times in group.times.items():
            self.times[name] += times
        for name in ("messages", "bytes", "held", "probes", "probes_stored"):
            setattr(self, name, getattr(self, name) + getattr(group, name))
        self.memory = max(self.memory, group.memory)
        self.load, self.date = max(self.load, group.load), max(self.date, group.date)
        self.failure = self.failure or group.failure

    def summary(self, installed: int, *, timed: bool = True) -> dict[str, Any]:
        """Return the figures of the row, with times in milliseconds if they are worth it."""
        about = {
            "peer": self.peer.name,
            "by": self.peer.by,
            "packages": self.peer.packages,
            "date": self.date,
            "load": self.load,
        }
        if self.failure:
            return about | {"failure": self.failure}
        middle = {
            f"{name}_ms": round(1000 * statistics.median(times), 3)
            for name, times in self.times.items()
            if times and timed
        }
        return about | {
            "questions": len(self.tally.messages),
            "messages": self.messages,
            **({"found": means(self.tally.messages)} if self.peer.searches else {}),
            **middle,
            "bytes_per_message": round(self.bytes / self.messages),
            "memory_mib": round(self.memory / 2**20),
            "held": f"{self.held} of {self.messages}",
            "held_last": f"{self.probes} of {self.probes_stored}",
            "installed_mib": round(installed / 2**20),
        }


def items_of(plans: Sequence[Plan]) -> list[Item]:
    """Return the messages of a history, conversation after conversation."""
    return [
        Item(
            name,
            plan.key[3],
            plan,
            message,
            datetime.fromtimestamp(milliseconds / 1000, UTC),
        )
        for plan in sorted(plans, key=started)
        for name, milliseconds, message in messages_of(plan)
    ]


def steps(
    items: Sequence[Item], questions: Sequence[Question]
) -> Iterator[tuple[list[Item], list[Question]]]:
    """Yield what is stored next, and the questions that are asked then: each after all
    conversations that started before it.
    """
    moments: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        moments[question.asked_at or ""].append(question)
    at = 0
    for moment in sorted(moments, key=lambda it: (not it, it)):  # no time: after everything
        end = datetime.fromisoformat(moment) if moment else datetime.max.replace(tzinfo=UTC)
        first = at
        while at < len(items) and started(items[at].plan) < end.timestamp() * 1000:
            at += 1
        yield list(items[first:at]), moments[moment]


def probes_of(items: Sequence[Item]) -> list[Item]:
    """Return messages of another conversation, said after everything else."""
    last = max(it.time for it in items)
    return [
        Item(
            f"probe {at}",
            "probes",
            items[0].plan,
            Message.user(f"Probe {at} was stored before the kill.", timestamp=moment),
            moment,
        )
        for at in range(_PROBES)
        for moment in [last + timedelta(minutes=at + 1)]
    ]


def measure(memory: Memory, row: Row, items: Sequence[Item], questions: Sequence[Question]) -> int:
    """Have a memory store and search one group's history; add the figures to its row. Returns the
    number of messages stored.
    """
    stored: list[Item] = []
    warm = False
    for more, asked_now in steps(items, questions):
        began, used = time.perf_counter(), memory.processor()
        for at in range(0, len(more), 50):
            part = more[at : at + 50]
            times, embedding = memory.store(part)
            row.times["store"] += times
            row.times["store_embedding"].append(embedding / len(part))
        memory.settle()
        if more:
            row.times["whole"].append((time.perf_counter() - began) / len(more))
            row.times["store_processor"].append((memory.processor() - used) / len(more))
        stored += more
        if not row.peer.searches:
            continue
        if not warm:
            memory.search("Good morning")
            warm = True
        used = memory.processor()
        for question in asked_now:
            answer = memory.search(question.query)
            row.times["search"].append(answer.time)
            row.times["search_embedding"].append(answer.embedding)
            row.tally.add(question, Found([], answer.ids))
        row.times["search_processor"].append((memory.processor() - used) / len(asked_now))
    memory.save()
    row.memory = max(row.memory, memory.memory())
    row.messages += len(stored)
    return len(stored)


def crash(memory: Memory, row: Row, items: Sequence[Item]) -> None:
    """Kill a memory just after it stored something, and count what its next process holds."""
    probes = probes_of(items)
    memory.store(probes)
    memory.stop(kill=True)
    memory.start()
    row.held += memory.held(items)
    row.probes += memory.held(probes)
    row.probes_stored += len(probes)


def run_group(
    row: Row,
    plans: list[Plan],
    questions: list[Question],
    environments: Path,
    vectors: Path | None = None,
    *,
    here: bool = False,
) -> None:
    """Measure a peer on one group."""
    items = items_of(plans)
    questions = [it for it in questions if it.gold_messages]
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "memory"
        own.mkdir()
        try:
            with opened(row.peer, own, environments, vectors, here=here) as memory:
                count = measure(memory, row, items, questions)
                memory.stop()
                row.bytes += size_of(own)
                memory.start()
                crash(memory, row, items[:count])
        except Failed as failure:
            row.failure = str(failure)
    row.load, row.date = round(os.getloadavg()[0], 1), f"{datetime.now(UTC):%Y-%m-%d}"


class Journal:
    """A file with a line for each library and group that was measured."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._rows: dict[tuple[str, str, str], Row] = {}
        if path is not None and path.exists():
            for line in filter(None, path.read_bytes().splitlines()):
                with suppress(orjson.JSONDecodeError):  # the run ended while it wrote
                    self._read(orjson.loads(line))

    def _read(self, line: dict[str, Any]) -> None:
        of_set, group, name = line.pop("set"), line.pop("group"), line.pop("peer")
        packages = tuple(line.pop("packages"))
        peer = next((it for it in PEERS if (it.name, it.packages) == (name, packages)), None)
        if peer:
            tally, times = Tally(**line.pop("tally")), defaultdict(list, line.pop("times"))
            self._rows[of_set, group, name] = Row(peer, tally, times, **line)

    def row(self, of_set: str, group: str, peer: Peer) -> Row | None:
        """Return what was measured of this very version of a library, unless it failed."""
        return self._rows.get((of_set, group, peer.name))

    def add(self, of_set: str, group: str, row: Row) -> None:
        """Append a row."""
        if self._path is None or row.failure:
            return
        measured = {it.name: getattr(row, it.name) for it in fields(row) if it.name != "peer"}
        line = {"set": of_set, "group": group, "peer": row.peer.name} | measured
        with self._path.open("ab") as file:
            # The break comes first: it ends what an ended run left.
            file.write(b"\n" + orjson.dumps(line | {"packages": row.peer.packages}))


_FOUND = ("any@1", "any@5", "any@10", "recall@10")
_COSTS = {
    "store": "store_ms",
    "store, processor": "store_processor_ms",
    "until found": "whole_ms",
    "search": "search_ms",
    "search, model": "search_embedding_ms",
    "search, processor": "search_processor_ms",
    "bytes a message": "bytes_per_message",
    "memory, MiB": "memory_mib",
    "installed, MiB": "installed_mib",
}
"""Columns of the costs; those without a unit are milliseconds."""


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the figures of one set in Markdown: what is found and held, then what it costs."""

    def line(*cells: str) -> str:
        return f"| {' | '.join(cells)} |"

    def rule(columns: Sequence[str]) -> str:
        return line(*("---" for _ in columns))

    head = ["memory", "ranks by", *_FOUND, "held after a kill", "date, load"]
    lines = [line(*head), rule(head)]
    for row in rows:
        if "failure" in row:
            lines.append(line(row["peer"], row["failure"], *("" for _ in head[2:])))
            continue
        shares = [f"{row['found'][it]:.1f}" if "found" in row else "-" for it in _FOUND]
        held = f"{row['held']}; {row['held_last']}"
        when = f"{row['date']}, {row['load']}"
        lines.append(line(row["peer"], row["by"], *shares, held, when))
    head = ["memory", *_COSTS]
    lines += ["", line(*head), rule(head)]
    for row in rows:
        if "failure" not in row:
            cells = (number(row[it]) if row.get(it) else "-" for it in _COSTS.values())
            lines.append(line(row["peer"], *cells))
    return "\n".join(lines)


def picture(report: dict[str, Any], name: str) -> str:
    """Return the share of the questions of a set with a gold message among the first ten, as
    bars.
    """
    of_set = report["sets"][name]
    rows = [it for it in of_set["rows"] if "found" in it]
    rows.sort(key=lambda it: -it["found"]["any@10"])
    own = {RECOLLECT.name: 0, RECOLLECT_WORDS.name: 0, PLAIN_FTS5.name: 1, PLAIN_VECTORS.name: 1}
    colours = [own.get(it["peer"], 2) for it in rows]
    return bars(
        f"A right message among the first ten: {rows[0]['questions']:,} questions of {name}",
        [(it["peer"], it["found"]["any@10"]) for it in rows],
        "%",
        f"{', '.join(of_set['groups'])}; {report['note']}; vectors by the same model; orange: baselines",
        left=250,
        colours=colours,
    )


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Measure, print a table for each set, and write the files that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", type=Path, nargs="+", default=[], metavar="DIR")
    parser.add_argument("--groups", nargs="+", metavar="NAME", help="only these")
    parser.add_argument(
        "--peers", nargs="+", metavar="NAME", choices=[it.name for it in PEERS], help="only these"
    )
    parser.add_argument("--here", action="store_true", help="installs nothing")
    parser.add_argument(
        "--environments",
        type=Path,
        default=Path.home() / ".cache" / "recollect-peers",
        metavar="DIR",
        help="where the libraries are installed",
    )
    parser.add_argument(
        "--vectors",
        type=Path,
        metavar="FILE",
        help="keeps the vectors of texts for the next library, and leaves the times out",
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="writes the figures")
    parser.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="keeps what is measured, and takes it from there",
    )
    parser.add_argument("--read", type=Path, metavar="IN", help="measures nothing, reads figures")
    parser.add_argument("--picture", type=Path, metavar="OUT.svg", help="draws the first set")
    chosen = parser.parse_args(arguments)
    report = orjson.loads(chosen.read.read_bytes()) if chosen.read else run(chosen)
    for name, of_set in report["sets"].items():
        print(
            f"\n{name}: {', '.join(of_set['groups'])}; {report['note']}\n\n{table(of_set['rows'])}"
        )
    if chosen.picture:
        chosen.picture.write_text(picture(report, next(iter(report["sets"]))))
    return figures_of(report)


def run(chosen: argparse.Namespace) -> dict[str, Any]:
    """Measure every peer on every group in turn, and return the report."""
    peers = [it for it in PEERS if not chosen.peers or it.name in chosen.peers]
    journal = Journal(chosen.journal)
    sizes: dict[str, int] = {}
    failures: dict[str, str] = {}
    for peer in [] if chosen.here else peers:
        print(f"installing {peer.name} ...", file=sys.stderr, flush=True)
        try:
            sizes[peer.name] = installed(peer, chosen.environments)
        except Failed as failure:
            failures[peer.name] = str(failure)
    report: dict[str, Any] = {
        "note": f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores",
        "model": f"{MODEL} (all-MiniLM-L6-v2)",
        "loads": [],
        "sets": {},
    }
    for folder in chosen.set:
        plans = read_conversations(folder / recall_sets.FILE, abbreviations=False)
        questions = read_questions(folder / QUERIES)
        groups = [
            name
            for name, of_group in sorted(questions.items())
            if (not chosen.groups or name in chosen.groups)
            and any(it.gold_messages for it in of_group)  # else nothing can be found
        ]
        rows = [Row(peer, failure=failures.get(peer.name, "")) for peer in peers]
        for at, group in enumerate(groups):
            for row in rows:
                if not row.failure:
                    of_group = journal.row(folder.name, group, row.peer)
                    if of_group is None:
                        print(f"{group}: {row.peer.name} ...", file=sys.stderr, flush=True)
                        of_group = Row(row.peer)
                        run_group(
                            of_group,
                            plans[group],
                            questions[group],
                            chosen.environments,
                            chosen.vectors,
                            here=chosen.here,
                        )
                        journal.add(folder.name, group, of_group)
                    row.add(of_group)
            report["loads"].append(round(os.getloadavg()[0], 1))
            report["sets"][folder.name] = {
                "groups": groups[: at + 1],
                "rows": [
                    row.summary(sizes.get(row.peer.name, 0), timed=chosen.vectors is None)
                    for row in rows
                ],
            }
            if chosen.json:  # after each group, for a run takes long
                option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
                chosen.json.write_bytes(orjson.dumps(report, option=option))
    return report


def figures_of(report: dict[str, Any]) -> list[Figure]:
    """Return how often gold is among the first ten, beside plain FTS5."""
    figures = []
    for name, of_set in report["sets"].items():
        values = {it["peer"]: it["found"]["any@10"] for it in of_set["rows"] if it.get("found")}
        base = values.get(PLAIN_FTS5.name)
        figures += [
            Figure(
                f"messages any@10 of {name}",
                value,
                "%",
                base,
                PLAIN_FTS5.name,
                value / base if base else None,
                part=peer,
            )
            for peer, value in values.items()
        ]
    return figures


if __name__ == "__main__":
    main()
