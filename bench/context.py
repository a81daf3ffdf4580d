"""BuildContext: how long each tier takes, how long the whole takes through the wire, and how much
of what is right it packs.

`python -m bench.context [--messages 100000] [--million] [--calls 300] [--folder DIR] [--words]`
times it in a made-up history. `python -m bench.context --set DIR [--groups NAME …] [--tokens 1000
2000 4400]` packs for the questions of a recall set, beside the last turns and plain FTS5 packed
into the same budget. Each question is put to an empty conversation, at the time it was asked.
"""

import argparse
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import grpc
import structlog
from recollect.v1 import recall_service_pb2 as api
from recollect.v1.recall_service_pb2_grpc import RecallServiceStub
from recollect_server.context.context import USUAL_BUDGET, Budget
from recollect_server.context.inquiry import ContextTask, RecallDial, Weighing
from recollect_server.context.own_tiers import Choosing, OwnTiers, room_of_warm
from recollect_server.context.relevance import words_of
from recollect_server.kernel.compare.recovery import no_progress, recover
from recollect_server.kernel.domain.live import Holder
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.index.file import NAME
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.space.space import Space
from recollect_server.recall.vectors.file import NAME as VECTORS
from recollect_server.run.features import FEATURES

from bench.calls import measure
from bench.corpus import Corpus, Made, conversation_id, write_conversation, write_transcripts
from bench.figures import Figure, Goal
from bench.packing import figures_of, quality
from bench.search import SEARCH, until_whole
from bench.servers import recollect
from bench.vectors import FLAGS, expect_nothing_embedded, made_up, model

BUILD = "/recollect.v1.RecallService/BuildContext"
TOKENS = (1000, 2000, 4400)
LONG = 2000  # turns of the long conversation


def run(folder: Path, messages: int, calls: int, *, words: bool) -> list[Figure]:
    """Measure a history of one size and print the figures."""
    data = folder / str(messages)
    corpus = Corpus(messages)
    long = conversation_id(messages)  # behind all others
    if not data.exists():
        write_transcripts(data, corpus)
        texts = [text for number in range(LONG) for text in corpus.conversation(number).texts[:2]]
        write_conversation(data, Made(messages, texts))
    questions = corpus.questions(200)
    conversations = data / "default" / "conversations"
    if not (conversations / NAME).exists():
        with recollect(data, "--embedder", "off"):
            pass
    if not words and not (conversations / VECTORS).exists():
        made_up(model(), conversations, questions)
    print(f"{messages} messages, load average {os.getloadavg()[0]:.1f}")
    figures = in_the_service(conversations, long, questions, calls)
    flags = ("--embedder", "off") if words else FLAGS
    names = sorted({path.stem for path in conversations.glob("conv-*.jsonl")} - {long})
    requests = [
        api.BuildContextRequest(
            conversation_id=names[n % len(names)], message=questions[n % len(questions)]
        )
        for n in range(calls)
    ]
    with recollect(data, *flags) as (target, _):
        until_whole(target)
        first = [_first(target, name, questions[0]) for name in names[-20:]]
        searches = [
            api.SearchRequest(query=request.message).SerializeToString() for request in requests
        ]
        searched = measure(target, SEARCH, [searches])
        measured = measure(target, BUILD, [[request.SerializeToString() for request in requests]])
    with recollect(data, *flags) as (target, _):
        until_whole(target)
        resumed = _first(target, long, "")
        answered = _first(target, names[0], questions[1])
        if not words:
            expect_nothing_embedded(conversations)
    p50, p99, search50 = (
        measured.milliseconds(0.5),
        measured.milliseconds(0.99),
        searched.milliseconds(0.5),
    )
    print(
        f"    whole, through the wire: p50 {p50:.1f} ms, p99 {p99:.1f} ms; Search of the same questions p50 {search50:.1f} ms;"
        f" ratio {p50 / search50:.2f}; of a conversation for the first time p50 {1000 * statistics.median(first):.1f} ms\n"
        f"    after a restart: the first context {1000 * resumed:.1f} ms, the first with a message {1000 * answered:.1f} ms",
        flush=True,
    )
    whole, restarted = (Goal(60), Goal(50)) if messages == 100_000 else (None, None)
    ratio, of = p50 / search50, "messages"
    return [
        *figures,
        Figure("BuildContext p50", p50, "ms", search50, "Search", ratio, whole, messages, of),
        Figure("BuildContext p99", p99, "ms", at=messages, of=of),
        Figure(
            "first context after a restart",
            1000 * resumed,
            "ms",
            goal=restarted,
            at=messages,
            of=of,
        ),
        Figure(
            "first with a message after a restart",
            1000 * answered,
            "ms",
            goal=restarted,
            at=messages,
            of=of,
        ),
    ]


def _first(target: str, name: str, question: str) -> float:
    with grpc.insecure_channel(target) as channel:
        grpc.channel_ready_future(channel).result(30)
        stub = RecallServiceStub(channel)
        began = time.perf_counter()
        stub.BuildContext(api.BuildContextRequest(conversation_id=name, message=question))
        return time.perf_counter() - began


def in_the_service(folder: Path, long: str, questions: list[str], calls: int) -> list[Figure]:
    """Print what the hot and the warm tier take without the wire, in short conversations and in a
    long one.
    """
    logs = FolderStore(folder)
    recovered = recover(logs, FEATURES, system_clock, no_progress)
    space = Space(logs, recovered.index, FEATURES, system_clock)
    choosing = Holder(Choosing(RecallDial.ALL, 300))
    own = OwnTiers(space, choosing, 8 << 20)
    budget = Budget().settled(USUAL_BUDGET)
    figures = []
    for name, conversation in (("short", conversation_id(1)), (f"of {LONG} turns", long)):
        hot_times, warm_times = [], []
        for number in range(calls):
            began = time.perf_counter()
            words = words_of(questions[number % len(questions)])
            weighing = Weighing(words, system_clock())
            task = ContextTask(conversation, "", "", weighing)
            newest = own.newest(conversation, {})
            hot = own.hot(task, newest, budget)
            middle = time.perf_counter()
            room = room_of_warm(budget, hot)
            own.earlier(task, newest, hot, room).packed(room)
            ended = time.perf_counter()
            if newest.in_memory:
                hot_times.append(middle - began)
            warm_times.append(ended - middle)
        print(
            f"    in the service, a conversation {name}: hot p50 {1000 * statistics.median(hot_times):.3f} ms,"
            f" warm p50 {1000 * statistics.median(warm_times):.2f} ms"
        )
        hot50, warm50 = (1000 * statistics.median(times) for times in (hot_times, warm_times))
        figures.append(Figure(f"hot tier p50, a conversation {name}", hot50, "ms", goal=Goal(1)))
        figures.append(Figure(f"warm tier p50, a conversation {name}", warm50, "ms", goal=Goal(10)))
    space.close()
    return figures


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, nargs="+", default=[100_000])
    parser.add_argument("--million", action="store_true", help="measures 1,000,000 messages too")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument(
        "--folder", type=Path, help="keeps the corpora here, and takes those that are there"
    )
    parser.add_argument("--words", action="store_true", help="finds by words alone")
    parser.add_argument(
        "--set",
        type=Path,
        metavar="DIR",
        help="a folder with conversations.jsonl and queries.jsonl",
    )
    parser.add_argument(
        "--groups", nargs="+", default=[], metavar="NAME", help="only these groups of the set"
    )
    parser.add_argument("--tokens", type=int, nargs="+", default=list(TOKENS))
    parser.add_argument(
        "--setting", nargs="+", default=[], metavar="NAME=VALUE", help="settings of the server"
    )
    chosen = parser.parse_args(arguments)
    if chosen.set:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
        flags = dict(pair.split("=", 1) for pair in chosen.setting)
        packed = quality(
            chosen.set,
            chosen.groups,
            chosen.tokens,
            flags | ({"embedder": "off"} if chosen.words else {}),
        )
        return figures_of(chosen.set.name, packed)
    with tempfile.TemporaryDirectory() as folder:
        sizes = [*chosen.messages, *([1_000_000] if chosen.million else [])]
        runs = [
            run(chosen.folder or Path(folder), messages, chosen.calls, words=chosen.words)
            for messages in sizes
        ]
    return [figure for figures in runs for figure in figures]


if __name__ == "__main__":
    main()
