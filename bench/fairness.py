"""Appends of one caller beside a flood, against the same beside one ordinary caller.

The flood is 32 callers of one token that append without a pause, or 32 of whom every call is
refused. `python -m bench.fairness [--rounds 5] [--seconds 3]`
"""

import argparse
import multiprocessing
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import message_pb2
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub

from bench.append import APPEND
from bench.figures import Figure, Goal
from bench.servers import recollect

FLOOD = 32


@contextmanager
def callers(target: str, count: int, token: str = "") -> Iterator[Connection]:
    """Run callers that append without a pause in a process of their own, over one connection. Each
    message to the process is answered with the number of appends since the last one.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_append, args=(theirs, target, count, token))
    process.start()
    theirs.close()
    try:
        ours.recv()
        yield ours
    finally:
        ours.send(None)
        process.join()


def _append(answer: Connection, target: str, count: int, token: str) -> None:
    metadata = (("authorization", f"Bearer {token}"),) if token else None
    stopping = threading.Event()
    appended = [0] * count
    with grpc.insecure_channel(target) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(APPEND)
        stub = ConversationServiceStub(channel)

        def work(number: int) -> None:
            conversation = "conv-01ARZ3NDEKTSV4RRFFQ69G5FAV"
            with suppress(grpc.RpcError):
                created = api.CreateRequest(channel="web")
                conversation = stub.Create(created, metadata=metadata).conversation.id
            message = message_pb2.Message(role=message_pb2.ROLE_USER, content="fair " * 100)
            while not stopping.is_set():
                request = api.AppendTurnRequest(
                    conversation_id=conversation, messages=[message], request_id=uuid.uuid4().hex
                )
                with suppress(grpc.RpcError):
                    call(request.SerializeToString(), timeout=60, metadata=metadata)
                appended[number] += 1

        with ThreadPoolExecutor(count) as pool:
            for number in range(count):
                pool.submit(work, number)
            answer.send("ready")
            before = 0
            while answer.recv() is not None:
                now = sum(appended)
                answer.send(now - before)
                before = now
            stopping.set()


def rate(caller: Connection, seconds: float) -> float:
    """Return a process's calls a second during so many seconds."""
    caller.send("count")
    caller.recv()
    began = time.perf_counter()
    time.sleep(seconds)
    caller.send("count")
    return float(caller.recv() / (time.perf_counter() - began))


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    chosen = parser.parse_args(arguments)
    beside_one, beside_flood, flood = [], [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        recollect(Path(folder) / "data", "--embedder", "off") as (target, _),
        callers(target, 1) as caller,
    ):
        for _ in range(chosen.rounds):
            with callers(target, 1):
                time.sleep(0.5)
                beside_one.append(rate(caller, chosen.seconds))
            with callers(target, FLOOD) as flooding:
                time.sleep(0.5)
                beside_flood.append(rate(caller, chosen.seconds))
                flood.append(rate(flooding, 1))
    base, beside = statistics.median(beside_one), statistics.median(beside_flood)
    ratio = statistics.median(f / o for f, o in zip(beside_flood, beside_one, strict=True))
    print(
        f"one caller's appends beside a flood of {FLOOD} callers: {beside:.0f}/s; beside one other"
        f" caller: {base:.0f}/s; ratio {ratio:.2f}; the flood: {statistics.median(flood):.0f}/s"
    )
    return [
        Figure(
            "appends beside a flood", beside, "/s", base, "beside one caller", ratio,
            Goal(0.8, least=True, of_ratio=True), FLOOD, "callers",
        )
    ]  # fmt: skip


if __name__ == "__main__":
    main()
