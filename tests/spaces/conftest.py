"""Callers that name a space."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grpc
import pytest
from recollect.v1.channel_service_pb2_grpc import ChannelServiceStub
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect.v1.external_communication_service_pb2_grpc import ExternalCommunicationServiceStub
from recollect.v1.recall_service_pb2_grpc import RecallServiceStub
from recollect_server.contract.gate import SPACE_KEY

from tests.server.conftest import Service


class _Details(NamedTuple):
    method: str
    timeout: float | None
    metadata: Any
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class _Naming(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    def __init__(self, space: str) -> None:
        self._space = space

    def intercept_unary_unary(
        self, continuation: Any, client_call_details: Any, request: Any
    ) -> Any:
        return continuation(self._named(client_call_details), request)

    intercept_unary_stream = intercept_unary_unary

    def _named(self, details: Any) -> _Details:
        metadata = [*(details.metadata or ()), (SPACE_KEY, self._space)]
        return _Details(
            details.method,
            details.timeout,
            metadata,
            details.credentials,
            None,
            details.compression,
        )


class InSpace(Service):
    """Bare calls about one space."""

    def __init__(self, target: str, space: str) -> None:
        super().__init__(target)
        self.space = space
        named = grpc.intercept_channel(self.channel, _Naming(space))
        self.conversations = ConversationServiceStub(named)
        self.recall = RecallServiceStub(named)
        self.channels = ChannelServiceStub(named)
        self.external = ExternalCommunicationServiceStub(named)


Enter = Callable[[str, str], InSpace]
"""Type of the fixture `enter`, which takes a server's address and a space."""


@pytest.fixture
def enter() -> Iterator[Enter]:
    """Make callers of spaces, and close them."""
    entered: list[InSpace] = []

    def make(target: str, space: str) -> InSpace:
        entered.append(InSpace(target, space))
        return entered[-1]

    yield make
    for service in entered:
        service.channel.close()
