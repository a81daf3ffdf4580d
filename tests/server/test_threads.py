"""The threads of the server: callers that send nothing, or nothing yet, keep none of them."""

import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import grpc
import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.contract import pool
from recollect_server.contract.pool import CallPool

from tests import with_token
from tests.conftest import RunningServer, Start
from tests.server.conftest import Service, code_of, user
from tests.waiting import until

APPEND = "/recollect.v1.ConversationService/AppendTurn"
GET = "/recollect.v1.ConversationService/Get"
STREAM = "/recollect.v1.ConversationService/StreamUpdates"


class Silent:
    """Calls of one connection that have begun and send no request until they are told to."""

    def __init__(self, channel: grpc.Channel) -> None:
        grpc.channel_ready_future(channel).result(30)
        self._channel = channel
        self._released = threading.Event()
        self._request = b""
        self.calls: list[Any] = []

    def begin(self, method: str) -> Any:
        """Begin a call. Calls of the method that begin later reach the server later."""
        multi: grpc.StreamUnaryMultiCallable[bytes, bytes] = self._channel.stream_unary(method)
        call: Any = multi.future(self._requests())
        self.calls.append(call)
        return call

    def end(self, request: bytes = b"") -> None:
        """Let the calls that were not cancelled send a request, or end without one."""
        self._request = request
        self._released.set()

    def _requests(self) -> Iterator[bytes]:
        self._released.wait(60)
        if self._request:
            yield self._request


@pytest.fixture
def silent(service: Service) -> Iterator[Silent]:
    calls = Silent(service.channel)
    yield calls
    calls.end()
    for call in calls.calls:
        call.cancel()


@pytest.mark.parametrize("method", [APPEND, GET, STREAM])
def test_callers_that_send_nothing_keep_nobody_waiting(
    method: str, service: Service, server: RunningServer, silent: Silent
) -> None:
    conversation_id = service.create().id
    for _ in range(2 * server.settings.threads):  # writes have fewer
        silent.begin(method)

    stored = service.conversations.AppendTurn(
        api.AppendTurnRequest(conversation_id=conversation_id, messages=[user("here")]), timeout=30
    )
    assert stored.turn_number == 1
    assert (
        service.conversations.Get(
            api.GetRequest(conversation_id=conversation_id), timeout=30
        ).conversation.turn_count
        == 1
    )


def test_a_stop_waits_for_a_silent_caller_no_longer_than_its_grace(
    server: RunningServer, silent: Silent
) -> None:
    call = silent.begin(APPEND)
    server.stop()
    assert code_of(call.result) in {"UNAVAILABLE", "CANCELLED"}


def test_a_request_that_comes_late_is_answered(service: Service, silent: Silent) -> None:
    conversation_id = service.create().id
    calls = [silent.begin(APPEND) for _ in range(5)]
    silent.end(
        api.AppendTurnRequest(
            conversation_id=conversation_id, messages=[user("late")]
        ).SerializeToString()
    )
    turns = {api.AppendTurnResponse.FromString(call.result(30)).turn_number for call in calls}
    assert turns == {1, 2, 3, 4, 5}


def test_a_call_that_ends_without_a_request_is_refused(service: Service, silent: Silent) -> None:
    call = silent.begin(APPEND)
    silent.end()
    assert code_of(call.result) == "UNIMPLEMENTED"


# The pool itself, under a server of its own -------------------------------------------------------


@dataclass
class Echo:
    """A server that answers with the request, whose pool has one thread and asks for two requests
    ahead.
    """

    channel: grpc.Channel
    pool: CallPool

    def call(self, request: bytes, timeout: float = 30) -> bytes:
        echo: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(
            "/test.Echo/Echo"
        )
        return echo(request, timeout=timeout)


@contextmanager
def echoing() -> Iterator[Echo]:
    threads = CallPool(1, "test", ahead=2)
    server = grpc.server(threads)
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(
        lambda request, _: request
    )
    server.add_registered_method_handlers("test.Echo", {"Echo": handler})
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Echo(channel, threads)
    finally:
        server.stop(0).wait()
        threads.shutdown()


def test_no_more_requests_are_asked_for_than_may_be_there_and_each_call_has_its_turn() -> None:
    with echoing() as echo:
        silent = Silent(echo.channel)
        for _ in range(4):
            silent.begin("/test.Echo/Echo")
        # it ended while it waited
        assert code_of(lambda: echo.call(b"unread", timeout=0.2)) == "DEADLINE_EXCEEDED"
        for call in reversed(silent.calls):  # two that wait unread, then two that were asked for
            call.cancel()
        assert [echo.call(b"one"), echo.call(b"two"), echo.call(b"three")] == [
            b"one",
            b"two",
            b"three",
        ]


def by_space(metadata: pool.Metadata, peer: Callable[[], str]) -> tuple[str, str]:
    """Tell callers apart by connection and by the space that they name."""
    return peer(), str(dict(metadata).get("space", ""))


class Turns:
    """A server whose handler notes its requests, and answers once the test lets it."""

    def __init__(self, threads: int, present_seconds: float, ahead: int) -> None:
        self.order: list[bytes] = []
        self.go_on = threading.Event()
        self.pool = CallPool(threads, "test", ahead, by_space, present_seconds)
        self.server = grpc.server(self.pool)
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(
            self._handle
        )
        self.server.add_registered_method_handlers("test.Echo", {"Echo": handler})
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        # connections of their own: else equal channels of a process share one
        option = [("grpc.use_local_subchannel_pool", 1)]
        self.flooding, self.other = (
            grpc.insecure_channel(f"127.0.0.1:{port}", option) for _ in range(2)
        )

    def _handle(self, request: bytes, _: grpc.ServicerContext) -> bytes:
        self.order.append(request)
        if request != b"at once":
            self.go_on.wait(30)
        return request

    def begin(self, channel: grpc.Channel, request: bytes, space: str) -> Any:
        echo: Any = channel.unary_unary("/test.Echo/Echo")
        return echo.future(request, timeout=30, metadata=[("space", space)])

    def call(self, channel: grpc.Channel, request: bytes, space: str = "") -> Any:
        """Begins a call, and waits until its request is with a thread or waits for one."""
        here = len(self.order) + self.pool.waiting()
        pending = self.begin(channel, request, space)
        until(lambda: len(self.order) + self.pool.waiting() > here)
        return pending

    def close(self) -> None:
        self.go_on.set()
        self.flooding.close()
        self.other.close()
        self.server.stop(0).wait()
        self.pool.shutdown()


@pytest.fixture
def turns() -> Iterator[Callable[..., Turns]]:
    made: list[Turns] = []

    def make(threads: int, present_seconds: float = 60, ahead: int = 256) -> Turns:
        made.append(Turns(threads, present_seconds, ahead))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_callers_take_turns_however_many_calls_one_of_them_has(
    turns: Callable[..., Turns],
) -> None:
    server = turns(1)
    calls = [server.call(server.flooding, b"flood %d" % number) for number in range(10)]
    calls += [server.call(server.other, b"other %d" % number) for number in range(2)]
    server.go_on.set()
    assert all(call.result() for call in calls)
    assert server.order[:5] == [b"flood 0", b"flood 1", b"other 0", b"flood 2", b"other 1"]


def test_a_flood_has_its_share_of_the_threads_while_somebody_else_calls(
    turns: Callable[..., Turns],
) -> None:
    server = turns(4)
    assert server.call(server.other, b"at once").result() == b"at once"
    calls = [server.call(server.flooding, b"flood") for _ in range(10)]
    assert (server.order.count(b"flood"), server.pool.waiting()) == (2, 8)
    assert server.call(server.other, b"at once").result() == b"at once"
    server.go_on.set()
    assert all(call.result() for call in calls)


def test_calls_that_run_for_long_leave_the_calls_of_other_spaces_threads(
    turns: Callable[..., Turns],
) -> None:
    server = turns(1)
    calls = [server.call(server.flooding, b"hangs", "one") for _ in range(3)]
    calls.append(server.call(server.other, b"hangs too", "one"))
    until(lambda: server.order == [b"hangs"])
    assert server.call(server.flooding, b"at once", "two").result() == b"at once"
    calls.append(server.call(server.flooding, b"hangs as well", "three"))
    assert server.call(server.other, b"at once", "two").result() == b"at once"
    # those of one space wait for each other
    assert sorted(server.order) == [b"at once", b"at once", b"hangs", b"hangs as well"]
    assert server.pool.waiting() == 3
    server.go_on.set()
    assert all(call.result() for call in calls)
    until(lambda: server.pool.load() == pool.PoolLoad(1, 0, 0))


def test_calls_of_a_space_that_hangs_do_not_take_all_of_the_room_for_requests(
    turns: Callable[..., Turns],
) -> None:
    server = turns(1, ahead=4)
    calls = [
        server.begin(channel, b"hangs", "one")
        for channel in (server.flooding, server.other)
        for _ in range(4)
    ]
    until(lambda: server.pool.waiting() == 3)
    for _ in range(3):
        assert server.begin(server.other, b"at once", "two").result() == b"at once"
    server.go_on.set()
    assert all(call.result() for call in calls)


def test_a_space_that_has_no_request_on_its_way_may_have_the_next(
    turns: Callable[..., Turns],
) -> None:
    server = turns(1, ahead=3)
    calls = [server.call(server.flooding, b"hangs", space) for space in ("one", "two")]
    first = server.begin(server.flooding, b"at once", "three")
    calls.append(server.begin(server.other, b"hangs", "one"))
    assert server.begin(server.other, b"at once", "three").result() == b"at once"
    server.go_on.set()
    assert all(call.result() for call in [*calls, first])


def test_callers_that_hang_do_not_keep_those_present_who_are_gone(
    turns: Callable[..., Turns],
) -> None:
    server = turns(4, 0)
    calls = [server.call(server.flooding, b"hangs", "one")]
    for space in ("two", "three", "four", "five"):
        assert server.call(server.other, b"at once", space).result() == b"at once"
    calls += [server.call(server.other, b"hangs too", "two") for _ in range(3)]
    until(lambda: server.order.count(b"hangs too") == 2)  # a half of the threads
    server.go_on.set()
    assert all(call.result() for call in calls)


def test_callers_who_are_refused_and_call_again_at_once_are_slowed(start_server: Start) -> None:
    server = start_server(auth="required")
    with grpc.insecure_channel(server.target) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(GET)
        began = time.monotonic()
        for _ in range(20 + 50):
            assert code_of(lambda: call(b"", timeout=30)) == "UNAUTHENTICATED"
        assert time.monotonic() - began > 0.45  # 100 a second behind the first 20


def test_a_caller_has_all_threads_again_once_the_others_are_gone(
    turns: Callable[..., Turns],
) -> None:
    server = turns(4, 0.3)
    assert server.call(server.other, b"at once").result() == b"at once"
    calls = [server.call(server.flooding, b"flood") for _ in range(10)]
    # without another call, or the end of one
    until(lambda: server.order.count(b"flood") == 4)
    server.go_on.set()
    assert all(call.result() for call in calls)


def test_calls_that_send_nothing_take_no_share_of_the_threads(
    turns: Callable[..., Turns],
) -> None:
    server = turns(4)
    silent = Silent(server.other)
    call = silent.begin("/test.Echo/Echo")
    calls = [server.call(server.flooding, b"flood") for _ in range(10)]
    assert (server.order.count(b"flood"), server.pool.waiting()) == (4, 6)
    server.go_on.set()
    assert all(call.result() for call in calls)
    call.cancel()


def test_callers_who_are_gone_are_forgotten(turns: Callable[..., Turns]) -> None:
    server = turns(4, 0)
    for _ in range(3):
        assert server.call(server.other, b"at once").result() == b"at once"
        assert server.call(server.flooding, b"at once").result() == b"at once"
    assert len(server.pool._callers) <= 2
    assert len(server.pool._present) <= 2


def test_a_caller_alone_has_all_threads(turns: Callable[..., Turns]) -> None:
    server = turns(4, 0)
    assert server.call(server.other, b"at once").result() == b"at once"
    calls = [server.call(server.flooding, b"flood") for _ in range(10)]
    assert (server.order.count(b"flood"), server.pool.waiting()) == (4, 6)
    server.go_on.set()
    assert all(call.result() for call in calls)


@pytest.mark.skipif(with_token.ON, reason="every channel brings a valid token")
def test_a_caller_without_a_valid_token_is_refused_before_it_sends_its_request(
    start_server: Start,
) -> None:
    server = start_server(auth="required")
    with grpc.insecure_channel(server.target) as channel:
        silent = Silent(channel)
        call = silent.begin(APPEND)
        assert code_of(lambda: call.result(30)) == "UNAUTHENTICATED"
        silent.end()


def test_grpcio_is_pinned_below_the_minor_version_after_the_one_that_these_tests_ran_with() -> None:
    major, minor, *_ = metadata.version("grpcio").split(".")
    project = tomllib.loads((Path(__file__).parents[2] / "server/pyproject.toml").read_text())[
        "project"
    ]
    [pin] = [it for it in project["dependencies"] if it.startswith("grpcio>")]
    assert pin.endswith(f",<{major}.{int(minor) + 1}")
    assert pool._is_able()  # else a silent caller would hold a thread


@pytest.mark.parametrize(
    ("expected", "other"), [("_MEANS", ("what_no_version_has",)), ("_WAITS", "another_name")]
)
def test_a_grpcio_without_those_means_is_served_as_it_asks(
    expected: str, other: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, expected, other)
    with echoing() as echo:
        assert echo.call(b"said") == b"said"
        silent = Silent(echo.channel)
        call = silent.begin("/test.Echo/Echo")
        # the one thread waits for the silent one
        assert code_of(lambda: echo.call(b"said", timeout=0.2)) == "DEADLINE_EXCEEDED"
        call.cancel()


def test_what_is_not_a_call_runs_as_in_any_pool() -> None:
    with CallPool(2, "test") as threads:
        run: Callable[[int], int] = abs
        assert threads.submit(run, -7).result(30) == 7
