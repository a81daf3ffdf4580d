"""Subscribers that are slow, stuck, frozen or gone, too many of them, and a server that stops under
them: the others go on.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect_server.contract.held import Scheduled, Sender, Senders
from recollect_server.contract.server import ServerOptions
from recollect_server.contract.streams import StreamLimits, Streams
from recollect_server.run import app

from tests.conftest import RunningServer, Start
from tests.server.conftest import failure_of, user
from tests.streaming.conftest import Recorder, Subscriber
from tests.streaming.proxy import Proxy
from tests.waiting import until

Subscribe = Callable[..., Subscriber]
Record = Callable[[RunningServer], Recorder]

MOVING = 3
"""Number of threads that send while no stream is stuck."""


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Streams]:
    """Collect the streams of servers that are started from here on."""
    them: list[Streams] = []

    def note(*arguments: Any) -> Streams:
        them.append(Streams(*arguments))
        return them[-1]

    monkeypatch.setattr(app, "Streams", note)
    return them


@pytest.fixture
def stuck() -> Iterator[Callable[[str, int], None]]:
    """Return a function that opens streams without reading them."""
    channels: list[grpc.Channel] = []
    calls: list[Any] = []

    def open_them(target: str, count: int) -> None:
        for _ in range(count):
            channels.append(
                grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])
            )
            calls.append(
                ConversationServiceStub(channels[-1]).StreamUpdates(api.StreamUpdatesRequest())
            )

    yield open_them
    for call in calls:
        call.cancel()
    for channel in channels:
        channel.close()


def fill(service: Recorder, count: int = 8) -> str:
    """Append more bytes than fit between a server and a caller that does not read."""
    name = str(service.create().id)
    for _ in range(count):
        service.append(name, user("x" * 1_000_000))
    return name


def test_twenty_that_are_stuck_hold_up_nobody_and_are_cancelled(
    opened: list[Streams],
    stuck: Callable[[str, int], None],
    subscribe: Subscribe,
    start_server: Start,
    record: Record,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "StreamLimits", partial(StreamLimits, send_timeout=600.0))
    server = start_server()
    service = record(server)
    one = subscribe(server.target).ready()
    (streams,) = opened
    stuck(server.target, 20)
    until(lambda: streams.count() == 21)
    name = fill(service)
    filled = 8
    # what lies between grows with the memory that the system has left
    while streams.threads() < 20 + MOVING and filled < 40:
        service.append(name, user("x" * 1_000_000))
        filled += 1
        one.until_count("conversation_updated", filled)
    until(lambda: streams.threads() >= 20 + MOVING)
    for number in range(10):  # all twenty are blocked now, and it is told all the same
        service.append(name, user(f"{number}"))
        one.until_count("conversation_updated", filled + 1 + number)
    assert one.messages()[-10:] == [f"{number}" for number in range(10)]
    assert streams.count() == 21
    monkeypatch.setattr(streams._senders, "_send_timeout", 0.1)
    until(lambda: streams.count() == 1)
    until(lambda: streams.threads() == MOVING)
    assert one.error is None


def test_one_that_was_cancelled_for_being_stuck_comes_back_and_misses_nothing(
    opened: list[Streams],
    subscribe: Subscribe,
    start_server: Start,
    record: Record,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "StreamLimits", partial(StreamLimits, send_timeout=0.3))
    monkeypatch.setattr(app, "ServerOptions", partial(ServerOptions, keepalive_ms=3000))
    server = start_server()
    service = record(server)
    proxy = Proxy(server.target)
    one = subscribe(proxy.address).ready()
    (streams,) = opened
    proxy.freeze()
    fill(service, 16)
    until(lambda: streams.count() == 0)
    proxy.thaw()
    one.ended()
    assert one.error.code() in {grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE}  # type: ignore[union-attr]
    one.resume(server.target)
    one.until_count("conversation_updated", 16)
    one.drop()
    proxy.close()


def test_a_frozen_one_is_noticed_though_nothing_is_sent(
    opened: list[Streams],
    subscribe: Subscribe,
    start_server: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "ServerOptions", partial(ServerOptions, keepalive_ms=900))
    server = start_server()
    proxy = Proxy(server.target)
    one = subscribe(proxy.address).ready()
    (streams,) = opened
    assert streams.count() == 1
    proxy.freeze()
    until(lambda: streams.count() == 0)
    proxy.close()
    one.drop()


def test_one_that_vanishes_is_forgotten(
    opened: list[Streams], subscribe: Subscribe, start_server: Start
) -> None:
    server = start_server()
    proxy = Proxy(server.target)
    one = subscribe(proxy.address).ready()
    (streams,) = opened
    assert streams.count() == 1
    proxy.break_now()
    until(lambda: streams.count() == 0)
    one.drop()
    proxy.close()


def test_more_subscribers_than_are_taken_are_told_when_to_come_back(
    opened: list[Streams], subscribe: Subscribe, start_server: Start, record: Record
) -> None:
    server = start_server(max_subscribers=2)
    service = record(server)
    one, _ = subscribe(server.target).ready(), subscribe(server.target).ready()
    failure = failure_of(
        lambda: next(service.conversations.StreamUpdates(api.StreamUpdatesRequest()))
    )
    assert (failure.code, failure.reason) == ("RESOURCE_EXHAUSTED", "TOO_MANY_SUBSCRIBERS")
    assert failure.retry_ms == 1000
    one.drop()
    until(lambda: opened[0].count() == 1)
    subscribe(server.target).ready()


def test_streams_need_no_thread_of_the_calls(
    subscribe: Subscribe, start_server: Start, record: Record
) -> None:
    server = start_server(threads=2)
    service = record(server)
    many = [subscribe(server.target).ready() for _ in range(20)]
    name = service.conversation_of("One")
    for one in many:
        one.until_count("conversation_updated", 1)
    assert service.load(name).conversation.turn_count == 1


async def test_a_burst_of_subscribers_is_not_refused(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    # on a busy machine the last of them is read late, and is not stuck for that
    monkeypatch.setattr(app, "StreamLimits", partial(StreamLimits, send_timeout=600.0))
    server = start_server()
    async with grpc.aio.insecure_channel(server.target) as channel:
        stub: Any = ConversationServiceStub(channel)
        calls = [stub.StreamUpdates(api.StreamUpdatesRequest()) for _ in range(1300)]
        for call in calls:
            assert (await call.read()).update.HasField("conversation_list")
        for call in calls:
            call.cancel()


def test_a_server_that_stops_ends_its_streams_first(
    opened: list[Streams],
    stuck: Callable[[str, int], None],
    subscribe: Subscribe,
    start_server: Start,
    record: Record,
) -> None:
    server = start_server(shutdown_grace="10m")  # which open streams would use up
    service = record(server)
    many = [subscribe(server.target).ready() for _ in range(3)]
    stuck(server.target, 2)
    until(lambda: opened[0].count() == 5)
    fill(service)
    for one in many:
        one.until_count("conversation_updated", 8)  # one that is in the middle of them is cancelled
    server.stop()
    for one in many:
        one.ended()
        assert one.error.code() == grpc.StatusCode.UNAVAILABLE  # type: ignore[union-attr]
    assert (opened[0].count(), opened[0].threads()) == (0, 0)


class Line:
    """Something to send to, which notices when two send at once."""

    def __init__(self) -> None:
        self.scheduled = self.again = False
        self.busy = threading.Lock()
        self.pumped = 0

    def cancel(self) -> None:
        raise AssertionError("nobody is stuck")


def test_no_two_threads_ever_send_on_one_stream_and_nothing_scheduled_is_forgotten() -> None:
    lines = [Line() for _ in range(3)]
    scheduled = [0, 0, 0]
    delivered = [0, 0, 0]
    clashes: list[int] = []

    def pump(it: Scheduled, _: Sender) -> bool:
        assert isinstance(it, Line)
        if not it.busy.acquire(blocking=False):
            clashes.append(1)
            return False
        number = lines.index(it)
        delivered[number] = scheduled[number]
        threading.Event().wait(0.0001)  # the others have their turn
        it.pumped += 1
        it.busy.release()
        return it.pumped % 3 == 0

    senders = Senders(pump, 60.0)

    def schedule(number: int) -> None:
        for _ in range(100):
            scheduled[number % 3] += 1
            senders.schedule(lines)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(schedule, range(6)))
    until(lambda: delivered == scheduled)
    senders.stop()
    assert clashes == []


def test_a_stream_that_is_scheduled_while_it_is_sent_to_has_its_turn_again() -> None:
    entered, go_on = threading.Event(), threading.Event()
    turns: list[int] = []

    def pump(_: Scheduled, __: Sender) -> bool:
        turns.append(1)
        entered.set()
        return not go_on.wait(30)

    senders, line = Senders(pump, 60.0), Line()
    senders.schedule([line])
    assert entered.wait(30)
    senders.schedule([line])
    go_on.set()
    until(lambda: len(turns) == 2)
    senders.stop()
