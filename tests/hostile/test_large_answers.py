"""Answers that would be large: each is bounded and says that there is more, and all together leave
the server its memory.
"""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from recollect import Client, Message
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect_server.kernel.index.messages import MessageTable

from tests.conftest import RunningServer, Start
from tests.crash.load import connected, process
from tests.server.conftest import Connect, Failure, Service, agent, failure_in, user
from tests.waiting import until

BOUND = 64 << 10
SLACK = 2 << 10
"""Bytes of an answer besides its items."""


@pytest.fixture
def bounded(start_server: Start) -> RunningServer:
    """Start a server whose answers may have 64 KiB."""
    return start_server(max_answer_bytes=BOUND, max_working_tokens=100_000_000)


@pytest.fixture
def small(bounded: RunningServer, connect: Connect) -> Service:
    """Return the service of `bounded`."""
    return connect(bounded)


def with_turns(service: Service, turns: int, messages: int = 2, size: int = 10 << 10) -> str:
    """Write a conversation of turns with messages of `size` bytes."""
    conversation_id = service.create().id
    for turn in range(turns):
        first, *rest = (f"{turn} {number} ".ljust(size, "x") for number in range(messages))
        service.append(conversation_id, user(first), *map(agent, rest))
    return conversation_id


def history(service: Service, conversation_id: str) -> Iterator[api.LoadResponse]:
    """Yield all pages of Load, newest first, requested as the contract says."""
    page = service.load(conversation_id, max_turns=1000)
    yield page
    while page.has_more:
        if page.cut_before_sequence:
            page = service.load(
                conversation_id, max_turns=1000, before_sequence=page.cut_before_sequence
            )
        else:
            page = service.load(
                conversation_id, max_turns=1000, before_turn=page.messages[0].turn_number
            )
        yield page


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize(
    ("turns", "messages", "size"), [(10, 2, 10 << 10), (2, 20, 10 << 10), (3, 2, 100 << 10)]
)
def test_pages_of_load_are_bounded_and_have_every_message_once(
    small: Service,
    monkeypatch: pytest.MonkeyPatch,
    turns: int,
    messages: int,
    size: int,
    indexed: bool,
) -> None:
    """Turns are whole, unless one alone is larger than an answer may be."""
    conversation_id = with_turns(small, turns, messages, size)
    if not indexed:
        _refuse_reads(monkeypatch)
    pages = list(history(small, conversation_id))
    assert all(page.ByteSize() <= BOUND + SLACK or len(page.messages) == 1 for page in pages)
    sequences = [message.sequence for page in reversed(pages) for message in page.messages]
    assert sequences == list(range(2, 2 + turns * messages))
    for page in pages:
        of_first = [
            it.sequence for it in page.messages if it.turn_number == page.messages[0].turn_number
        ]
        cut = (of_first[0] - 2) % messages > 0
        assert page.cut_before_sequence == (of_first[0] if cut else 0)


def _refuse_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the index unable to locate messages, so that the transcript is read."""
    from recollect_server.kernel.domain.errors import IndexUnavailable

    def refuse(*_: object, **__: object) -> None:
        raise IndexUnavailable("a test says so")

    monkeypatch.setattr(MessageTable, "tail", refuse)
    monkeypatch.setattr(MessageTable, "page_of_turns", refuse)


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize(
    ("turns", "messages", "size"), [(10, 2, 10 << 10), (2, 20, 10 << 10), (3, 2, 100 << 10)]
)
def test_fetched_turns_are_bounded_and_go_on_behind_the_last_line(
    small: Service,
    monkeypatch: pytest.MonkeyPatch,
    turns: int,
    messages: int,
    size: int,
    indexed: bool,
) -> None:
    conversation_id = with_turns(small, turns, messages, size)
    if not indexed:
        _refuse_reads(monkeypatch)
    sequences: list[int] = []
    more = True
    while more:
        request = recall_api.FetchContextRequest(
            conversation_id=conversation_id, after_sequence=sequences[-1] if sequences else 0
        )
        request.turn_range.first, request.turn_range.last = 1, 200
        page = small.recall.FetchContext(request)
        assert page.ByteSize() <= BOUND + SLACK or len(page.messages) == 1
        sequences += [message.sequence for message in page.messages]
        more = page.has_more
        if more and messages * size < BOUND:
            assert (sequences[-1] - 1) % messages == 0, "a turn was cut that fits"
    assert sequences == list(range(2, 2 + turns * messages))


def test_lists_end_their_page_where_an_answer_is_full(small: Service) -> None:
    names = []
    for number in range(12):
        names.append(small.conversation_of(f"zebra {number}"))
        small.abbreviate(names[-1], f"zebra notes {number} ".ljust(16_000, "n"))
    pages = list(small.pages(page_size=500))
    assert len(pages) > 2
    assert sorted(conversation.id for page in pages for conversation in page) == sorted(names)
    recent = small.recall.Recent(recall_api.RecentRequest(limit=100))
    assert recent.has_more
    assert recent.ByteSize() <= BOUND + SLACK
    answer = small.search("zebra", limit=100)
    assert answer.has_more
    assert answer.ByteSize() <= BOUND + SLACK
    assert answer.results
    assert not small.search("zebra", limit=1).has_more


def test_anchors_come_in_pages_and_the_client_reads_all(bounded: RunningServer) -> None:
    with Client(bounded.target) as client:
        keys = [f"key-{number:03}" for number in range(90)]
        for key in keys:
            client.recall.set_anchor(key, "v" * 990)
        assert [anchor.key for anchor in client.recall.list_anchors()] == keys


def test_a_context_is_bounded_whatever_its_budget(small: Service) -> None:
    conversation_id = with_turns(small, 10)
    request = recall_api.BuildContextRequest(conversation_id=conversation_id, message="zebra")
    request.budget.total = 10_000_000
    built = small.recall.BuildContext(request)
    assert built.ByteSize() <= BOUND + 8 * SLACK
    assert built.has_more
    assert built.hot[-1].message.sequence == 21
    assert built.dropped
    request.budget.total = 5000
    assert not small.recall.BuildContext(request).has_more


def test_a_snapshot_and_what_was_missed_are_sent_in_bounded_parts(small: Service) -> None:
    conversation_id = with_turns(small, 10)
    loaded = 0
    for element in small.conversations.StreamUpdates(api.StreamUpdatesRequest(max_turns=1000)):
        if element.update.HasField("conversation_loaded"):
            loaded = element.ByteSize()
            assert element.update.conversation_loaded.has_more
            break
    assert 0 < loaded <= BOUND + SLACK
    assert small.get(conversation_id).message_count == 20


def test_the_client_reads_a_whole_history_with_a_turn_that_is_larger_than_an_answer(
    bounded: RunningServer,
) -> None:
    from recollect._shared.history import read_history

    with Client(bounded.target) as client:
        conversation = client.conversations.create("web")
        texts = [
            Message.user("first"),
            *(Message.assistant(f"{number} ".ljust(9000, "x")) for number in range(30)),
            Message.user("last"),
        ]
        for message in texts:
            conversation = client.conversations.append_turn(conversation.id, [message]).conversation
        history = read_history(client.conversations.load, conversation)
        assert [message.content for message in history.messages] == [
            message.content for message in texts
        ]


@pytest.mark.timeout(900)
def test_parallel_large_reads_do_not_take_the_memory_of_the_machine(
    tmp_path: Path, scale: int
) -> None:
    """Eight Loads of 200 MiB took 4 GB, and kept it after the conversation was deleted."""
    mebibytes = 24 * min(scale, 8)
    with process(tmp_path) as server, connected(server.target) as service:
        conversation_id = service.create().id
        for number in range(mebibytes // 4):
            service.append(
                conversation_id,
                user("ask") if not number else agent("go on"),
                *[agent("x" * 1_040_000)] * 4,
            )
        service.listed(page_size=1)
        before = _resident(server.popen.pid)

        def load(number: int) -> int:
            fetch = recall_api.FetchContextRequest(conversation_id=conversation_id)
            return (
                service.load(conversation_id, max_turns=1000, max_tokens=1 << 30)
                if number % 2
                else service.recall.FetchContext(fetch)
            ).ByteSize()

        with ThreadPoolExecutor(16) as pool:
            sizes = list(pool.map(load, range(20 + 4 * scale)))
        assert max(sizes) <= (8 << 20) + SLACK
        grown = _peak(server.popen.pid) - before
        assert grown < 600 << 20, f"{grown >> 20} MiB more than before"
        service.delete(conversation_id)
        until(lambda: _resident(server.popen.pid) - before < 250 << 20)


def _status(pid: int, name: str) -> int:
    line = next(
        it for it in Path(f"/proc/{pid}/status").read_text().splitlines() if it.startswith(name)
    )
    return int(line.split()[1]) << 10


def _resident(pid: int) -> int:
    return _status(pid, "VmRSS")


def _peak(pid: int) -> int:
    return _status(pid, "VmHWM")


@contextmanager
def unread(target: str) -> Iterator[str]:
    """Yield an address whose callers send requests but never read the answers, which are held
    up.
    """
    host, port = target.rsplit(":", 1)
    listener = socket.create_server(("127.0.0.1", 0))
    ends: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection((host, int(port)))
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            ends.extend((caller, server))
            threading.Thread(target=_forward, args=(caller, server, None), daemon=True).start()
            # So much that the connection is made and calls are heard, and no more.
            threading.Thread(target=_forward, args=(server, caller, 2000), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
        for end in ends:
            end.close()


def _forward(source: socket.socket, target: socket.socket, most: int | None) -> None:
    with suppress(OSError):
        while (most is None or most > 0) and (data := source.recv(4096)):
            target.sendall(data)
            most = None if most is None else most - len(data)


@pytest.mark.timeout(300)
def test_callers_who_do_not_read_their_answers_cannot_fill_the_memory(
    start_server: Start, connect: Connect
) -> None:
    """Their answers keep their room until the calls are over. Others wait some seconds, and are
    told when to try again.
    """
    server = start_server(max_answer_bytes=1 << 20)
    service = connect(server)
    conversation_id = with_turns(service, 1, 1, 1_000_000)
    request = api.LoadRequest(conversation_id=conversation_id)
    with (
        unread(server.target) as target,
        grpc.insecure_channel(target, [("grpc.max_receive_message_length", -1)]) as channel,
    ):
        lazy = [ConversationServiceStub(channel).Load.future(request) for _ in range(40)]
        failure = until(lambda: _refusal(service, request))
        assert (failure.code, failure.reason) == ("RESOURCE_EXHAUSTED", "TOO_MANY_ANSWERS")
        assert failure.retry_ms
        for call in lazy:
            call.cancel()
    assert until(lambda: not _refusal(service, request))


def _refusal(service: Service, request: api.LoadRequest) -> Failure | None:
    try:
        service.conversations.Load(request)
    except grpc.RpcError as error:
        return failure_in(error)
    return None
