"""Cost of HTTP: Load through the gateway, in binary and in JSON, against the same call by gRPC.

`python -m bench.gateway [--calls 1000] [--rounds 3]`

One caller, which keeps its connection. The three come in turn, from one process.
"""

import argparse
import http.client
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import grpc
from google.protobuf import json_format
from recollect.v1 import conversation_service_pb2 as api

from bench.figures import Figure
from bench.load import LOAD, write
from bench.servers import gateway, recollect

_TURNS = 10


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        (conversation,) = write(data, [_TURNS])
        request = api.LoadRequest(conversation_id=conversation)
        with (
            recollect(data) as (target, _),
            gateway(target) as address,
            grpc.insecure_channel(target) as channel,
            closing(http.client.HTTPConnection(address)) as web,
        ):
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(LOAD)

            def post(kind: str, body: bytes) -> bytes:
                web.request(
                    "POST", LOAD, body, {"content-type": kind, "authorization": "Bearer none"}
                )
                answer = web.getresponse()
                if answer.status != 200:
                    raise SystemExit(f"the gateway answered {answer.status}: {answer.read()!r}")
                return answer.read()

            binary, text = (
                request.SerializeToString(),
                json_format.MessageToJson(request).encode(),
            )
            callers: dict[str, Callable[[], bytes]] = {
                "gRPC": lambda: method(binary),
                "binary": lambda: post("application/proto", binary),
                "JSON": lambda: post("application/json", text),
            }
            times: dict[str, list[float]] = {name: [] for name in callers}
            sizes = {name: len(call()) for name, call in callers.items()}
            for _ in range(chosen.rounds):
                for name, call in callers.items():
                    web.close()  # the gateway closes one that was idle meanwhile
                    times[name].append(_median(call, chosen.calls))
    middle = {name: statistics.median(runs) for name, runs in times.items()}
    figures = []
    for name in ("binary", "JSON"):
        ratio = statistics.median(
            mine / theirs for mine, theirs in zip(times[name], times["gRPC"], strict=True)
        )
        print(
            f"Load of {2 * _TURNS} messages, {name}: {sizes[name]} bytes, p50 {middle[name]:.2f} ms;"
            f" gRPC {middle['gRPC']:.2f} ms; ratio {ratio:.2f}",
            flush=True,
        )
        figures.append(
            Figure(f"Load by HTTP, {name}", middle[name], "ms", middle["gRPC"], "gRPC", ratio)
        )
    return figures


def _median(call: Callable[[], bytes], calls: int) -> float:
    """Return the median of the milliseconds of so many calls."""
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


if __name__ == "__main__":
    main()
