"""What the tests of external communications share: what third parties send, and the service as an owner's panel calls it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message as ProtoMessage
from recollect.v1 import external_communication_service_pb2 as api
from recollect.v1.external_communication_pb2 import (
    TRUST_BLOCKED,
    TRUST_KNOWN,
    TRUST_UNTRUSTED,
    Escalation,
    ExternalCommunication,
    ExternalMessage,
)
from recollect.v1.external_communication_service_pb2_grpc import ExternalCommunicationServiceStub
from recollect_server.domain.message import Attachment
from recollect_server.services.external.external import Received

from tests.conftest import RunningServer
from tests.server.conftest import Service

UNTRUSTED, KNOWN, BLOCKED = TRUST_UNTRUSTED, TRUST_KNOWN, TRUST_BLOCKED
NOWHERE = "ext-01J00000000000000000000000"
"""A well-formed name that no communication has."""
UNASKED = "esc-01J00000000000000000000000"
"""A well-formed name that no escalation has."""


class Outside:
    """Third parties that write to a running server, and its owner's panel."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.channel = grpc.insecure_channel(server.target)
        self.rpc = ExternalCommunicationServiceStub(self.channel)
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
    ) -> Received:
        """A third party writes; `delivered` is its provider's id of the message, by default a new one."""
        self._count += 1
        return self.server.app.external.receive(channel, party, delivered or f"wamid-{self._count}", text, attachments, time)

    def listed(self, **fields: Any) -> list[ExternalCommunication]:
        return list(self.rpc.ListCommunications(api.ListCommunicationsRequest(**fields)).communications)

    def get(self, name: str, **fields: Any) -> api.GetCommunicationResponse:
        return self.rpc.GetCommunication(api.GetCommunicationRequest(communication_id=name, **fields))

    def messages(self, name: str) -> list[ExternalMessage]:
        """Oldest first."""
        return list(self.get(name, page_size=500).messages)[::-1]

    def texts(self, name: str) -> list[str]:
        """What was written and answered, oldest first."""
        return [message.text for message in self.messages(name)]

    def trust(self, name: str, trust: int, *scopes: str, **fields: Any) -> ExternalCommunication:
        request = api.SetTrustRequest(communication_id=name, trust=trust, scopes=scopes, **fields)  # type: ignore[arg-type]
        return self.rpc.SetTrust(request).communication

    def reply(self, name: str, text: str = "Yes.", **fields: Any) -> api.RecordReplyResponse:
        return self.rpc.RecordReply(api.RecordReplyRequest(communication_id=name, text=text, **fields))

    def escalations(self, **fields: Any) -> list[Escalation]:
        return list(self.rpc.ListEscalations(api.ListEscalationsRequest(**fields)).escalations)

    def resolve(self, name: str, answer: str = "Say yes.", **fields: Any) -> Escalation:
        request = api.ResolveEscalationRequest(escalation_id=name, answer=answer, **fields)
        return self.rpc.ResolveEscalation(request).escalation


Meet = Callable[[RunningServer], Outside]


@pytest.fixture
def meet() -> Iterator[Meet]:
    """The outside of servers, those too that a test starts again."""
    met: list[Outside] = []

    def with_(server: RunningServer) -> Outside:
        met.append(Outside(server))
        return met[-1]

    yield with_
    for outside in met:
        outside.channel.close()


@pytest.fixture
def outside(server: RunningServer, meet: Meet) -> Outside:
    """The outside of `server`."""
    return meet(server)


@pytest.fixture
def service(server: RunningServer) -> Iterator[Service]:
    """The conversations of `server`."""
    service = Service(server.target)
    yield service
    service.channel.close()


def folder_of(server: RunningServer) -> Path:
    """Where the transcripts of third parties are."""
    return server.data_dir / server.settings.space / "external"


def transcript(server: RunningServer, name: str) -> Path:
    return folder_of(server) / f"{name}.jsonl"


def answers(outside: Outside) -> dict[str, ProtoMessage]:
    """Everything that the service answers about third parties."""
    said: dict[str, ProtoMessage] = {}
    said["list"] = outside.rpc.ListCommunications(api.ListCommunicationsRequest(page_size=500))
    said["waiting"] = outside.rpc.ListCommunications(api.ListCommunicationsRequest(open_escalations_only=True))
    said["escalations"] = outside.rpc.ListEscalations(api.ListEscalationsRequest(page_size=500, include_resolved=True))
    said["open"] = outside.rpc.ListEscalations(api.ListEscalationsRequest(page_size=500))
    for communication in outside.listed(page_size=500):
        said[communication.id] = outside.get(communication.id, page_size=500)
        said[f"{communication.id} escalations"] = outside.rpc.ListEscalations(
            api.ListEscalationsRequest(communication_id=communication.id, include_resolved=True)
        )
    return said
