"""Search in a large history, by words and by meaning, against plain FTS5 on the same index and a
plain scan of the same vectors.

The baselines run in this process: one OR query of the same words, ranked by BM25; one product of
all vectors with the question's. The vectors are made up (see `bench.vectors`); the questions are
embedded by the model.

With `--set`, instead: real dialogue, the first group of a recall set (some 400 messages of LoCoMo),
put as a person's history to a server that has the embedder on; what a search costs the server's
processor, beside the vector of its question alone.

`python -m bench.search [--messages 100000 1000000] [--questions 200] [--rounds 3] [--words] [--set
DIR]`
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
from recollect import Client
from recollect.imports import recall_sets
from recollect.v1 import recall_service_pb2 as api
from recollect_server.kernel.index.file import NAME
from recollect_server.recall.vectors.file import NAME as VECTORS
from recollect_server.recall.vectors.scan import Scan

from bench.background import processor_seconds
from bench.calls import Measured, measure
from bench.corpus import Corpus, write_transcripts
from bench.figures import Figure, Goal
from bench.plain import or_query
from bench.recall import QUERIES, Service, read_conversations, read_questions
from bench.servers import embedded, recollect, resident_bytes
from bench.vectors import FLAGS, expect_nothing_embedded, made_up, matrix_of, model

SEARCH = "/recollect.v1.RecallService/Search"
LIMIT = 10
_GOALS = {(100_000, True): (15, 60), (100_000, False): (35, 100), (1_000_000, False): (150, None)}
"""Milliseconds, p50 and p99, by the number of messages and whether it is by words alone."""


def plain(index: Path, questions: list[str]) -> Measured:
    """Return the best messages by FTS5 alone, from the index's file."""
    connection = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
    times = []
    for question in questions:
        began = time.perf_counter()
        query = "SELECT rowid, rank FROM turns_fts WHERE turns_fts MATCH ? ORDER BY rank LIMIT ?"
        connection.execute(query, (or_query(connection, question), LIMIT)).fetchall()
        times.append(time.perf_counter() - began)
    connection.close()
    return Measured(len(times), sum(times), sorted(times))


def legs(folder: Path, questions: list[str], messages: int) -> list[Figure]:
    """Print what the legs by meaning take in this process, the question's embedding apart, beside
    the plain scan.
    """
    embedder = model()
    matrix, floats = matrix_of(folder)
    embedding, ours, plain_scan, shares = [], [], [], []
    for question in questions:
        began = time.perf_counter()
        vector = embedder.question(question)
        embedded = time.perf_counter()
        scan = Scan(matrix, vector)
        nearest = scan.nearest(200).ids
        scan.of(np.sort(nearest))
        scanned = time.perf_counter()
        scores = floats @ vector
        best = np.argpartition(scores, -LIMIT)[-LIMIT:]
        ended = time.perf_counter()
        embedding.append(embedded - began)
        ours.append(scanned - embedded)
        plain_scan.append(ended - scanned)
        shares.append(len({*matrix.view().ids[best].tolist()} & {*nearest.tolist()}) / LIMIT)
    medians = []
    for name, times in (
        ("the question's vector", embedding),
        ("the legs by meaning", ours),
        ("a plain numpy scan", plain_scan),
    ):
        run = Measured(len(times), sum(times), sorted(times))
        medians.append(run.milliseconds(0.5))
        print(f"    {name}: p50 {medians[-1]:.2f} ms, p99 {run.milliseconds(0.99):.2f} ms")
    share = 100 * statistics.fmean(shares)
    print(f"    {share:.2f} % of the plain scan's {LIMIT} nearest were found", flush=True)
    goal = Goal(10) if messages == 100_000 else None
    of = "messages"
    return [
        Figure("the question's vector p50", medians[0], "ms", at=messages, of=of),
        Figure(
            "legs by meaning p50",
            medians[1],
            "ms",
            medians[2],
            "numpy scan",
            medians[1] / medians[2],
            goal,
            messages,
            of,
        ),
        Figure(
            f"the {LIMIT} nearest kept",
            share,
            "%",
            100,
            "numpy scan",
            share / 100,
            None,
            messages,
            of,
        ),
    ]


def run(folder: Path, messages: int, count: int, rounds: int, *, words: bool) -> list[Figure]:
    """Measure one size and print the figures."""
    data = folder / str(messages)
    corpus = Corpus(messages)
    if not data.exists():
        write_transcripts(data, corpus)
    questions = corpus.questions(count)
    requests = [
        [
            api.SearchRequest(query=question, limit=LIMIT).SerializeToString()
            for question in questions
        ]
    ]
    index = data / "default" / "conversations" / NAME
    if not index.exists():
        with recollect(data, "--embedder", "off"):
            pass
    if not words and not (index.parent / VECTORS).exists():
        made_up(model(), index.parent, questions)
    began = time.perf_counter()
    flags = ("--embedder", "off") if words else FLAGS
    with recollect(data, *flags) as (target, process):
        started = time.perf_counter() - began
        loaded = until_whole(target)
        fresh = resident_bytes(process)
        ours, base = [], []
        for _ in range(rounds):
            base.append(plain(index, questions))
            ours.append(measure(target, SEARCH, requests))
        memory = resident_bytes(process)
        if not words:
            expect_nothing_embedded(index.parent)
        text = sum(file.stat().st_size for file in index.parent.glob("*.jsonl"))
        size = sum(file.stat().st_size for file in index.parent.glob(f"{NAME}*"))
    p50, p99, plain50, plain99 = (
        statistics.median(run.milliseconds(share) for run in runs)
        for runs in (ours, base)
        for share in (0.5, 0.99)
    )
    print(
        f"{messages} messages: Search p50 {p50:.1f} ms, p99 {p99:.1f} ms; plain FTS5 p50 {plain50:.1f} ms, p99 {plain99:.1f} ms;"
        f" ratio p50 {p50 / plain50:.2f}, p99 {p99 / plain99:.2f}"
    )
    print(
        f"    memory {memory / 2**20:.0f} MiB ({fresh / 2**20:.0f} before the questions); index {size / 2**20:.0f} MiB on disk,"
        f" transcripts {text / 2**20:.0f} MiB; started in {started:.1f} s, whole {loaded:.1f} s later",
        flush=True,
    )
    half, most = (
        Goal(limit) if limit else None for limit in _GOALS.get((messages, words), (None, None))
    )
    memory_goal = Goal(1024) if messages == 1_000_000 else None
    return [
        Figure(
            "Search p50",
            p50,
            "ms",
            plain50,
            "plain FTS5",
            p50 / plain50,
            half,
            messages,
            "messages",
        ),
        Figure(
            "Search p99",
            p99,
            "ms",
            plain99,
            "plain FTS5",
            p99 / plain99,
            most,
            messages,
            "messages",
        ),
        Figure("memory", memory / 2**20, "MiB", goal=memory_goal, at=messages, of="messages"),
        *([] if words else legs(index.parent, questions, messages)),
    ]


def dialogue(folder: Path, labelled: Path, count: int, rounds: int) -> list[Figure]:
    """Measure searches of real dialogue and print the figures."""
    group, labelled_questions = min(read_questions(labelled / QUERIES).items())
    plans = read_conversations(labelled / recall_sets.FILE, abbreviations=True)[group]
    questions = [question.query for question in labelled_questions[:count]]
    requests = [
        [
            api.SearchRequest(query=question, limit=LIMIT).SerializeToString()
            for question in questions
        ]
    ]
    with recollect(folder / group) as (target, process), Client(target) as client:
        messages = len(Service(client, plans).messages)
        embedded(folder / group)
        until_whole(target)
        # what is imported and cached with the first ones is not counted
        measure(target, SEARCH, requests)
        began = processor_seconds(process)
        runs = [measure(target, SEARCH, requests) for _ in range(rounds)]
        used = 1000 * (processor_seconds(process) - began) / (rounds * len(questions))
    embedder = model()
    began = time.process_time()
    for question in questions:
        embedder.question(question)
    alone = 1000 * (time.process_time() - began) / len(questions)
    p50, p99 = (statistics.median(run.milliseconds(share) for run in runs) for share in (0.5, 0.99))
    print(
        f"{labelled.name} {group}, {messages} messages: Search p50 {p50:.1f} ms, p99 {p99:.1f} ms; {used:.1f} ms of processor each,"
        f" of which the question's vector takes {alone:.1f} ms",
        flush=True,
    )
    name = f"Search of {labelled.name}"
    return [
        Figure(
            f"{name}, processor",
            used,
            "ms",
            alone,
            "the question's vector",
            used / alone,
            Goal(12),
            messages,
            "messages",
        ),
        Figure(f"{name}, p50", p50, "ms", at=messages, of="messages"),
    ]


def until_whole(target: str) -> float:
    """Wait until no leg is missing. Returns how many seconds."""
    began = time.perf_counter()
    with Client(target) as client:
        while client.recall.search("anything").degraded:
            time.sleep(0.05)  # between two questions, which take of the processor too
    return time.perf_counter() - began


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--folder", type=Path, help="keeps the corpora here, and takes those that are there"
    )
    parser.add_argument("--words", action="store_true", help="searches by words alone")
    parser.add_argument(
        "--set",
        type=Path,
        metavar="DIR",
        help="real dialogue instead, a folder as bench.recall reads it",
    )
    # the table of all benchmarks names one
    parser.add_argument("--groups", nargs="+", metavar="NAME", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.set:
        with tempfile.TemporaryDirectory() as folder:
            return dialogue(Path(folder), chosen.set, chosen.questions, chosen.rounds)
    with tempfile.TemporaryDirectory() as folder:
        data = chosen.folder or Path(folder)
        runs = [
            run(data, messages, chosen.questions, chosen.rounds, words=chosen.words)
            for messages in chosen.messages
        ]
    return [figure for figures in runs for figure in figures]


if __name__ == "__main__":
    main()
