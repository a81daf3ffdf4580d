"""Fixtures of the tests of limits and of the audit: a server, and callers with tokens."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect_server.access.tokens import Tokens

from tests.conftest import RunningServer, Start
from tests.credentials.conftest import Caller, grant, tokens_of


class Limited:
    """A server with limits, and callers that each have a token."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.tokens: Tokens = tokens_of(server.data_dir, server.clock)
        self._callers: list[Caller] = []
        self._kinds: dict[str, Caller] = {}
        self.ids: dict[Caller, str] = {}
        self.conversation_id = ""

    def caller(self, kind: str = "brain", *spaces: str, **fields: Any) -> Caller:
        """Return a caller with a new token."""
        token, text = self.tokens.create(grant(kind, *spaces, **fields))
        caller = Caller(self.server.target, text)
        self._callers.append(caller)
        self.ids[caller] = token.id
        return caller

    def stranger(self, text: str = "") -> Caller:
        """Return a caller with this text for a token, or none."""
        caller = Caller(self.server.target, text)
        self._callers.append(caller)
        return caller

    def of_kind(self, kind: str) -> Caller:
        """Return the caller with a token of a kind, made when it is first asked for; empty: without
        a token.
        """
        if kind not in self._kinds:
            self._kinds[kind] = self.caller(kind) if kind else self.stranger()
        return self._kinds[kind]

    def close(self) -> None:
        for caller in self._callers:
            caller.channel.close()


@pytest.fixture
def limited(start_server: Start) -> Iterator[Callable[..., Limited]]:
    """Return a function that starts a server which asks for tokens, with settings."""
    made: list[Limited] = []

    def start(**settings: Any) -> Limited:
        made.append(Limited(start_server(auth="required", **settings)))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture
def one(limited: Callable[..., Limited]) -> Limited:
    """Return a server for many examples, with a conversation and an anchor of the key `k`."""
    server = limited()
    create = api.CreateRequest(channel="web")
    caller = server.of_kind("brain")
    server.conversation_id = caller.call("ConversationService.Create", create).conversation.id
    caller.call("RecallService.SetAnchor", recall_api.SetAnchorRequest(key="k", value="v"))
    return server
