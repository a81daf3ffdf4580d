"""A start of the server over a large history, against one over an empty folder; and how fast a lost
index is made anew.

`python -m bench.start [--conversations 20000] [--per-conversation 20] [--rounds 5]`
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect_server.kernel.index.file import NAME

from bench.corpus import Corpus, write_conversation
from bench.figures import Figure, Goal
from bench.servers import recollect


@dataclass(frozen=True, slots=True)
class Started:
    """Seconds from the start of the process."""

    listens: float
    """To the line that says so."""
    answered: float
    """To the first answer, a page of List."""


def start(data: Path) -> Started:
    """Start a server, ask it once and stop it."""
    began = time.perf_counter()
    with recollect(data) as (target, _), grpc.insecure_channel(target) as channel:
        listens = time.perf_counter() - began
        ConversationServiceStub(channel).List(
            api.ListRequest(page_size=1), timeout=60, wait_for_ready=True
        )
        return Started(listens, time.perf_counter() - began)


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--conversations", type=int, default=20_000)
    parser.add_argument("--per-conversation", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    # without compiled modules both starts would take longer, and their ratio be flattered
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        empty, data = Path(folder) / "empty", Path(folder) / "data"
        corpus = Corpus(1 << 40, per_conversation=chosen.per_conversation)
        messages = 0
        for number in range(chosen.conversations):
            made = corpus.conversation(number)
            write_conversation(data, made)
            messages += len(made.texts)
        index = data / "default" / "conversations"
        bases, rebuilds, starts = [start(empty)], [], []
        for _ in range(max(1, chosen.rounds // 3)):
            for file in index.glob(f"{NAME}*"):
                file.unlink()
            rebuilds.append(start(data).listens)
        for _ in range(chosen.rounds):
            bases.append(start(empty))
            starts.append(start(data))
        listens, answered, base, base_answered = (
            statistics.median(getattr(run, name) for run in runs)
            for runs in (starts, bases[1:])
            for name in ("listens", "answered")
        )
        rebuild = statistics.median(rebuilds)
        print(
            f"{chosen.conversations} conversations, indexed: listens after {listens:.2f} s, first answer after {answered:.2f} s;"
            f" an empty folder {base:.2f} s, {base_answered:.2f} s; ratio {listens / base:.2f}, {answered / base_answered:.2f}"
        )
        print(
            f"index deleted: {messages} messages indexed anew in {rebuild:.1f} s, {messages / (rebuild - base):.0f} messages/s"
        )
    goal = Goal(2) if chosen.conversations == 20_000 else None
    size, of = chosen.conversations, "conversations"
    return [
        Figure(
            "listens after", listens, "s", base, "an empty folder", listens / base, goal, size, of
        ),
        Figure(
            "first answer after",
            answered,
            "s",
            base_answered,
            "an empty folder",
            answered / base_answered,
            goal,
            size,
            of,
        ),
        Figure("messages indexed anew", messages / (rebuild - base), "/s", at=size, of=of),
    ]


if __name__ == "__main__":
    main()
