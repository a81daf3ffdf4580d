"""The server's memory and open files over many appends to many conversations.

`python -m bench.soak [--appends 200000] [--conversations 5000] [--open-files 256]`
"""

import argparse
import random
import resource
import subprocess
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import message_pb2
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub

from bench.append import text
from bench.figures import Figure, Goal
from bench.servers import recollect, resident_bytes

_CALLERS = 8
_PARTS = 10


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print memory and open files as the appends go on; then whether every message is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=200_000)
    parser.add_argument("--conversations", type=int, default=5000)
    parser.add_argument(
        "--open-files", type=int, default=256, help="how many files the server may have open"
    )
    chosen = parser.parse_args(arguments)
    randomness = random.Random(1)
    texts = [text(randomness) for _ in range(1000)]
    with (
        tempfile.TemporaryDirectory() as folder,
        recollect(Path(folder) / "data", "--log-level", "warning") as (target, server),
    ):
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (chosen.open_files, chosen.open_files))
        with grpc.insecure_channel(target) as channel, ThreadPoolExecutor(_CALLERS) as pool:
            stub = ConversationServiceStub(channel)
            ids = list(
                pool.map(
                    lambda _: stub.Create(api.CreateRequest(channel="web")).conversation.id,
                    range(chosen.conversations),
                )
            )
            counts = dict.fromkeys(ids, 0)

            def append(name: str) -> None:
                message = message_pb2.Message(
                    role=message_pb2.ROLE_USER, content=randomness.choice(texts)
                )
                stub.AppendTurn(
                    api.AppendTurnRequest(
                        conversation_id=name, messages=[message], request_id=uuid.uuid4().hex
                    )
                )

            print(f"{'appends':>8} {'a second':>9} {'memory':>9} {'files':>6}")
            before = _print(0, 0.0, server)
            for part in range(1, _PARTS + 1):
                names = randomness.choices(ids, k=chosen.appends // _PARTS)
                began = time.perf_counter()
                deque(pool.map(append, names), maxlen=0)
                for name in names:
                    counts[name] += 1
                after = _print(
                    part * len(names), len(names) / (time.perf_counter() - began), server
                )
            wrong = [
                name
                for name, count in zip(ids, _counts(stub, ids), strict=True)
                if count != counts[name]
            ]
        print(
            f"{sum(counts.values())} messages in {len(ids)} conversations; {len(wrong)} conversations have more or fewer"
        )
    size, of = chosen.appends, "appends"
    return [
        Figure(
            "memory",
            after[0],
            "MiB",
            before[0],
            "at the beginning",
            after[0] / before[0],
            at=size,
            of=of,
        ),
        Figure("open files", after[1], "", goal=Goal(chosen.open_files), at=size, of=of),
        Figure("conversations with more or fewer", len(wrong), "", goal=Goal(0), at=size, of=of),
    ]


def _counts(stub: ConversationServiceStub, ids: list[str]) -> Iterator[int]:
    for name in ids:
        yield stub.Get(api.GetRequest(conversation_id=name)).conversation.message_count


def _print(appends: int, rate: float, server: "subprocess.Popen[str]") -> tuple[float, int]:
    """Print a line; the memory in MiB and the open files."""
    files = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
    memory = resident_bytes(server) / (1 << 20)
    print(f"{appends:>8} {rate:>9.0f} {memory:>5.0f} MiB {files:>6}", flush=True)
    return memory, files


if __name__ == "__main__":
    raise SystemExit(not all(figure.goal.met(figure) for figure in main() if figure.goal))
