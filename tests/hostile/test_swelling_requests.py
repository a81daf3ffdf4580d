"""Requests that are small on the wire and large once they are inflated, walked or parsed: each is
refused at a small cost, and nobody else waits for it.
"""

import os
import statistics
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import grpc
import pytest
from recollect.v1 import channel_service_pb2, checkpoint_service_pb2
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.kernel.domain.time import system_clock

from tests.credentials.conftest import grant, tokens_of
from tests.programs import Forked
from tests.server.conftest import Service, failure_of, server_process, user

LARGE = 8 << 20
"""Bytes of an inflated request: up to 17 MiB are accepted."""
CHECK = "/grpc.health.v1.Health/Check"
APPEND = "/recollect.v1.ConversationService/AppendTurn"
RECEIVE = "/recollect.v1.ChannelService/Receive"
PUT = "/recollect.v1.CheckpointService/PutRecords"
LIST = "/recollect.v1.ConversationService/List"
STREAM = "/recollect.v1.ConversationService/StreamUpdates"
SERVING = b"\x08\x01"
MOST_MEMORY = 200 << 20
"""Bytes by which the peak of the server's memory may grow; each request took 0.2 to 1.9 GiB."""
MOST_SECONDS = 1.0
"""Processor seconds of the server for one request; some took 6."""


def part(tag: int, data: bytes) -> bytes:
    """Return a length-delimited field."""
    size, length = len(data), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([tag << 3 | 2]) + length + bytes([size]) + data


def repeated(piece: bytes, size: int = LARGE) -> bytes:
    return piece * (size // len(piece))


def nested(data: bytes) -> bytes:
    """Return a request of AppendTurn with bytes of a Struct as the metadata of its message."""
    return part(2, part(14, data))


def keys() -> bytes:
    """Return entries of a Struct, each with a key of its own."""
    return b"".join(part(1, b"\x0a\x03" + number.to_bytes(3)) for number in range(250_000))


REQUESTS = {
    "zeros": (APPEND, b"\0" * LARGE),
    "zeros to a read": (LIST, b"\0" * LARGE),
    "zeros to a stream": (STREAM, b"\0" * LARGE),
    "numbers of ten bytes": (APPEND, repeated(b"\x80" * 9 + b"\x01")),
    "empty messages": (APPEND, repeated(b"\x12\x00")),
    "empty messages, their tags of two bytes": (APPEND, repeated(b"\x92\x00\x00")),
    "empty messages behind a group": (APPEND, b"\x7b\x7c" + repeated(b"\x12\x00")),
    "empty tool calls": (APPEND, part(2, repeated(b"\x5a\x00"))),
    "empty attachments": (RECEIVE, repeated(b"\x2a\x00")),
    "empty records": (PUT, repeated(b"\x12\x00")),
    "empty values": (APPEND, nested(part(1, part(2, part(6, repeated(b"\x0a\x00")))))),
    "keys": (APPEND, nested(keys())),
    "empty texts": (LIST, repeated(b"\x1a\x00")),
    "fields of nobody": (APPEND, repeated(b"\xf8\x07\x00")),
    "text that is not UTF-8 behind many fields": (APPEND, repeated(b"\x78\x00") + b"\x0a\x01\xff"),
}
"""Requests by what they hold, with their methods."""


def test_the_tags_in_these_requests_are_those_of_the_contract() -> None:
    for empty in (b"\x12\x00", b"\x92\x00\x00"):
        assert len(api.AppendTurnRequest.FromString(empty * 3).messages) == 3
    (message,) = api.AppendTurnRequest.FromString(part(2, b"\x5a\x00" * 3)).messages
    assert len(message.tool_calls) == 3
    assert len(channel_service_pb2.ReceiveRequest.FromString(b"\x2a\x00").attachments) == 1
    assert len(checkpoint_service_pb2.PutRecordsRequest.FromString(b"\x12\x00").records) == 1
    value = api.AppendTurnRequest.FromString(
        nested(part(1, part(1, b"k") + part(2, part(6, b"\x0a\x00" * 3))))
    )
    assert len(value.messages[0].metadata.fields["k"].list_value.values) == 3


class Guarded:
    """A server that asks for tokens, and a connection to it with a token."""

    def __init__(self, process: Forked, target: str, token: str) -> None:
        self.process = process
        self.target = target
        self.metadata = (("authorization", f"Bearer {token}"),)
        self.channel = grpc.insecure_channel(target)

    def call(self, method: str, data: bytes, *, token: bool = True) -> bytes:
        """Call a method with these bytes, which gRPC compresses."""
        metadata = self.metadata if token else ()
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(method)
        gzip = grpc.Compression.Gzip
        return call(data, metadata=metadata, compression=gzip, timeout=120)

    def seconds(self) -> float:
        """Return the processor seconds that the server has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak(self) -> int:
        """Return the most bytes of memory that the server has had since it was asked last."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return int(status.split("VmHWM:")[1].split()[0]) << 10


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("data")
    token = tokens_of(folder, system_clock).create(grant("admin"))[1]
    with server_process(folder, "--auth", "required") as (process, target):
        server = Guarded(process, target, token)
        with server.channel:
            service = Service(target)
            server.call(LIST, b"")  # what the first call loads is no cost of the others
            yield server
            service.channel.close()


@pytest.mark.timeout(180)
def test_a_request_that_swells_is_refused_at_a_small_cost(guarded: Guarded) -> None:
    before = guarded.peak()
    for name, (method, data) in REQUESTS.items():
        began = guarded.seconds()
        failure = failure_of(partial(guarded.call, method, data))
        cost = guarded.seconds() - began, guarded.peak() - before
        assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST"), name
        assert cost[0] < MOST_SECONDS, (name, cost)
        assert cost[1] < MOST_MEMORY, (name, cost)
        assert guarded.call(CHECK, b"", token=False) == SERVING, name


def test_health_takes_no_request_that_swells_of_anybody(guarded: Guarded) -> None:
    before, began = guarded.peak(), guarded.seconds()
    for data in (b"\0" * LARGE, b"\x0a\xff\xff\x7f" + b"x" * LARGE, b"x" * 5000):
        failure = failure_of(partial(guarded.call, CHECK, data, token=False))
        assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")
        assert "4096 bytes" in failure.text
    assert guarded.seconds() - began < MOST_SECONDS
    assert guarded.peak() - before < MOST_MEMORY
    assert guarded.call(CHECK, b"", token=False) == SERVING


def test_a_stranger_learns_nothing_of_its_bytes(guarded: Guarded) -> None:
    failure = failure_of(lambda: guarded.call(APPEND, b"\0" * LARGE, token=False))
    assert failure.reason == "UNAUTHENTICATED"


def test_honest_callers_hardly_notice_strangers_whose_requests_swell(guarded: Guarded) -> None:
    """The measure is what they notice of strangers that send as much text: the sending itself takes
    the processor from all.
    """
    beside_text = median_beside(guarded, part(1, b"x" * (LARGE // 4)))
    beside_zeros = median_beside(guarded, b"\0" * (LARGE // 4))
    assert beside_zeros < 5 * beside_text, (beside_zeros, beside_text)


def median_beside(guarded: Guarded, data: bytes) -> float:
    """Return the median seconds of a health check and a list beside six strangers that send these
    bytes.
    """
    ended = threading.Event()

    def attack() -> None:
        with grpc.insecure_channel(
            guarded.target, options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(CHECK)
            while not ended.is_set():
                with suppress(grpc.RpcError):
                    call(data, compression=grpc.Compression.Gzip, timeout=60)

    strangers = [threading.Thread(target=attack) for _ in range(6)]
    for it in strangers:
        it.start()
    seconds = []
    try:
        for _ in range(20):
            began = time.perf_counter()
            guarded.call(CHECK, b"", token=False)
            guarded.call(LIST, b"")
            seconds.append(time.perf_counter() - began)
    finally:
        ended.set()
        for it in strangers:
            it.join()
    return statistics.median(seconds)


def test_what_is_large_and_honest_passes_however_it_is_compressed(guarded: Guarded) -> None:
    made = api.CreateResponse.FromString(
        guarded.call("/recollect.v1.ConversationService/Create", b"\x0a\x03web")
    )
    request = api.AppendTurnRequest(conversation_id=made.conversation.id)
    for number in range(1000):
        message = user(f"word {number} " * 100, sender="ann")
        message.metadata.update({str(key): [key, {"is": True}] for key in range(4)})
        request.messages.append(message)
    for compression in (grpc.Compression.Gzip, grpc.Compression.Deflate, None):
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = guarded.channel.unary_unary(APPEND)
        answer = call(
            request.SerializeToString(), metadata=guarded.metadata, compression=compression
        )
        assert len(api.AppendTurnResponse.FromString(answer).messages) == 1000
    # bytes that begin as compressed ones do: no message, half of one, and one with a later field
    for data, reason in (
        (b"\x1f\x8b\x08\x00", "MALFORMED_REQUEST"),
        (zlib.compress(b"x" * 99)[:-1], "MALFORMED_REQUEST"),
        (b"\x78\x9c\x03", "INVALID_FIELD"),
    ):
        assert failure_of(partial(guarded.call, APPEND, data)).reason == reason
