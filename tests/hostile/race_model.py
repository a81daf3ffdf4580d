"""The model of what races of callers must leave behind, and callers that tell it what was
acknowledged.
"""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import Message as ProtoMessage
from recollect.v1 import channel_service_pb2 as channel_api
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.channel_service_pb2_grpc import ChannelServiceStub
from recollect.v1.checkpoint_service_pb2_grpc import CheckpointServiceStub
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect.v1.external_communication_service_pb2_grpc import ExternalCommunicationServiceStub
from recollect.v1.message_pb2 import ROLE_ASSISTANT, ROLE_USER, Message, ToolCall
from recollect.v1.recall_service_pb2_grpc import RecallServiceStub

from tests.spread import channel_to
from tests.streaming import checkers

LONGEST = 60.0  # seconds after which a call counts as one that hangs
REFUSALS = {
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
KEPT = [f"conv-01J0000000000000000000000{number}" for number in range(2)]
"""Ids that are given by hand, so that a conversation comes back after it was deleted."""
GIVES_WAY = {grpc.StatusCode.UNAVAILABLE}
"""Codes of a call that gave way to those of another server too often: it is repeated."""
TOMBSTONE = "[redacted]"
PERSONS = ["+1 555-000", "+1 555-001", "+49 170 999"]
KEYS = ["tea", "city"]
THREADS = ["run-one", "run-two"]


@dataclass(frozen=True)
class Appended:
    """Messages that a server acknowledged: their lines and their words."""

    conversation_id: str
    lines: tuple[tuple[int, str], ...]


@dataclass
class Model:
    """Acknowledged changes of all callers."""

    ids: list[str] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    appends: dict[str, set[Appended]] = field(default_factory=lambda: defaultdict(set))
    """By request id: more than one means that it was carried out twice."""
    redactions: set[tuple[str, int]] = field(default_factory=set)
    """Conversation and line of each message that somebody tried to redact."""
    redacted: set[tuple[str, int]] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    """Every word that was ever sent in a turn of a conversation."""
    removed: set[str] = field(default_factory=set)
    """Those that stand in no conversation any more."""
    is_shared: bool = False
    """True if several servers share one database."""
    written: list[checkers.Written] = field(default_factory=list)
    recent: list[tuple[Callable[..., Any], ProtoMessage]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    calls: int = 0
    codes: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class Racer:
    """A caller of one server, with a random order of calls, which a subclass has."""

    def __init__(self, model: Model, target: str, name: str, seed: str, clock: Any) -> None:
        self.model = model
        self.name = name
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self._clock = clock
        self._number = 0
        self._pause = threading.Event()
        self.channel = channel_to(target, [("grpc.use_local_subchannel_pool", 1)])
        self.talks = ConversationServiceStub(self.channel)
        self.recall = RecallServiceStub(self.channel)
        self.post = ChannelServiceStub(self.channel)
        self.threads = CheckpointServiceStub(self.channel)
        self.outside = ExternalCommunicationServiceStub(self.channel)
        self.calls: list[tuple[int, Callable[[], object]]] = []
        """Each with its weight."""

    def run(self, calls: int) -> None:
        """Make so many calls, or fewer if one fails that must not."""
        weights = [weight for weight, _ in self.calls]
        for _ in range(calls):
            if self.model.failures:
                return
            ((_, call),) = self.random.choices(self.calls, weights)
            try:
                call()
            except Exception as error:  # noqa: BLE001 - every failure is told with its caller
                self.model.failures.append(f"{self.name}: {call.__name__}: {error!r}")
                return
            if self._clock is not None and self.random.random() < 0.05:
                self._clock.move(self.random.choice([1, 1000, 60_000]))

    def call(self, method: Callable[..., Any], request: Any) -> Any:
        """Make a call, and return its answer, or None if it was refused as it may be."""
        with self.model.lock:
            self.model.calls += 1
            if getattr(request, "request_id", ""):
                self.model.recent.append((method, request))
                del self.model.recent[:-12]
        end = time.monotonic() + LONGEST
        while True:
            try:
                answer = method(request, timeout=LONGEST)
                break
            except grpc.RpcError as error:
                refusal: Any = error
            code = refusal.code()
            with self.model.lock:
                self.model.codes[f"{type(request).__name__} {code.name}"] += 1
            if self.model.is_shared and code in GIVES_WAY and time.monotonic() < end:
                self._pause.wait(0.02)
                continue
            if code not in REFUSALS:
                sent = " ".join(str(request).split())[:300]
                self.model.failures.append(
                    f"{self.name}: {type(request).__name__} {sent}: {code.name} {refusal.details()}"
                )
            return None
        with self.model.lock:
            self.model.codes[type(request).__name__] += 1
        self.seen(request, answer)
        return answer

    def seen(self, request: Any, answer: Any) -> None:
        """Note what an answer acknowledges."""
        model = self.model
        with model.lock:
            match answer:
                case api.AppendTurnResponse() | api.CreateResponse():
                    name = answer.conversation.id
                    self._begun(name)
                    self._stored(request.request_id, name, answer.messages)
                    if not isinstance(answer, api.CreateResponse) and not answer.duplicate:
                        model.written += [checkers.written(answer)] if answer.cursor else []
                case api.ForkResponse():
                    self._begun(answer.conversation.id)
                case api.RedactMessageResponse():
                    model.redacted |= {
                        (answer.conversation.id, it.sequence) for it in answer.messages
                    }
                    model.redactions |= model.redacted
                case api.DeleteResponse():
                    model.deleted.add(answer.conversation_id)
                case api.DeleteManyResponse():
                    model.deleted |= set(answer.conversation_ids)
                case channel_api.ReceiveResponse():
                    if answer.HasField("conversation"):
                        stored = answer.conversation
                        self._begun(stored.conversation.id)
                        # an id is the sender's own at the place that it comes from
                        place = request.cli.session_name or request.web.conversation_id
                        request_id = (
                            f"{request.channel} {request.sender} {place} "
                            f"{request.provider_message_id}"
                        )
                        self._stored(request_id, stored.conversation.id, stored.messages)
                    elif answer.HasField("command_reply"):
                        self._begun(answer.command_reply.conversation.id)
                case channel_api.RunCommandResponse():
                    self._begun(answer.conversation.id)
                case _:
                    pass

    def _begun(self, name: str) -> None:
        if name and name not in self.model.ids:
            self.model.ids.append(name)

    def _stored(self, request_id: str, name: str, messages: Iterable[Message]) -> None:
        lines = tuple((it.sequence, it.content) for it in messages)
        if lines and request_id:
            self.model.appends[request_id].add(Appended(name, lines))

    def word(self) -> str:
        """Return a word that nobody sent before."""
        self._number += 1
        return f"zq{self.name}x{self._number}z"

    def request_id(self) -> str:
        """Return a new request id, seldom none, seldom one that another call has."""
        chance = self.random.random()
        if chance < 0.03 and self.model.recent:
            return str(self.random.choice(self.model.recent)[1].request_id)  # type: ignore[attr-defined]
        self._number += 1
        return f"r{self.name}-{self._number}"

    def conversation(self) -> str:
        """Return a conversation, mostly one of the newest few."""
        ids = self.model.ids
        if not ids or self.random.random() < 0.2:
            return self.random.choice(KEPT)
        if self.random.random() < 0.1:
            return self.random.choice(ids)
        return self.random.choice(ids[-5:])

    def said(self) -> list[Message]:
        """Return messages of a turn, each with a word of its own."""
        messages = [Message(role=ROLE_USER, content=self.word())]
        if self.random.random() < 0.5:
            call = [ToolCall(id="c1", name="look")]
            chance = self.random.random() < 0.3
            messages.append(
                Message(role=ROLE_ASSISTANT, content=self.word(), tool_calls=call if chance else ())
            )
        if self.random.random() < 0.2:
            messages = [Message(role=ROLE_ASSISTANT, content=self.word())]
        with self.model.lock:
            self.model.words |= {it.content for it in messages}
        return messages
