"""Many subscribers in a process of their own, which read bytes and note when they came."""

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import grpc.aio

_STREAMS_A_CHANNEL = 500


@dataclass
class Arrivals:
    """Elements that the streams were sent since the last question."""

    elements: int = 0
    newest: list[bytes] = field(default_factory=list)
    """The last element of each stream."""
    ended: list[str] = field(default_factory=list)
    """The codes of the streams that are not open any more."""
    times: list[float] = field(default_factory=list)
    """Arrival time of each element, in `time.time()`."""


class Watchers:
    """The hold on such a process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def arrivals(self, elements: int, seconds: float = 60.0) -> Arrivals:
        """Wait for so many elements in all, and return those that came. Fewer, if that takes too
        long.
        """
        self._pipe.send((elements, seconds))
        answer = self._pipe.recv()
        assert isinstance(answer, Arrivals)
        return answer


@contextmanager
def watchers(target: str, method: str, request: bytes, streams: int) -> Iterator[Watchers]:
    """Open streams of one method until the block ends."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, target, method, request, streams))
    process.start()
    try:
        yield Watchers(ours)
    finally:
        ours.send(None)
        process.join(30)
        process.kill()


def _run(pipe: Connection, target: str, method: str, request: bytes, streams: int) -> None:
    asyncio.run(_watch(pipe, target, method, request, streams))


async def _watch(pipe: Connection, target: str, method: str, request: bytes, streams: int) -> None:
    arrivals = Arrivals(newest=[b""] * streams)

    async def read(number: int, call: Any) -> None:
        try:
            while (element := await call.read()) is not grpc.aio.EOF:
                arrivals.times.append(time.time())
                arrivals.elements += 1
                arrivals.newest[number] = element
        except grpc.aio.AioRpcError as error:
            arrivals.ended.append(str(error.code()))

    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    channels = [
        grpc.aio.insecure_channel(target, options) for _ in range(1 + streams // _STREAMS_A_CHANNEL)
    ]
    opens: list[Any] = [channel.unary_stream(method) for channel in channels]
    calls = [opens[number % len(opens)](request) for number in range(streams)]
    tasks = [asyncio.create_task(read(number, call)) for number, call in enumerate(calls)]
    while (order := await asyncio.to_thread(pipe.recv)) is not None:
        elements, seconds = order
        end = time.time() + seconds
        while arrivals.elements < elements and time.time() < end:
            await asyncio.sleep(0.001)
        pipe.send(arrivals)
        arrivals.elements = 0
        arrivals.times.clear()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for channel in channels:
        await channel.close()
