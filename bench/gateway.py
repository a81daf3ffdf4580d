"""Cost of HTTP: Load and a stream of updates through the gateway, in binary and in JSON, against
the same calls by gRPC.

`python -m bench.gateway [--calls 1000] [--rounds 3]`

One caller, which keeps its connection. The three come in turn, from one process. Of a stream the
updates of a conversation are read from its beginning on, those that are there.
"""

import argparse
import http.client
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import grpc
from google.protobuf import json_format
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect.v1.message_pb2 import ROLE_USER, Message

from bench.figures import Figure
from bench.load import LOAD, write
from bench.servers import gateway, recollect

_TURNS = 10
_STREAM = "/recollect.v1.ConversationService/StreamUpdates"
_STREAMED = 500
"""Turns of the conversation whose updates are read."""


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
            sizes = {name: len(call()) for name, call in callers.items()}
            loads = _times(callers, chosen.rounds, chosen.calls, web.close)
            streams = _times(_streams(channel, address, conversation), chosen.rounds, 3, web.close)
    figures = []
    for name in ("binary", "JSON"):
        what = f"Load of {2 * _TURNS} messages, {name}: {sizes[name]} bytes"
        figures.append(_figure(what, f"Load by HTTP, {name}", loads, name))
        what = f"StreamUpdates, {_STREAMED} updates, {name}"
        figures.append(_figure(what, f"StreamUpdates by HTTP, {name}", streams, name))
    return figures


def _streams(
    channel: grpc.Channel, address: str, conversation: str
) -> dict[str, Callable[[], bytes]]:
    """Append, and return what reads the updates of that by gRPC, in binary and in JSON."""
    stub = ConversationServiceStub(channel)
    message = Message(role=ROLE_USER, content="We ship on Friday.")
    append = api.AppendTurnRequest(conversation_id=conversation, messages=[message])
    cursors = [stub.AppendTurn(append).cursor for _ in range(_STREAMED + 1)]
    request = api.StreamUpdatesRequest(cursor=cursors[0], conversation_ids=[conversation])
    last = cursors[-1].encode()
    method: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(_STREAM)

    def by_grpc() -> bytes:
        answers = method(request.SerializeToString())
        element = next(it for it in answers if last in it)
        answers.cancel()
        return element

    def by_http(kind: str, body: bytes) -> bytes:
        headers = {"content-type": kind, "authorization": "Bearer none"}
        with closing(http.client.HTTPConnection(address)) as web:
            web.request("POST", _STREAM, struct.pack(">BI", 0, len(body)) + body, headers)
            answer = web.getresponse()
            while True:
                flags, length = struct.unpack(">BI", answer.read(5))
                element = answer.read(length)
                if flags:
                    raise SystemExit(f"the stream ended: {element!r}")
                if last in element:
                    return element

    text = json_format.MessageToJson(request).encode()
    return {
        "gRPC": by_grpc,
        "binary": lambda: by_http("application/connect+proto", request.SerializeToString()),
        "JSON": lambda: by_http("application/connect+json", text),
    }


def _times(
    callers: dict[str, Callable[[], bytes]], rounds: int, calls: int, before: Callable[[], None]
) -> dict[str, list[float]]:
    """Return the median of each round of each caller, in turn."""
    times: dict[str, list[float]] = {name: [] for name in callers}
    for _ in range(rounds):
        for name, call in callers.items():
            before()  # the gateway closes a connection that was idle meanwhile
            times[name].append(_median(call, calls))
    return times


def _figure(what: str, name: str, times: dict[str, list[float]], of: str) -> Figure:
    """Print and return what a caller takes, beside gRPC."""
    mine, theirs = statistics.median(times[of]), statistics.median(times["gRPC"])
    ratio = statistics.median(
        one / other for one, other in zip(times[of], times["gRPC"], strict=True)
    )
    print(f"{what}, p50 {mine:.2f} ms; gRPC {theirs:.2f} ms; ratio {ratio:.2f}", flush=True)
    return Figure(name, mine, "ms", theirs, "gRPC", ratio)


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
