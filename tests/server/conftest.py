"""What the server's tests share: the service as a caller without a client library sees it, and
looks behind it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
        self.channel = grpc.insecure_channel(
            target, options=[("grpc.max_receive_message_length", -1)]
        )
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
        self, conversation_id: str, said: str, answered: str = "Noted."
    ) -> api.AppendTurnResponse:
        """A turn of two messages."""
        return self.append(conversation_id, user(said), agent(answered))

    def told(self, *contents: str, channel: str = "web", **fields: Any) -> str:
        """A new conversation with a turn of one user message for each content; its id."""
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
        """All pages of a list."""
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
        """The ids of the conversations that a search answers, best first."""
        return [result.conversation_id for result in self.search(query, **fields).results]

    def recent(self, **fields: Any) -> recall_api.RecentResponse:
        return self.recall.Recent(recall_api.RecentRequest(**fields))

    def context(self, conversation_id: str, **fields: Any) -> recall_api.FetchContextResponse:
        return self.recall.FetchContext(
            recall_api.FetchContextRequest(conversation_id=conversation_id, **fields)
        )


Connect = Callable[[RunningServer], Service]
"""What the fixture `connect` is."""


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connects to servers, those too that a test starts again."""
    services: list[Service] = []

    def to(server: RunningServer) -> Service:
        services.append(Service(server.target))
        return services[-1]

    yield to
    for service in services:
        service.channel.close()


@pytest.fixture
def service(server: RunningServer, connect: Connect) -> Service:
    """The service of `server`."""
    return connect(server)


@dataclass(frozen=True)
class Failure:
    """How a call failed, as a caller sees it."""

    code: str
    reason: str
    text: str
    domain: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    """What BadRequest names."""
    retry_ms: int | None = None


def failure_of(call: Callable[[], object]) -> Failure:
    """Makes a call that must fail, and says how it did."""
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return failure_in(raised.value)


def failure_in(error: Any) -> Failure:
    """What an error of a call says."""
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
    """Makes a call, and says with which code it ended."""
    try:
        call()
    except grpc.RpcError as error:
        return str(cast(grpc.Call, error).code().name)
    return "OK"


def at_once(count: int, job: Callable[[int], T]) -> list[T]:
    """Runs a job in so many threads, all let go at the same moment; what each returned, in
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
    """`recollect-server serve` as a process of its own, and the address that it says it listens
    on.
    """
    arguments = ["serve", "--listen", "127.0.0.1:0", "--data-dir", str(data_dir), *flags]
    with Forked(SERVER, arguments) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said.startswith("Recollect listens on 127.0.0.1:"), said
            yield process, said.split()[3]
        finally:
            process.kill()


def bytes_under(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but SQLite's shared memory, which readers write too."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    }


def kept_by(service: Service, server: RunningServer) -> dict[str, bytes]:
    """Every file of a running server, once what was acknowledged is in the index too."""
    service.listed(page_size=1)
    return bytes_under(server.data_dir)


def refused(
    service: Service,
    server: RunningServer,
    call: Callable[[], object],
    *fields: str,
    reason: str = "INVALID_FIELD",
) -> None:
    """The call is refused with these fields' names, and no file has changed."""
    kept = kept_by(service, server)
    failure = failure_of(call)
    assert (failure.code, failure.reason, failure.domain) == (
        "INVALID_ARGUMENT",
        reason,
        "recollect",
    )
    assert failure.fields == fields
    assert all(field in failure.text for field in fields)
    assert kept_by(service, server) == kept


def files_with(folder: Path, *words: str) -> list[str]:
    """The files below a folder, SQLite's shared memory too, that have one of the words somewhere in
    their bytes.
    """
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes().lower() if path.is_file() else b""
        found += [f"{path.name}: {word}" for word in words if word.lower().encode() in data]
    return found


def answers(service: Service, queries: Sequence[str]) -> dict[str, object]:
    """Everything that the service answers about what it keeps."""
    said: dict[str, object] = {}

    def keep(name: str, answer: ProtoMessage) -> None:
        said[name] = answer

    for number, page in enumerate(service.pages(page_size=3)):
        said[f"list {number}"] = page
        for conversation in page:
            name = conversation.id
            keep(f"get {name}", service.get(name))
            keep(f"load {name}", service.load(name))
            keep(f"history {name}", service.load(name, before_turn=3, max_turns=1))
            keep(f"context {name}", service.context(name))
    for query in queries:
        keep(f"search {query}", service.search(query, explain=True))
    keep("recent", service.recent(limit=100))
    return said


def delete_index(server: RunningServer) -> None:
    """Deletes the index of a stopped server."""
    assert server.stopped
    for path in server.folder.glob("conversations.db*"):
        path.unlink()


def transcript(server: RunningServer, conversation_id: str) -> Path:
    return server.folder / f"{conversation_id}.jsonl"
