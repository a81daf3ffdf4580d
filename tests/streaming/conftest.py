"""Subscribers that bare gRPC makes, and the six words, held against what every one of them saw."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect.v1.message_pb2 import Message
from recollect.v1.update_pb2 import Update

from tests.collector import Collector
from tests.conftest import RunningServer
from tests.server.conftest import Service
from tests.spread import channel_to
from tests.streaming import checkers


class Subscriber(Collector[Update]):
    """A subscriber with bare gRPC, which collects what it is told in a thread of its own."""

    def __init__(self, target: str, **fields: Any) -> None:
        super().__init__()
        self.fields = fields
        self.runs: list[list[Update]] = []
        self.elements = 0
        self._channel = channel_to(target, [("grpc.use_local_subchannel_pool", 1)])
        self._connect(fields)

    def _connect(self, fields: dict[str, Any]) -> None:
        self.runs.append([])
        stub = ConversationServiceStub(self._channel)
        self.read(stub.StreamUpdates(api.StreamUpdatesRequest(**fields)))

    def add(self, response: api.StreamUpdatesResponse) -> None:
        self.elements += 1
        for update in (response.update, *response.following):
            self.updates.append(update)
            self.runs[-1].append(update)

    def ready(self) -> "Subscriber":
        """Wait for the snapshot, or for the end of the missed updates."""
        return self.until(
            lambda: (
                {"conversation_loaded", "heartbeat"}
                & {str(it.WhichOneof("kind")) for it in self.runs[-1]}
            )
        )

    def ended(self) -> "Subscriber":
        """Wait until the stream fails."""
        return self.until(lambda: self.error)

    def until_count(self, kind: str, count: int) -> list[Any]:
        """Wait for `count` updates of a kind, and return them."""
        self.until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)

    def of(self, kind: str) -> list[Any]:
        """Return the updates of a kind, in order."""
        return [
            getattr(update, kind) for update in self.updates if update.WhichOneof("kind") == kind
        ]

    def kinds(self, *, beats: bool = False) -> list[str]:
        """Return the kinds of the updates in order; heartbeats only with `beats`."""
        kinds = [str(update.WhichOneof("kind")) for update in self.updates]
        return [kind for kind in kinds if beats or kind != "heartbeat"]

    def messages(self) -> list[str]:
        """Return the contents of the received messages, in order."""
        return [
            message.content
            for updated in self.of("conversation_updated")
            for message in updated.messages
        ]

    @property
    def cursor(self) -> str:
        """The last cursor that it was told."""
        return next(update.cursor for update in reversed(self.updates) if update.cursor)

    def resume(self, target: str | None = None) -> None:
        """Reconnect with the last cursor, to another server if one is named."""
        self.drop()
        if target is not None:
            self._channel.close()
            self._channel = channel_to(target, [("grpc.use_local_subchannel_pool", 1)])
        self._connect(self.fields | {"cursor": self.cursor})

    def forget(self, count: int) -> None:
        """Disconnect, and forget all but the first `count` updates."""
        self.drop()
        del self.updates[count:]
        for run in self.runs:
            del run[count:]
            count -= len(run)

    def close(self) -> None:
        self.drop()
        self._channel.close()


class Recorder(Service):
    """A service that remembers what it acknowledged."""

    def __init__(self, target: str, written: list[checkers.Written]) -> None:
        super().__init__(target)
        self.written = written
        self.channels: dict[str, str] = {}

    def create(self, channel: str = "web", **fields: Any) -> Any:
        conversation = super().create(channel, **fields)
        self.channels[conversation.id] = channel
        return conversation

    def append(
        self, conversation_id: str, *messages: Message, **fields: Any
    ) -> api.AppendTurnResponse:
        answer = super().append(conversation_id, *messages, **fields)
        if answer.cursor and not answer.duplicate:
            self.written.append(checkers.written(answer))
        return answer

    def publish(
        self, conversation_id: str, draft_id: str, offset: int, text: str, *, done: bool = False
    ) -> None:
        request = api.PublishDeltaRequest(
            conversation_id=conversation_id, draft_id=draft_id, offset=offset, text=text, done=done
        )
        self.conversations.PublishDelta(request)


@dataclass
class Watched:
    """Updates of a test's subscribers, and the writes meanwhile."""

    subscribers: list[Subscriber] = field(default_factory=list)
    written: list[checkers.Written] = field(default_factory=list)
    recorders: list[Recorder] = field(default_factory=list)

    def check(self) -> None:
        """Check the six guarantees for every subscriber. One that never dropped is the reference
        for the others.
        """
        channels = {
            name: channel
            for recorder in self.recorders
            for name, channel in recorder.channels.items()
        }
        runs = [
            [[checkers.received(update) for update in run] for run in it.runs]
            for it in self.subscribers
        ]
        whole = next(
            (
                them[0]
                for it, them in zip(self.subscribers, runs, strict=True)
                if len(them) == 1 and not it.fields
            ),
            None,
        )
        for subscriber, of_subscriber in zip(self.subscribers, runs, strict=True):

            def wants(name: str, fields: dict[str, Any] = subscriber.fields) -> bool:
                return name in fields.get("conversation_ids", [name]) and (
                    not fields.get("channels") or channels.get(name) in fields["channels"]
                )

            filtered = {"conversation_ids", "channels"} & subscriber.fields.keys()
            checkers.check(of_subscriber, self.written, None if filtered else whole, wants)


@pytest.fixture
def watched() -> Iterator[Watched]:
    """Close the subscribers of a test, and check the six guarantees on their updates."""
    it = Watched()
    yield it
    for subscriber in it.subscribers:
        subscriber.close()
    for recorder in it.recorders:
        recorder.channel.close()
    it.check()


@pytest.fixture
def subscribe(request: pytest.FixtureRequest, watched: Watched) -> Callable[..., Subscriber]:
    """Return a function that subscribes to `server`, or to another by `target`."""

    def to(target: str = "", **fields: Any) -> Subscriber:
        watched.subscribers.append(
            Subscriber(target or request.getfixturevalue("server").target, **fields)
        )
        return watched.subscribers[-1]

    return to


@pytest.fixture
def record(watched: Watched) -> Callable[[RunningServer], Recorder]:
    """Return a function that records the writes to servers that a test starts itself."""

    def of(server: RunningServer) -> Recorder:
        watched.recorders.append(Recorder(server.target, watched.written))
        return watched.recorders[-1]

    return of


@pytest.fixture
def service(server: RunningServer, record: Callable[[RunningServer], Recorder]) -> Recorder:
    """Return the service of `server`."""
    return record(server)
