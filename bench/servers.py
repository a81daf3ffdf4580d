"""The servers that benchmarks call: Recollect over a folder, and on the same kind of server a bare
echo, and a bare durable append.
"""

import asyncio
import json
import os
import sys
import threading
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen, check_output
from typing import Any

import grpc
import grpc.aio
import orjson
import trustme
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.kernel.index import checking as index
from recollect_server.recall.model.weights import look, shipped
from recollect_server.recall.vectors import checking as vectors

from bench.calls import Access

THREADS = 32
ECHO = "/bench.Echo/Echo"
BARE_APPEND = "/bench.Durable/Append"
FANOUT_WATCH = "/bench.Fanout/Watch"
FANOUT_PUBLISH = "/bench.Fanout/Publish"


@contextmanager
def recollect(data_dir: Path, *flags: str) -> Iterator[tuple[str, Popen[str]]]:
    """Serve a folder with Recollect in a process of its own; yield its address and its process."""
    command = [
        sys.executable,
        "-m",
        "recollect_server",
        "serve",
        "--data-dir",
        str(data_dir),
        "--listen",
        "127.0.0.1:0",
    ]
    # what is written behind a measurement would be measured too; a flag may ask for it
    command += ["--abbreviator", "off"]
    with (data_dir.parent / "server.log").open("a") as log:
        server = Popen([*command, *flags], stdout=PIPE, stderr=log, text=True)
        yield from _until_stopped(server)


@contextmanager
def guarded(data_dir: Path, *flags: str) -> Iterator[tuple[str, Access]]:
    """Serve a folder with Recollect over TLS, to callers with a token; yield its address and what
    it asks for.
    """
    data_dir.mkdir()
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    chain, key = data_dir.parent / "server.crt", data_dir.parent / "server.key"
    chain.write_bytes(certificate.cert_chain_pems[0].bytes())
    key.write_bytes(certificate.private_key_pem.bytes())
    command = [sys.executable, "-m", "recollect_server", "token", "create", "--kind", "brain"]
    command += ["--json", "--data-dir", str(data_dir)]
    token = json.loads(check_output(command, text=True))["token"]
    tls = ("--tls-cert", str(chain), "--tls-key", str(key))
    with recollect(data_dir, *tls, *flags) as (target, _):
        yield target, Access(authority.cert_pem.bytes(), token)


@contextmanager
def gateway(target: str) -> Iterator[str]:
    """Serve the calls of a server over HTTP with `recollect-web`; yield its address."""
    command = [sys.executable, "-m", "recollect.web.main", "--address", target]
    read, write = os.pipe()
    with os.fdopen(read) as lines, os.fdopen(write, "w") as errors:
        page = Popen([*command, "--listen", "127.0.0.1:0"], stdout=PIPE, stderr=errors, text=True)
        with page:
            try:
                yield lines.readline().split("http://")[1].split("/")[0]
            finally:
                page.terminate()
                page.wait(60)


@contextmanager
def echo() -> Iterator[tuple[str, Popen[str]]]:
    """Serve calls that are answered with their request."""
    server = Popen([sys.executable, "-m", "bench.servers"], stdout=PIPE, text=True)
    yield from _until_stopped(server)


@contextmanager
def durable(folder: Path) -> Iterator[tuple[str, Popen[str]]]:
    """Serve appends that are parsed, written to a file of their conversation as a line a message,
    synced, and answered; nothing is checked, and nothing else is kept.
    """
    folder.mkdir()
    command = [sys.executable, "-m", "bench.servers", "durable", str(folder)]
    yield from _until_stopped(Popen(command, stdout=PIPE, text=True))


@contextmanager
def fanout() -> Iterator[tuple[str, Popen[str]]]:
    """Serve streams with grpc.aio. A published message goes to all of them; a stream may ask for a
    number of copies of its request.
    """
    server = Popen([sys.executable, "-m", "bench.servers", "fanout"], stdout=PIPE, text=True)
    yield from _until_stopped(server)


def embedded(data_dir: Path, space: str = "default") -> None:
    """Wait until the server over a folder has embedded everything that is indexed of a space.

    Raises NoWeights, WrongWeights: without its model a server would never be done.
    """
    look(shipped())
    folder = data_dir / space / "conversations"
    while True:
        time.sleep(0.2)  # the index takes in what was acknowledged within less
        if index.state_of(folder).lines == vectors.state_of(folder).lines:
            time.sleep(0.2)  # vectors are stored a moment before searches see them
            return


def _until_stopped(server: Popen[str]) -> Iterator[tuple[str, Popen[str]]]:
    with server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if " listens on " not in line:
                raise SystemExit(f"the server did not start: {line or 'see its log'}")
            yield line.split(" listens on ")[1].split()[0], server
        finally:
            server.terminate()
            server.wait(60)


def resident_bytes(process: Popen[str]) -> int:
    """Return the memory that a process has now, in bytes."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("no VmRSS: these figures need Linux")


def processor_seconds(process: Popen[str]) -> float:
    """Return the processor's time that a process has used, in seconds."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _serve_echo() -> None:
    _serve("bench.Echo", "Echo", grpc.unary_unary_rpc_method_handler(lambda request, _: request))


def _serve_durable(folder: Path) -> None:
    files: dict[str, tuple[int, threading.Lock]] = {}
    guard = threading.Lock()

    def append(request: api.AppendTurnRequest, _: object) -> api.AppendTurnResponse:
        name = request.conversation_id
        with guard:
            if name not in files:
                flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY
                files[name] = os.open(folder / f"{name}.jsonl", flags, 0o600), threading.Lock()
        file, lock = files[name]
        lines = []
        for message in request.messages:
            line = orjson.dumps({
                "role": message.role, "content": message.content, "requestId": request.request_id
            })  # fmt: skip
            lines.append(b'%s,"crc":"%08x"}\n' % (line[:-1], zlib.crc32(line)))
        with lock:
            os.write(file, b"".join(lines))
            os.fdatasync(file)
        return api.AppendTurnResponse(messages=request.messages, turn_number=1, cursor="1")

    _serve(
        "bench.Durable",
        "Append",
        grpc.unary_unary_rpc_method_handler(
            append, api.AppendTurnRequest.FromString, api.AppendTurnResponse.SerializeToString
        ),
    )


def _serve(service: str, method: str, handler: "grpc.RpcMethodHandler[Any, Any]") -> None:
    server = grpc.server(futures.ThreadPoolExecutor(THREADS), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"{service} listens on 127.0.0.1:{port} ", flush=True)
    server.wait_for_termination()


async def _serve_fanout() -> None:
    watching: set[asyncio.Queue[bytes]] = set()

    async def watch(request: bytes, _context: object) -> AsyncIterator[bytes]:
        if request:
            for _ in range(int.from_bytes(request[:4], "big")):
                yield request[4:]
            return
        mine: asyncio.Queue[bytes] = asyncio.Queue()
        watching.add(mine)
        try:
            yield b"ready"
            while True:
                yield await mine.get()
        finally:
            watching.discard(mine)

    async def publish(request: bytes, _context: object) -> bytes:
        for queue in watching:
            queue.put_nowait(request)
        return b""

    # Without the limits a burst of more than a thousand streams is refused at random.
    limits = [
        ("grpc.server.max_pending_requests", 20_000),
        ("grpc.server.max_pending_requests_hard_limit", 30_000),
    ]
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), *limits])
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Watch": grpc.unary_stream_rpc_method_handler(watch),
        "Publish": grpc.unary_unary_rpc_method_handler(publish),
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bench.Fanout", handlers),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"fanout listens on 127.0.0.1:{port} ", flush=True)
    await server.wait_for_termination()


def main() -> None:
    """Serve echo, or what the first argument says, until the process ends."""
    if sys.argv[1:] == ["fanout"]:
        asyncio.run(_serve_fanout())
    elif sys.argv[1:2] == ["durable"]:
        _serve_durable(Path(sys.argv[2]))
    else:
        _serve_echo()


if __name__ == "__main__":
    main()
