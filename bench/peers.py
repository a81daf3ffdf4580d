"""Recollect beside other memory libraries that run offline without a key, in one run.

`python -m bench.peers --set DIR ... [--groups NAME ...] [--peers NAME ...] [--json OUT.json]
[--picture OUT.svg] [--vectors FILE] [--here]`

Each library is installed with pip into a virtual environment of its own, in `--environments`, and
driven over JSON lines as a process (`peer_drivers.py`): one that does not install or run is a row
with the reason. `--here` installs nothing and takes what this environment has. `--read OUT.json`
measures nothing and draws the figures of an earlier run. `--vectors FILE` embeds each text once for
all libraries, for large sets.

Everybody stores the same messages, one a call, in the order of their conversations, and answers the
same questions with ten messages. A library gets speaker and date in the text; Recollect has fields
for them. A question with a time is asked when everything before it, and nothing after it, is
stored. A message counts if it is one of the question's gold messages. Then the process is ended in
order, its files are measured, and it starts again; some messages more are stored, and it is killed
with SIGKILL as soon as they are acknowledged. A new process says how many of all it holds.
"""

import argparse
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import orjson
from recollect import Client, Message, TurnRange
from recollect.cli import recall_sets
from recollect.cli.plans import Plan
from recollect_server.inference.weights import MODEL, shipped

from bench.figures import Figure, number
from bench.pictures import bars
from bench.recall import (
    DEPTHS,
    QUERIES,
    Found,
    Question,
    Tally,
    means,
    messages_of,
    read_conversations,
    read_questions,
    started,
    whole,
)
from bench.servers import embedded, processor_seconds, recollect, resident_bytes

ROOT = Path(__file__).parents[1]
_DRIVERS = Path(__file__).with_name("peer_drivers.py")
_LIMIT = max(DEPTHS)
_PROBES = 20
"""Messages that are stored just before the process is killed."""
_PATIENCE = 900.0
"""Seconds that a request may take."""
_RUNTIME = ("onnxruntime", "tokenizers", "numpy")
"""Libraries that the embedding model needs, in the environment of each peer that takes one."""


class Failed(Exception):
    """A library did not install or run; the text says why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A library to measure."""

    name: str
    driver: str
    """Its name in `peer_drivers.DRIVERS`."""
    packages: tuple[str, ...]
    """Requirements of its environment; none: it needs only that of the benchmarks."""
    by: str
    """Kind of ranking of its search."""
    embeds: bool = True
    """True if it takes an embedding function."""
    searches: bool = True


_LANGGRAPH_PACKAGES = ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2", *_RUNTIME)
_MCP_MEMORY = ("mcp-memory-service==12.2.0", *_RUNTIME)
_TXTAI = ("torch==2.13.0", "txtai==9.14.0", *_RUNTIME)
_VECTORS, _WORDS, _BOTH = "vectors", "words", "words and vectors"
RECOLLECT = Peer("Recollect", "", (), _BOTH)
RECOLLECT_WORDS = Peer("Recollect, embedder off", "", (), _WORDS, embeds=False)
PLAIN_FTS5 = Peer("plain FTS5", "plain-fts5", (), _WORDS, embeds=False)
PLAIN_VECTORS = Peer("plain vectors (numpy)", "plain-vectors", (), _VECTORS)
LANGGRAPH = Peer("LangGraph InMemoryStore", "langgraph-memory", _LANGGRAPH_PACKAGES, _VECTORS)
PEERS = (
    RECOLLECT,
    RECOLLECT_WORDS,
    PLAIN_FTS5,
    PLAIN_VECTORS,
    Peer("Google ADK InMemoryMemoryService", "google-adk", ("google-adk==2.13.0",), _WORDS, False),
    Peer("mcp-memory-service", "mcp-memory", _MCP_MEMORY, _VECTORS),
    Peer("mcp-memory-service, hybrid", "mcp-memory-hybrid", _MCP_MEMORY, _BOTH),
    Peer("mem0, infer=False", "mem0", ("mem0ai==2.2.1", *_RUNTIME), _VECTORS),
    LANGGRAPH,
    Peer("LangGraph SqliteStore", "langgraph-sqlite", _LANGGRAPH_PACKAGES, _VECTORS),
    Peer("Chroma", "chroma", ("chromadb==1.5.9", *_RUNTIME), _VECTORS),
    Peer("txtai", "txtai", _TXTAI, _VECTORS),
    Peer("txtai, hybrid", "txtai-hybrid", _TXTAI, _BOTH),
    Peer(
        "LlamaIndex VectorMemoryBlock",
        "llama-index",
        (
            "llama-index-core==0.14.25",
            "llama-index-vector-stores-chroma==0.6.0",
            "chromadb==1.5.9",
            *_RUNTIME,
        ),
        _VECTORS,
    ),
    Peer(
        "OpenAI Agents SQLiteSession",
        "openai-agents",
        ("openai-agents==0.24.0",),
        "no search",
        embeds=False,
        searches=False,
    ),
)


@dataclass(frozen=True, slots=True)
class Item:
    """A message of a history."""

    id: str
    conversation: str
    plan: Plan
    message: Message
    time: datetime

    def line(self) -> dict[str, str]:
        """Return the message as a driver takes it: speaker and date are in the text.

        Of five forms of the text, this is the one in which words, vectors, and plain FTS5 found
        most on the first dialogue of LoCoMo; without speaker and date they found least.
        """
        speaker = self.message.sender or self.message.role
        return {
            "id": self.id,
            "conversation": self.conversation,
            "role": self.message.role,
            "speaker": speaker,
            "time": self.time.isoformat(),
            "text": f"{speaker} ({self.time.day} {self.time:%B %Y}): {self.message.content}",
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a question: ids, best first, and seconds."""

    ids: list[str]
    time: float
    embedding: float


class Memory(Protocol):
    """A memory under test."""

    def store(self, items: Sequence[Item]) -> tuple[list[float], float]:
        """Store messages, each by a call. Return the seconds of each, and those of them all that
        were spent embedding.
        """

    def settle(self) -> None:
        """Wait until everything stored can be found by all retrievers."""

    def search(self, query: str) -> Answer:
        """Return the first ten."""

    def save(self) -> None:
        """Write what is in memory, where that is left to the user."""

    def stop(self, *, kill: bool = False) -> None:
        """End its process: in order, or by SIGKILL."""

    def start(self) -> None:
        """Start a process over its files."""

    def held(self, items: Sequence[Item]) -> int:
        """Return how many of the messages can be read."""

    def memory(self) -> int:
        """Return the resident bytes of its process."""

    def processor(self) -> float:
        """Return the seconds of processor that its process has used."""


class Driven:
    """A library, in a process of its own."""

    def __init__(
        self, peer: Peer, python: Path | str, folder: Path, vectors: Path | None, closing: ExitStack
    ) -> None:
        self._log = folder.with_suffix(".log")
        # The driver of a baseline imports the baseline; that of a library must not see this tree.
        own = not peer.packages and peer.driver.startswith("plain")
        program = ["-m", "bench.peer_drivers"] if own else ["-P", str(_DRIVERS)]
        self._command = [str(python), *program, peer.driver, str(folder), str(shipped())]
        self._loads = peer.embeds and vectors is None
        if vectors is not None:
            self._command.append(str(vectors))
        closing.callback(self.stop, kill=True)  # it may end before it answers
        self.start()

    def start(self) -> None:
        """Start the driver."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=environment,
            )
        self._answer()
        if self._loads:
            self._ask("load")

    def stop(self, *, kill: bool = False) -> None:
        """End the driver: it ends with its standard input."""
        if kill:
            self._process.kill()
        self._process.communicate(timeout=_PATIENCE)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            raise Failed(_last_line(self._log.read_text()) if ready else "no answer in time")
        answer: dict[str, Any] = orjson.loads(line)
        return answer

    def _ask(self, what: str, **more: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(orjson.dumps({"do": what} | more).decode() + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed(_last_line(self._log.read_text())) from None
        return self._answer()

    def store(self, items: Sequence[Item]) -> tuple[list[float], float]:
        """Have the library store them."""
        answer = self._ask("store", messages=[it.line() for it in items])
        return answer["times"], answer["embedding"]

    def settle(self) -> None:
        """Wait for nothing: what a library stored it has embedded."""

    def search(self, query: str) -> Answer:
        """Have the library search."""
        answer = self._ask("search", query=query, limit=_LIMIT)
        return Answer(answer["ids"], answer["time"], answer["embedding"])

    def save(self) -> None:
        """Have the driver save."""
        self._ask("save")

    def held(self, items: Sequence[Item]) -> int:
        """Have the library read each."""
        count: int = self._ask("holds", messages=[it.line() for it in items])["count"]
        return count

    def memory(self) -> int:
        """Return the resident bytes of the driver."""
        return resident_bytes(self._process)

    def processor(self) -> float:
        """Return the processor's time of the driver."""
        return processor_seconds(self._process)


class Service:
    """Recollect, called over gRPC."""

    def __init__(self, folder: Path, closing: ExitStack, *, words: bool) -> None:
        self._data, self._words = folder / "data", words
        self._running = closing.enter_context(ExitStack())
        self._ids: dict[str, str] = {}
        self._names: dict[tuple[str, int], str] = {}
        self.start()

    def start(self) -> None:
        """Start the server."""
        flags = ("--embedder", "off" if self._words else "onnx")
        target, self._process = self._running.enter_context(recollect(self._data, *flags))
        self._client = self._running.enter_context(Client(target))

    def store(self, items: Sequence[Item]) -> tuple[list[float], float]:
        """Append each message."""
        times = []
        for item in items:
            began = time.perf_counter()
            if item.conversation not in self._ids:
                beginning = item.plan.beginning
                self._ids[item.conversation] = self._client.conversations.create(
                    beginning.channel,
                    participants=beginning.participants,
                    create_time=beginning.create_time,
                ).id
            there = self._ids[item.conversation]
            [stored] = self._client.conversations.append_turn(there, [item.message]).messages
            times.append(time.perf_counter() - began)
            self._names[there, stored.sequence] = item.id
        return times, 0.0

    def settle(self) -> None:
        """Wait for the vectors."""
        if not self._words:
            embedded(self._data)

    def search(self, query: str) -> Answer:
        """Search."""
        took = 0.0

        def ask() -> Any:
            nonlocal took
            began = time.perf_counter()
            answer = self._client.recall.search(query, limit=_LIMIT)
            took = time.perf_counter() - began
            return answer

        hits = whole(ask).hits
        return Answer([self._names[it.conversation_id, it.sequence] for it in hits], took, 0.0)

    def save(self) -> None:
        """Do nothing: what is acknowledged is on the disk."""

    def stop(self, *, kill: bool = False) -> None:
        """End the server."""
        if kill:
            self._process.kill()
            self._process.wait()
        self._running.close()

    def held(self, items: Sequence[Item]) -> int:
        """Fetch the conversations."""
        contents = set()
        for name in {it.conversation for it in items}:
            there = self._ids[name]
            turns = TurnRange(1, max(1, self._client.conversations.get(there).turn_count))
            every = self._client.recall.fetch_context(there, turns).messages
            contents |= {(name, it.content) for it in every}
        return sum((it.conversation, it.message.content) in contents for it in items)

    def memory(self) -> int:
        """Return the resident bytes of the server."""
        return resident_bytes(self._process)

    def processor(self) -> float:
        """Return the processor's time of the server; that of its client is not in it."""
        return processor_seconds(self._process)


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

    def summary(self, installed: int, *, timed: bool = True) -> dict[str, Any]:
        """Return the figures of the row, with times in milliseconds if they are worth it."""
        about = {"peer": self.peer.name, "by": self.peer.by, "packages": self.peer.packages}
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


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else "it ended without a word"


def size_of(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk."""
    return sum(it.lstat().st_blocks * 512 for it in folder.rglob("*"))


def interpreter() -> str:
    """Return a Python whose sqlite3 loads extensions, which some libraries need; else this one."""
    test = "import sqlite3, sys; sqlite3.Connection.enable_load_extension; sys.version_info >= (3, 11) or sys.exit(1)"
    for python in (sys.executable, shutil.which("python3", path="/usr/bin")):
        if python and subprocess.run([python, "-c", test], capture_output=True).returncode == 0:
            return python
    return sys.executable


def environment(peer: Peer, folder: Path) -> Path:
    """Return the interpreter of the environment of a peer, made if it is not there. Raises
    Failed.
    """
    own = folder / "-".join(it.replace("==", "-").replace("/", "_") for it in peer.packages[:1])
    python, mark = own / "bin" / "python", own / "packages.json"
    packages = orjson.dumps(peer.packages)
    if mark.is_file() and mark.read_bytes() == packages:
        return python
    subprocess.run([interpreter(), "-m", "venv", "--clear", "--without-pip", own], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--python", str(python), "install", *peer.packages]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"did not install: {_last_line(done.stderr)}")
    mark.write_bytes(packages)
    return python


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


@contextmanager
def opened(
    peer: Peer, folder: Path, environments: Path, vectors: Path | None, *, here: bool
) -> Iterator[Memory]:
    """Open a memory over an empty folder."""
    with ExitStack() as closing:
        if peer in (RECOLLECT, RECOLLECT_WORDS):
            yield Service(folder, closing, words=peer is RECOLLECT_WORDS)
        else:
            own = bool(peer.packages) and not here
            python = environment(peer, environments) if own else sys.executable
            yield Driven(peer, python, folder, vectors, closing)


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


def recollect_size(environments: Path) -> int:
    """Return the bytes that an installation of Recollect's server and client takes."""
    packages = (str(ROOT / "server"), str(ROOT / "client"))
    python = environment(Peer("Recollect", "", packages, ""), environments)
    return size_of(python.parents[1])


def installed(peer: Peer, environments: Path) -> int:
    """Return the bytes that an installation takes; 0 for a baseline."""
    if peer in (RECOLLECT, RECOLLECT_WORDS):
        return recollect_size(environments)
    return size_of(environment(peer, environments).parents[1]) if peer.packages else 0


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

    head = ["memory", "ranks by", *_FOUND, "held after a kill"]
    lines = [line(*head), rule(head)]
    for row in rows:
        if "failure" in row:
            lines.append(line(row["peer"], row["failure"], *("" for _ in head[2:])))
            continue
        shares = [f"{row['found'][it]:.1f}" if "found" in row else "-" for it in _FOUND]
        held = f"{row['held']}; {row['held_last']}"
        lines.append(line(row["peer"], row["by"], *shares, held))
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
        groups = [it for it in sorted(questions) if not chosen.groups or it in chosen.groups]
        rows = [Row(peer, failure=failures.get(peer.name, "")) for peer in peers]
        for at, group in enumerate(groups):
            for row in rows:
                if not row.failure:
                    print(f"{group}: {row.peer.name} ...", file=sys.stderr, flush=True)
                    run_group(
                        row,
                        plans[group],
                        questions[group],
                        chosen.environments,
                        chosen.vectors,
                        here=chosen.here,
                    )
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
