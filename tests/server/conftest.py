"""The service as a caller without a client library sees it, and its files."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import grpc
import pytest
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect.v1.conversation_pb2 import Conversation
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect.v1.message_pb2 import ROLE_ASSISTANT, ROLE_TOOL, ROLE_USER, Message
from recollect.v1.recall_service_pb2_grpc import RecallServiceStub

from tests.conftest import RunningServer
from tests.programs import SERVER, Forked
from tests.spread import channel_to

T = TypeVar("T")

UNKNOWN = "conv-01J00000000000000000000000"
"""A well-formed name that no conversation has."""


def user(content: str, **fields: Any) -> Message:
    return Message(role=ROLE_USER, content=content, **fields)


def agent(content: str, **fields: Any) -> Message:
    return Message(role=ROLE_ASSISTANT, content=content, **fields)


def tool(call_id: str, content: str = "", **fields: Any) -> Message:
    return Message(role=ROLE_TOOL, tool_call_id=call_id, content=content, **fields)


def moment(milliseconds: int) -> Timestamp:
    return Timestamp(seconds=milliseconds // 1000, nanos=milliseconds % 1000 * 1_000_000)


class Service:
    """Bare calls of a running server."""

    def __init__(self, target: str) -> None:
        self.channel = channel_to(target, [("grpc.max_receive_message_length", -1)])
        self.conversations = ConversationServiceStub(self.channel)
        self.recall = RecallServiceStub(self.channel)

    def create(self, channel: str = "web", **fields: Any) -> Conversation:
        return self.conversations.Create(api.CreateRequest(channel=channel, **fields)).conversation

    def append(
        self, conversation_id: str, *messages: Message, **fields: Any
    ) -> api.AppendTurnResponse:
        return self.conversations.AppendTurn(
            api.AppendTurnRequest(conversation_id=conversation_id, messages=messages, **fields)
        )

    def turn(
        self, conversation_id: str, question: str, answer: str = "Noted."
    ) -> api.AppendTurnResponse:
        """Append a turn of two messages."""
        return self.append(conversation_id, user(question), agent(answer))

    def conversation_of(self, *contents: str, channel: str = "web", **fields: Any) -> str:
        """Begin a conversation with one user message per turn, and return its id."""
        conversation_id = self.create(channel, **fields).id
        for content in contents:
            self.append(conversation_id, user(content))
        return conversation_id

    def get(self, conversation_id: str) -> Conversation:
        return self.conversations.Get(api.GetRequest(conversation_id=conversation_id)).conversation

    def load(self, conversation_id: str = "", **fields: Any) -> api.LoadResponse:
        return self.conversations.Load(api.LoadRequest(conversation_id=conversation_id, **fields))

    def rename(self, conversation_id: str, title: str, **fields: Any) -> Conversation:
        request = api.RenameRequest(conversation_id=conversation_id, title=title, **fields)
        return self.conversations.Rename(request).conversation

    def compress(
        self, conversation_id: str, through: int, summary: str, **fields: Any
    ) -> Conversation:
        request = api.RecordCompressionRequest(
            conversation_id=conversation_id, compressed_through=through, summary=summary, **fields
        )
        return self.conversations.RecordCompression(request).conversation

    def abbreviate(
        self, conversation_id: str, text: str, topics: Sequence[str] = (), **fields: Any
    ) -> Conversation:
        request = api.RecordAbbreviationRequest(
            conversation_id=conversation_id, text=text, topics=topics, **fields
        )
        return self.conversations.RecordAbbreviation(request).conversation

    def switch(self, left: str, following: str = "") -> api.SwitchResponse:
        return self.conversations.Switch(
            api.SwitchRequest(from_conversation_id=left, to_conversation_id=following)
        )

    def delete(self, conversation_id: str, **fields: Any) -> api.DeleteResponse:
        return self.conversations.Delete(
            api.DeleteRequest(conversation_id=conversation_id, **fields)
        )

    def listed(self, **fields: Any) -> api.ListResponse:
        return self.conversations.List(api.ListRequest(**fields))

    def pages(self, **fields: Any) -> list[list[Conversation]]:
        """Return all pages of a list."""
        pages: list[list[Conversation]] = []
        token = ""
        while True:
            page = self.listed(page_token=token, **fields)
            pages.append(list(page.conversations))
            token = page.next_page_token
            if not token:
                return pages

    def search(self, query: str, **fields: Any) -> recall_api.SearchResponse:
        return self.recall.Search(recall_api.SearchRequest(query=query, **fields))

    def found(self, query: str, **fields: Any) -> list[str]:
        """Return the ids of the conversations that a search returns, best first."""
        return [result.conversation_id for result in self.search(query, **fields).results]

    def recent(self, **fields: Any) -> recall_api.RecentResponse:
        return self.recall.Recent(recall_api.RecentRequest(**fields))

    def context(self, conversation_id: str, **fields: Any) -> recall_api.FetchContextResponse:
        return self.recall.FetchContext(
            recall_api.FetchContextRequest(conversation_id=conversation_id, **fields)
        )


Connect = Callable[[RunningServer], Service]
"""Type of the fixture `connect`."""


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connect to servers, restarted ones too."""
    services: list[Service] = []

    def to(server: RunningServer) -> Service:
        services.append(Service(server.target))
        return services[-1]

    yield to
    for service in services:
        service.channel.close()


@pytest.fixture
def service(server: RunningServer, connect: Connect) -> Service:
    """Return the service of `server`."""
    return connect(server)


@dataclass(frozen=True)
class Failure:
    """Failure of a call as a caller sees it."""

    code: str
    reason: str
    text: str
    domain: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    """Fields that BadRequest names."""
    retry_ms: int | None = None


def failure_of(call: Callable[[], object]) -> Failure:
    """Return the failure of a call that must fail."""
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return failure_in(raised.value)


def failure_in(error: Any) -> Failure:
    """Return the failure that an error of a call describes."""
    status = rpc_status.from_call(error)
    info, bad, retry = (
        error_details_pb2.ErrorInfo(),
        error_details_pb2.BadRequest(),
        error_details_pb2.RetryInfo(),
    )
    waits = None
    for detail in status.details if status else ():
        detail.Unpack(info)
        detail.Unpack(bad)
        if detail.Unpack(retry):
            waits = retry.retry_delay.ToMilliseconds()
    return Failure(
        error.code().name,
        info.reason.removeprefix("ERROR_REASON_"),
        error.details(),
        info.domain,
        dict(info.metadata),
        tuple(violation.field for violation in bad.field_violations),
        waits,
    )


def code_of(call: Callable[[], object]) -> str:
    """Return the code with which a call ends."""
    try:
        call()
    except grpc.RpcError as error:
        return str(cast(grpc.Call, error).code().name)
    return "OK"


def at_once(count: int, job: Callable[[int], T]) -> list[T]:
    """Run a job in `count` threads that start at the same moment, and return their results in
    order.
    """
    barrier = threading.Barrier(count)

    def run(number: int) -> T:
        barrier.wait(30)
        return job(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@contextmanager
def server_process(data_dir: Path, *flags: str) -> Iterator[tuple[Forked, str]]:
    """Run `recollect-server serve` as a process of its own, and yield it with the address that it
    prints.
    """
    arguments = ["serve", "--listen", "127.0.0.1:0", "--data-dir", str(data_dir), *flags]
    with Forked(SERVER, arguments) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Recollect listens on 127.0.0.1:"), line
            yield process, line.split()[3]
        finally:
            process.kill()


def bytes_under(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder except SQLite's shared memory, which readers write too."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    }


def kept_by(service: Service, server: RunningServer) -> dict[str, bytes]:
    """Return every file of a running server, once all acknowledged changes are in the index."""
    for _ in range(1 if server.beside is None else 2):
        service.listed(page_size=1)
    return bytes_under(server.data_dir)


def assert_refused(
    service: Service,
    server: RunningServer,
    call: Callable[[], object],
    *fields: str,
    reason: str = "INVALID_FIELD",
) -> Failure:
    """Check that a call is refused with these fields' names, and that no file changes. Return the
    failure.
    """
    files = kept_by(service, server)
    failure = failure_of(call)
    assert (failure.code, failure.reason, failure.domain) == (
        "INVALID_ARGUMENT",
        reason,
        "recollect",
    )
    assert failure.fields == fields
    assert all(field in failure.text for field in fields)
    assert kept_by(service, server) == files
    return failure


def files_with(folder: Path, *words: str) -> list[str]:
    """Return the files below a folder, SQLite's shared memory included, whose bytes contain one of
    the words.
    """
    matches: list[str] = []
    for path in sorted(folder.rglob("*")):
        data = b""
        with suppress(FileNotFoundError):  # a running server removes files of its own
            data = path.read_bytes().lower() if path.is_file() else b""
        matches += [f"{path.name}: {word}" for word in words if word.lower().encode() in data]
    return matches


def answers(service: Service, queries: Sequence[str]) -> dict[str, object]:
    """Return all answers of the service about its data."""
    responses: dict[str, object] = {}

    def keep(name: str, answer: ProtoMessage) -> None:
        responses[name] = answer

    for number, page in enumerate(service.pages(page_size=3)):
        responses[f"list {number}"] = page
        for conversation in page:
            name = conversation.id
            keep(f"get {name}", service.get(name))
            keep(f"load {name}", service.load(name))
            keep(f"history {name}", service.load(name, before_turn=3, max_turns=1))
            keep(f"context {name}", service.context(name))
    for query in queries:
        keep(f"search {query}", service.search(query, explain=True))
    keep("recent", service.recent(limit=100))
    return responses


def delete_index(server: RunningServer) -> None:
    """Delete the index of a stopped server."""
    assert server.stopped
    for path in server.folder.glob("conversations.db*"):
        path.unlink()


def transcript(server: RunningServer, conversation_id: str) -> Path:
    return server.folder / f"{conversation_id}.jsonl"
