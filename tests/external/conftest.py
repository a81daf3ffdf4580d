"""Messages of third parties, and the service as an owner's panel calls it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message as ProtoMessage
from recollect.v1 import external_communication_service_pb2 as api
from recollect.v1.channel_pb2 import DiscordOrigin, EmailOrigin, WhatsappOrigin
from recollect.v1.channel_service_pb2 import ReceiveRequest
from recollect.v1.channel_service_pb2_grpc import ChannelServiceStub
from recollect.v1.external_communication_pb2 import (
    TRUST_BLOCKED,
    TRUST_KNOWN,
    TRUST_UNTRUSTED,
    CommunicationUpdate,
    Escalation,
    ExternalCommunication,
    ExternalMessage,
)
from recollect.v1.external_communication_service_pb2_grpc import ExternalCommunicationServiceStub
from recollect.v1.message_pb2 import Attachment

from tests.collector import Collector
from tests.conftest import RunningServer, Start
from tests.server.conftest import Service, moment

UNTRUSTED, KNOWN, BLOCKED = TRUST_UNTRUSTED, TRUST_KNOWN, TRUST_BLOCKED
NOWHERE = "ext-01J00000000000000000000000"
"""A well-formed name that no communication has."""
UNASKED = "esc-01J00000000000000000000000"
"""A well-formed name that no escalation has."""


@dataclass(frozen=True)
class Delivered:
    """Outcome of a third party's message."""

    communication: ExternalCommunication
    message: ExternalMessage
    escalation: Escalation | None
    duplicate: bool


def deliver(gateway: ChannelServiceStub, channel: str, **fields: Any) -> Delivered:
    """Deliver a message of a third party as a gateway does. Raises grpc.RpcError."""
    origins: dict[str, dict[str, Any]] = {
        "whatsapp": {"whatsapp": WhatsappOrigin()},
        "email": {"email": EmailOrigin(message_id=fields["provider_message_id"])},
        "discord": {"discord": DiscordOrigin(dm_user_id=fields["sender"])},
    }
    origin = origins.get(channel, {})
    answer = gateway.Receive(ReceiveRequest(channel=channel, **fields, **origin))
    it = answer.external
    escalation = it.escalation if it.HasField("escalation") else None
    return Delivered(it.communication, it.message, escalation, answer.duplicate)


class Outside:
    """Third parties that write to a running server, and its owner's panel."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.channel = grpc.insecure_channel(server.target)
        self.rpc = ExternalCommunicationServiceStub(self.channel)
        self.gateway = ChannelServiceStub(self.channel)
        self._count = 0

    def write(
        self,
        text: str = "Hello?",
        *,
        party: str = "1555000",
        channel: str = "whatsapp",
        delivered: str = "",
        attachments: tuple[Attachment, ...] = (),
        time: int | None = None,
    ) -> Delivered:
        """Send a message of a third party; `delivered` is its provider's id of it, by default a new
        one.
        """
        self._count += 1
        return deliver(
            self.gateway,
            channel,
            sender=party,
            provider_message_id=delivered or f"wamid-{self._count}",
            text=text,
            attachments=attachments,
            time=None if time is None else moment(time),
        )

    def listed(self, **fields: Any) -> list[ExternalCommunication]:
        return list(
            self.rpc.ListCommunications(api.ListCommunicationsRequest(**fields)).communications
        )

    def get(self, name: str, **fields: Any) -> api.GetCommunicationResponse:
        return self.rpc.GetCommunication(
            api.GetCommunicationRequest(communication_id=name, **fields)
        )

    def messages(self, name: str) -> list[ExternalMessage]:
        """Return the messages, oldest first."""
        return list(self.get(name, page_size=500).messages)[::-1]

    def texts(self, name: str) -> list[str]:
        """Return the texts of both sides, oldest first."""
        return [message.text for message in self.messages(name)]

    def trust(self, name: str, trust: int, *scopes: str, **fields: Any) -> ExternalCommunication:
        request = api.SetTrustRequest(communication_id=name, trust=trust, scopes=scopes, **fields)  # type: ignore[arg-type]
        return self.rpc.SetTrust(request).communication

    def reply(self, name: str, text: str = "Yes.", **fields: Any) -> api.RecordReplyResponse:
        return self.rpc.RecordReply(
            api.RecordReplyRequest(communication_id=name, text=text, **fields)
        )

    def delete(self, *names: str, **fields: Any) -> api.DeleteCommunicationsResponse:
        request = api.DeleteCommunicationsRequest(communication_ids=names, **fields)
        return self.rpc.DeleteCommunications(request)

    def redact(self, name: str, sequence: int, **fields: Any) -> api.RedactExternalMessageResponse:
        request = api.RedactExternalMessageRequest(
            communication_id=name, sequence=sequence, **fields
        )
        return self.rpc.RedactExternalMessage(request)

    def escalations(self, **fields: Any) -> list[Escalation]:
        return list(self.rpc.ListEscalations(api.ListEscalationsRequest(**fields)).escalations)

    def resolve(self, name: str, answer: str = "Say yes.", **fields: Any) -> Escalation:
        request = api.ResolveEscalationRequest(escalation_id=name, answer=answer, **fields)
        return self.rpc.ResolveEscalation(request).escalation


Meet = Callable[[RunningServer], Outside]


@pytest.fixture
def meet() -> Iterator[Meet]:
    """Return a function that gives third parties access to a server, restarted ones too."""
    met: list[Outside] = []

    def with_(server: RunningServer) -> Outside:
        met.append(Outside(server))
        return met[-1]

    yield with_
    for outside in met:
        outside.channel.close()


@pytest.fixture
def server(start_server: Start) -> RunningServer:
    """Start a server that takes in whatever strangers write at once."""
    return start_server(sender_rate=0)


@pytest.fixture
def outside(server: RunningServer, meet: Meet) -> Outside:
    """Return the third parties of `server`."""
    return meet(server)


@pytest.fixture
def service(server: RunningServer) -> Iterator[Service]:
    """Connect to the conversations of `server`."""
    service = Service(server.target)
    yield service
    service.channel.close()


def folder_of(server: RunningServer) -> Path:
    """Return the folder with the transcripts of third parties."""
    return server.data_dir / server.settings.space / "external"


def transcript(server: RunningServer, name: str) -> Path:
    return folder_of(server) / f"{name}.jsonl"


def answers(outside: Outside) -> dict[str, ProtoMessage]:
    """Return all answers of the service about third parties."""
    responses: dict[str, ProtoMessage] = {}
    responses["list"] = outside.rpc.ListCommunications(api.ListCommunicationsRequest(page_size=500))
    responses["waiting"] = outside.rpc.ListCommunications(
        api.ListCommunicationsRequest(open_escalations_only=True)
    )
    responses["escalations"] = outside.rpc.ListEscalations(
        api.ListEscalationsRequest(page_size=500, include_resolved=True)
    )
    responses["open"] = outside.rpc.ListEscalations(api.ListEscalationsRequest(page_size=500))
    for communication in outside.listed(page_size=500):
        responses[communication.id] = outside.get(communication.id, page_size=500)
        responses[f"{communication.id} escalations"] = outside.rpc.ListEscalations(
            api.ListEscalationsRequest(communication_id=communication.id, include_resolved=True)
        )
    return responses


class Panel(Collector[CommunicationUpdate]):
    """A panel with bare gRPC, which collects what it is told in a thread of its own."""

    def __init__(self, target: str, cursor: str = "") -> None:
        super().__init__()
        self._channel = grpc.insecure_channel(
            target, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        stub = ExternalCommunicationServiceStub(self._channel)
        self.read(
            stub.StreamCommunicationUpdates(api.StreamCommunicationUpdatesRequest(cursor=cursor))
        )

    def add(self, response: api.StreamCommunicationUpdatesResponse) -> None:
        self.updates.append(response.update)

    def ready(self) -> "Panel":
        """Wait for the snapshot, or for the end of the missed updates."""
        return self.until(
            lambda: (
                {"communication_list", "heartbeat"}
                & {str(it.WhichOneof("kind")) for it in self.updates}
            )
        )

    def until_count(self, count: int) -> "Panel":
        """Wait for `count` updates besides heartbeats."""
        return self.until(lambda: len(self.kinds()) >= count)

    def kinds(self) -> list[str]:
        """Return the kinds of the updates in order, without heartbeats, as in `message Hello?`."""
        kinds = []
        for update in self.updates:
            kind = str(update.WhichOneof("kind"))
            if kind == "communication_message":
                kinds.append(f"message {update.communication_message.message.text}")
            elif kind == "communication_escalated":
                kinds.append(
                    f"escalated {update.communication_escalated.escalation.answer}".strip()
                )
            elif kind != "heartbeat":
                kinds.append(kind.removeprefix("communication_"))
        return kinds

    @property
    def cursor(self) -> str:
        """The last that it was told."""
        return self.updates[-1].cursor

    def close(self) -> None:
        self.drop()
        self._channel.close()


Watch = Callable[..., Panel]


@pytest.fixture
def watch(request: pytest.FixtureRequest) -> Iterator[Watch]:
    """Return a function that opens panels, of `server` or of another."""
    panels: list[Panel] = []

    def open_(cursor: str = "", server: RunningServer | None = None) -> Panel:
        running = server or request.getfixturevalue("server")
        panels.append(Panel(running.target, cursor))
        return panels[-1]

    yield open_
    for panel in panels:
        panel.close()


def assert_refused(panel: Panel) -> None:
    panel.until(lambda: panel.error)
    failed: Any = panel.error
    assert failed.code().name == "INVALID_ARGUMENT"
    assert "cursor" in failed.details()
    assert panel.updates == []
