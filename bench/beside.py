"""Cost of searches for appends: AppendTurn's p99 alone and beside many searchers, and searches a
second.

`python -m bench.beside [--messages 5000] [--searchers 32] [--calls 400] [--rounds 3] [--words]`

Both come from the same server in one run: alone, beside the searchers, and so on in turn. Beside
them, searches run from before the first append to behind the last one.
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from recollect.v1 import recall_service_pb2 as api

from bench.append import APPEND, requests
from bench.calls import Measured, measure
from bench.corpus import Corpus, write_transcripts
from bench.figures import Figure, Goal
from bench.search import LIMIT, SEARCH, until_whole
from bench.servers import embedded, recollect

_CALLERS = 2  # that append


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--searchers", type=int, default=32)
    parser.add_argument("--searches", type=int, default=20, help="of each searcher in a round")
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--words", action="store_true", help="searches by words alone")
    chosen = parser.parse_args(arguments)
    corpus = Corpus(chosen.messages)
    questions = corpus.questions(chosen.searchers * chosen.searches)
    payloads = [[api.SearchRequest(query=it, limit=LIMIT).SerializeToString() for it in questions[at :: chosen.searchers]]
             for at in range(chosen.searchers)]  # fmt: skip
    alone: list[Measured] = []
    beside: list[Measured] = []
    searches: list[Measured] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        data = Path(folder) / "data"
        write_transcripts(data, corpus)
        with recollect(data, "--embedder", "off" if chosen.words else "onnx") as (target, _):
            if not chosen.words:
                embedded(data)
                until_whole(target)
            for _ in range(chosen.rounds):
                alone.append(measure(target, APPEND, requests(target, _CALLERS, chosen.calls, 1)))
                if not chosen.words:
                    embedded(data)
                searching = pool.submit(measure, target, SEARCH, payloads)
                parts = []
                while not searching.done():
                    parts.append(
                        measure(target, APPEND, requests(target, _CALLERS, chosen.calls // 8, 1))
                    )
                searches.append(searching.result())
                times = sorted(it for part in parts[1:-1] or parts for it in part.times)
                beside.append(Measured(len(times), sum(part.seconds for part in parts), times))
                if not chosen.words:
                    embedded(data)
    (alone50, alone99), (beside50, beside99) = (
        [statistics.median(run.milliseconds(share) for run in runs) for share in (0.5, 0.99)]
        for runs in (alone, beside)
    )
    rate = statistics.median(run.rate for run in searches)
    print(
        f"AppendTurn alone p50 {alone50:.1f} ms, p99 {alone99:.1f} ms; beside {chosen.searchers} searchers p50 {beside50:.1f} ms,"
        f" p99 {beside99:.1f} ms ({beside99 / alone99:.1f} times); {rate:.1f} searches/s,"
        f" p50 {statistics.median(run.milliseconds(0.5) for run in searches):.0f} ms,"
        f" p99 {statistics.median(run.milliseconds(0.99) for run in searches):.0f} ms",
        flush=True,
    )
    of = "searchers"
    return [
        Figure("AppendTurn p99 beside searches", beside99, "ms", alone99, "alone", beside99 / alone99,
               Goal(10, of_ratio=True), chosen.searchers, of),
        Figure("searches", rate, "/s", at=chosen.searchers, of=of),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
