"""Many callers of one method, in a process of their own: how many calls a second, and how long each
took.

Requests are bytes made before the clock starts, so that both sides of a ratio cost the caller the
same.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import grpc


@dataclass(frozen=True, slots=True)
class Measured:
    """Result of a run of calls."""

    calls: int
    seconds: float
    times: list[float]
    """Seconds of each call, sorted."""

    @property
    def rate(self) -> float:
        """Calls a second."""
        return self.calls / self.seconds

    def milliseconds(self, share: float) -> float:
        """Return the time that this share of the calls stayed under."""
        return self.times[min(len(self.times) - 1, int(share * len(self.times)))] * 1000


@dataclass(frozen=True, slots=True)
class Access:
    """Authority and token that a guarded server asks for."""

    authority: bytes
    """PEM of the authority of its certificate."""
    token: str

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of every call."""
        return (("authorization", f"Bearer {self.token}"),)


def open_channel(target: str, access: Access | None) -> grpc.Channel:
    """Return a channel, with TLS where the server asks for it."""
    if access is None:
        return grpc.insecure_channel(target)
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(access.authority))


def measure(
    target: str, method: str, requests: list[list[bytes]], access: Access | None = None
) -> Measured:
    """Run one caller for each list of requests, one call after the other, all callers at once.
    Raises EOFError if a call fails.
    """
    answer = answer_of(_run, target, method, requests, access)
    assert isinstance(answer, Measured)
    return answer


def answer_of(work: Callable[..., None], *arguments: object) -> object:
    """Return what some work sends through the pipe that it gets before its arguments. It is done in
    a process of its own. Raises EOFError if it fails.
    """
    pipe, process = _started(work, *arguments)
    try:
        return pipe.recv()
    finally:
        process.join()


@contextmanager
def alongside(work: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """Do some work in a process of its own, and yield a pipe to it once it has sent that it began.
    At the end it is sent None, and waited for.
    """
    pipe, process = _started(work, *arguments)
    try:
        pipe.recv()
        yield pipe
    finally:
        pipe.send(None)
        process.join()


def _started(work: Callable[..., None], *arguments: object) -> tuple[Connection, SpawnProcess]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, *arguments))
    process.start()
    theirs.close()  # it is the process's now: if that fails, nothing waits for its answer
    return ours, process


def _run(
    answer: Connection,
    target: str,
    method: str,
    requests: list[list[bytes]],
    access: Access | None,
) -> None:
    metadata = None if access is None else access.metadata
    with open_channel(target, access) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)

        def caller(own: list[bytes]) -> list[float]:
            times = []
            for request in own:
                began = time.perf_counter()
                call(request, timeout=60, metadata=metadata)
                times.append(time.perf_counter() - began)
            return times

        grpc.channel_ready_future(channel).result(30)
        with ThreadPoolExecutor(len(requests)) as pool:
            began = time.perf_counter()
            times = sorted(t for own in pool.map(caller, requests) for t in own)
            seconds = time.perf_counter() - began
    answer.send(Measured(len(times), seconds, times))
