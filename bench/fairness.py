"""Appends of one caller beside a flood, against the same beside one ordinary caller.

The flood is 32 callers that append without a pause, all with one token or with a wrong one.
`python -m bench.fairness [--rounds 5] [--seconds 3]`
"""

import argparse
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import message_pb2
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect_server.access.principal import KINDS
from recollect_server.access.token import Grant
from recollect_server.access.token_log import TokenLedger
from recollect_server.access.tokens import Tokens
from recollect_server.kernel.domain.time import system_clock

from bench.append import APPEND
from bench.calls import alongside
from bench.figures import Figure, Goal
from bench.servers import recollect

FLOOD = 32


def callers(target: str, count: int, token: str = "") -> AbstractContextManager[Connection]:
    """Run callers that append without a pause in a process of their own, over one connection. Each
    message to the process is answered with the number of appends since the last one.
    """
    return alongside(_append, target, count, token)


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
    """Return a process's calls a second during so many seconds; longer if it made none."""
    caller.send("count")
    caller.recv()
    began, count = time.perf_counter(), 0
    while not count:
        time.sleep(seconds)  # in which the caller appends: that is what is counted
        caller.send("count")
        count = caller.recv()
    return count / (time.perf_counter() - began)


def beside(
    target: str, seconds: float, rounds: int, own: str, others: Sequence[str]
) -> tuple[float, float, float]:
    """Return the median rate of one caller beside another one, that beside a flood, and the median
    of their ratio. `others` has the tokens of the other caller and of the flood.
    """
    ordinary: list[float] = []
    flood: list[float] = []
    with callers(target, 1, own) as caller:
        for _ in range(rounds):
            for count, token, rates in ((1, others[0], ordinary), (FLOOD, others[1], flood)):
                with callers(target, count, token):
                    time.sleep(0.5)  # until all of them call
                    rates.append(rate(caller, seconds))
    ratio = statistics.median(f / o for f, o in zip(flood, ordinary, strict=True))
    return statistics.median(ordinary), statistics.median(flood), ratio


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the rates and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    chosen = parser.parse_args(arguments)
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        tokens = Tokens(TokenLedger(data), system_clock)
        brain = Grant("brain", KINDS["brain"], ("default",))
        made = [tokens.create(brain)[1] for _ in range(3)]
        with recollect(data, "--embedder", "off") as (target, _):
            for name, flood in {"one token": made[2], "strangers": "rcl_nobody"}.items():
                base, beside_flood, ratio = beside(
                    target, chosen.seconds, chosen.rounds, made[0], (made[1], flood)
                )
                print(
                    f"one caller's appends beside {FLOOD} callers of {name}: {beside_flood:.0f}/s;"
                    f" beside one other caller: {base:.0f}/s; ratio {ratio:.2f}"
                )
                goal = Goal(0.8, least=True, of_ratio=True)
                figures.append(
                    Figure(
                        f"appends beside a flood of {name}",
                        beside_flood,
                        "/s",
                        base,
                        "beside one caller",
                        ratio,
                        goal,
                        FLOOD,
                        "callers",
                    )
                )
    return figures


if __name__ == "__main__":
    main()
