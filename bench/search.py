"""Search in a large history, against plain FTS5 on the same index: one OR query of the same words, ranked by BM25, in process.

`python -m bench.search [--messages 100000 1000000] [--questions 200] [--rounds 3]`
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import apsw
from recollect.v1 import recall_service_pb2 as api
from recollect_server.storage.index.file import NAME

from bench.calls import Measured, measure
from bench.corpus import Corpus, write_transcripts
from bench.plain import or_query
from bench.servers import recollect, resident_bytes

SEARCH = "/recollect.v1.RecallService/Search"
LIMIT = 10


def plain(index: Path, questions: list[str]) -> Measured:
    """The best messages by FTS5 alone, from the index's file."""
    connection = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
    times = []
    for question in questions:
        began = time.perf_counter()
        query = "SELECT rowid, rank FROM turns_fts WHERE turns_fts MATCH ? ORDER BY rank LIMIT ?"
        connection.execute(query, (or_query(connection, question), LIMIT)).fetchall()
        times.append(time.perf_counter() - began)
    connection.close()
    return Measured(len(times), sum(times), sorted(times))


def run(folder: Path, messages: int, count: int, rounds: int) -> None:
    """Measures one size and prints it."""
    data = folder / str(messages)
    corpus = Corpus(messages)
    if not data.exists():
        write_transcripts(data, corpus)
    questions = corpus.questions(count)
    requests = [[api.SearchRequest(query=question, limit=LIMIT).SerializeToString() for question in questions]]
    index = data / "default" / "conversations" / NAME
    began = time.perf_counter()
    with recollect(data) as (target, process):
        started = time.perf_counter() - began
        fresh = resident_bytes(process)
        ours, base = [], []
        for _ in range(rounds):
            base.append(plain(index, questions))
            ours.append(measure(target, SEARCH, requests))
        memory = resident_bytes(process)
        text = sum(file.stat().st_size for file in index.parent.glob("*.jsonl"))
        size = sum(file.stat().st_size for file in index.parent.glob(f"{NAME}*"))
    p50, p99, plain50, plain99 = (
        statistics.median(run.milliseconds(share) for run in runs) for runs in (ours, base) for share in (0.5, 0.99)
    )
    print(
        f"{messages} messages: Search p50 {p50:.1f} ms, p99 {p99:.1f} ms; plain FTS5 p50 {plain50:.1f} ms, p99 {plain99:.1f} ms;"
        f" ratio p50 {p50 / plain50:.2f}, p99 {p99 / plain99:.2f}"
    )
    print(
        f"    memory {memory / 2**20:.0f} MiB ({fresh / 2**20:.0f} before the questions); index {size / 2**20:.0f} MiB on disk,"
        f" transcripts {text / 2**20:.0f} MiB; started in {started:.1f} s",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keeps the corpora here, and takes those that are there")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for messages in chosen.messages:
            run(chosen.folder or Path(folder), messages, chosen.questions, chosen.rounds)


if __name__ == "__main__":
    main()
