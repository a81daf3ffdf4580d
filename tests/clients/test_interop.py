"""Features of gRPC between the real server and clients in Python, TypeScript and Go: deadlines,
cancellation, compression, pings, errors with details.
"""

import concurrent.futures
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from recollect import Client
from recollect.v1 import conversation_pb2, message_pb2, recall_service_pb2
from recollect.v1 import conversation_service_pb2 as pb
from recollect.v1.recall_service_pb2_grpc import RecallServiceStub
from recollect_server.contract.streams import Streams
from recollect_server.kernel.domain.errors import CallerGone
from recollect_server.recall.search import Search
from recollect_server.run import app

from tests.clients.conftest import Driver, Failed, Language, _go, _typescript
from tests.conftest import LONG, RunningServer, Start
from tests.hostile.test_abandoned_calls import ENDLESS
from tests.server.conftest import failure_of
from tests.streaming.proxy import Proxy
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)  # whichever is first waits until Go is compiled

LARGE = "All work and no play. " * 20_000


def _python() -> Language:
    program = (sys.executable, Path(__file__).with_name("driver.py"))
    return Language(program, ())


@pytest.fixture
def begin() -> Iterator[Callable[[Callable[[], Language]], Driver]]:
    """Return a function that starts a process with a client."""
    started: list[Driver] = []

    def start(language: Callable[[], Language]) -> Driver:
        started.append(Driver(language().driver))
        return started[-1]

    yield start
    for it in started:
        it.close()


@pytest.fixture(params=[_python, _typescript, _go], ids=["python", "typescript", "go"])
def driver(request: pytest.FixtureRequest, begin: Callable[..., Driver]) -> Driver:
    """Start a process with a client."""
    return begin(request.param)


class Endless:
    """Searches that take for ever, until what they are done for ends them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.ended = threading.Event(), threading.Event()
        self.reason: BaseException | None = None

        def terms(search: Search, query: str, **_: object) -> None:
            self.began.set()
            try:
                with search._database.reading() as connection:
                    connection.execute(ENDLESS).fetchall()
            except BaseException as error:
                self.reason = error
                raise
            finally:
                self.ended.set()

        monkeypatch.setattr(Search, "terms", terms)


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Endless:
    """Let every search take for ever."""
    return Endless(monkeypatch)


def search(driver: Driver, **more: object) -> dict[str, object]:
    """Return the error of a search."""
    with pytest.raises(Failed) as caught:
        driver.do(call="RecallService/Search", request={"query": "zebra"}, **more)
    return dict(caught.value.error)


def test_the_server_stops_a_search_whose_deadline_has_passed(
    server: RunningServer, driver: Driver, endless: Endless
) -> None:
    driver.do(connect=server.target, options={"timeoutMs": 1_000})
    assert search(driver)["code"] == "DEADLINE_EXCEEDED"
    assert endless.ended.wait(10)
    assert endless.reason is not None


def test_the_server_stops_a_search_that_is_cancelled(
    server: RunningServer, driver: Driver, endless: Endless
) -> None:
    driver.do(connect=server.target)
    error = search(driver, cancelAfterMs=1_000)
    assert error["name"] in ("AbortError", "TimeoutError") or error["code"] == "CANCELLED"
    assert endless.began.is_set()
    assert endless.ended.wait(10)
    assert isinstance(endless.reason, CallerGone)


def test_the_server_ends_a_stream_whose_client_is_gone(
    start_server: Start, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Streams] = []

    def note(*arguments: object) -> Streams:
        opened.append(Streams(*arguments))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(app, "Streams", note)
    server = start_server()
    driver.do(connect=server.target)
    driver.do(watch=True, until="conversationList")
    assert sum(it.count() for it in opened) == 1
    driver.close()
    until(lambda: sum(it.count() for it in opened) == 0)


def test_requests_may_be_compressed(server: RunningServer, client: Client, driver: Driver) -> None:
    name = client.conversations.create("web").id
    request = {
        "conversation_id": name,
        "messages": [{"role": "ROLE_USER", "content": LARGE}],
    }
    proxy = Proxy(server.target)
    sizes = []
    for options in ({}, {"gzip": True}):
        driver.do(connect=proxy.address, options=options)
        before = proxy.received
        driver.do(call="ConversationService/AppendTurn", request=request)
        sizes.append(proxy.received - before)
    proxy.close()
    assert sizes[0] > len(LARGE) > 20 * sizes[1]
    loaded = client.conversations.load(name, max_turns=1)
    assert loaded.conversation
    assert (loaded.conversation.turn_count, loaded.messages[0].content) == (2, LARGE)


def compressing(answer: pb.LoadResponse) -> grpc.Server:
    """Return a server that compresses what it answers to Load, as many a proxy does."""
    pool = concurrent.futures.ThreadPoolExecutor(1)
    server = grpc.server(pool, compression=grpc.Compression.Gzip)
    load: Any = grpc.unary_unary_rpc_method_handler(
        lambda *_: answer, response_serializer=pb.LoadResponse.SerializeToString
    )
    service = pb.DESCRIPTOR.services_by_name["ConversationService"].full_name
    handlers = {"Load": load}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    return server


def test_answers_that_are_compressed_are_read(driver: Driver) -> None:
    message = message_pb2.Message(role=message_pb2.ROLE_USER, content=LARGE)
    conversation = conversation_pb2.Conversation(id="conv-01HQ0000000000000000000000")
    server = compressing(pb.LoadResponse(conversation=conversation, messages=[message]))
    proxy = Proxy(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    server.start()
    driver.do(connect=proxy.address)
    answer = driver.do(call="ConversationService/Load", request={"channel": "web"})
    assert answer["messages"][0]["content"] == LARGE
    assert 20 * proxy.sent < len(LARGE)
    proxy.close()
    server.stop(0).wait()


def test_a_small_request_that_grows_beyond_the_limit_is_refused(server: RunningServer) -> None:
    with grpc.insecure_channel(server.target, compression=grpc.Compression.Gzip) as channel:
        request = recall_service_pb2.SearchRequest(query=" " * (60 << 20))
        failure = failure_of(lambda: RecallServiceStub(channel).Search(request))
    assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")


def test_what_is_wrong_with_a_request_is_named_by_its_field(
    server: RunningServer, driver: Driver
) -> None:
    driver.do(connect=server.target)
    with pytest.raises(Failed) as caught:
        driver.do(call="ConversationService/Create", request={"channel": "The Web"})
    error = caught.value.error
    assert (error["code"], error["reason"]) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    assert [it["field"] for it in error["violations"]] == ["channel"]
    assert error["violations"][0]["description"].startswith("is not a channel: 1 to 32 lower")


def test_a_limit_says_when_to_come_back(start_server: Start, driver: Driver) -> None:
    server = start_server(space_calls=0.01)
    driver.do(connect=server.target, options={"timeoutMs": 3_000})
    with pytest.raises(Failed) as caught:  # noqa: PT012 - one of the calls is the first too many
        for _ in range(100):
            driver.do(call="ConversationService/List")
    error = caught.value.error
    assert (error["code"], error["reason"]) == ("RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED")
    assert error["retryAfterMs"] > 1_000


@pytest.mark.skipif(not LONG, reason="takes 45 s: `make hostile` runs it")
def test_a_stream_with_a_ping_each_ten_seconds_is_not_thrown_out(
    server: RunningServer, client: Client, begin: Callable[..., Driver]
) -> None:
    drivers = [begin(language) for language in (_python, _typescript, _go)]
    for it in drivers:
        it.do(connect=server.target, options={"pingMs": 10_000})
        it.do(watch=True, until="conversationList")
    quiet = threading.Event()
    quiet.wait(45)
    client.conversations.create("web")
    for it in drivers:
        assert it.do(until="conversationCreated")[-1]["conversation_created"]
        assert it.do(connections=True) == [True]
