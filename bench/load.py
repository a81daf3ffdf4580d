"""Load of the tail of conversations of very different length, against a bare echo of an answer of
the same size.

`python -m bench.load [--turns 10 1000 100000] [--calls 2000] [--rounds 3]`
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import grpc
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub

from bench.calls import measure
from bench.corpus import Corpus, Made, write_conversation
from bench.figures import Figure, Goal
from bench.servers import ECHO, echo, recollect

LOAD = "/recollect.v1.ConversationService/Load"


def write(data: Path, turns: Sequence[int]) -> list[str]:
    """Write one conversation for each number of turns into a data folder, and return their ids."""
    corpus = Corpus(2 * sum(turns))
    texts = (text for made in corpus for text in made.texts)
    return [
        write_conversation(data, Made(number, [next(texts) for _ in range(2 * n)]))
        for number, n in enumerate(turns)
    ]


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, nargs="+", default=[10, 1_000, 100_000])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args(arguments)
    figures = []
    with tempfile.TemporaryDirectory() as folder, echo() as (echo_target, _):
        data = Path(folder) / "data"
        ids = write(data, chosen.turns)
        with recollect(data) as (target, _):
            for turns, conversation in zip(chosen.turns, ids, strict=True):
                request = api.LoadRequest(conversation_id=conversation)
                with grpc.insecure_channel(target) as channel:
                    answer = ConversationServiceStub(channel).Load(request)
                size = answer.ByteSize()
                loads, echoes = [], []
                for _ in range(chosen.rounds):
                    echoes.append(
                        measure(echo_target, ECHO, [[answer.SerializeToString()] * chosen.calls])
                    )
                    loads.append(
                        measure(target, LOAD, [[request.SerializeToString()] * chosen.calls])
                    )
                p50, p99, echo50, echo99 = (
                    statistics.median(run.milliseconds(share) for run in runs)
                    for runs in (loads, echoes)
                    for share in (0.5, 0.99)
                )
                print(
                    f"{turns} turns: Load of {len(answer.messages)} messages ({size} bytes) p50 {p50:.2f} ms, p99 {p99:.2f} ms;"
                    f" echo p50 {echo50:.2f} ms, p99 {echo99:.2f} ms; ratio p50 {p50 / echo50:.2f}, p99 {p99 / echo99:.2f}",
                    flush=True,
                )
                figures += [
                    Figure(
                        "Load p50", p50, "ms", echo50, "echo", p50 / echo50, Goal(3), turns, "turns"
                    ),
                    Figure(
                        "Load p99", p99, "ms", echo99, "echo", p99 / echo99, None, turns, "turns"
                    ),
                ]
    return figures


if __name__ == "__main__":
    main()
