"""Tokens of a data folder, as its operator makes them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass
from recollect_server.access.token import Grant, Token, scopes_of
from recollect_server.access.token_log import TokenLedger
from recollect_server.access.tokens import Tokens
from recollect_server.kernel.domain.time import Clock, system_clock
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.conftest import LOOPBACK, MovableClock, Start
from tests.credentials.contract import METHODS
from tests.server.conftest import failure_in
from tests.server_cli.conftest import run

CONVERSATION = "conv-01HQ0000000000000000000000"


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """Keep logs out of the output of commands."""


@pytest.fixture
def tokens(tmp_path: Path, clock: MovableClock) -> Tokens:
    """Return the tokens of an empty data folder."""
    return tokens_of(tmp_path / "data", clock)


@pytest.fixture
def callers(start_server: Start) -> Iterator["Callers"]:
    """Callers of a server that asks everybody for a token."""
    server = start_server(auth="required")
    made = Callers(server.target, tokens_of(server.data_dir, server.clock))
    yield made
    made.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Callers"]:
    """Callers of one server for all tests of a module, which asks everybody for a token."""
    data_dir = tmp_path_factory.mktemp("data")
    values = {
        "listen": f"{LOOPBACK}:0",
        "data_dir": data_dir,
        "auth": "required",
        "shutdown_grace": "2s",
    }
    server = app.start(Settings.load(None, values))
    made = Callers(server.address, tokens_of(data_dir, system_clock))
    yield made
    made.close()
    server.stop()


def tokens_of(data_dir: Path, clock: Clock) -> Tokens:
    """Return the tokens of a data folder."""
    return Tokens(TokenLedger(data_dir), clock)


def grant(kind: str = "brain", *spaces: str, **fields: Any) -> Grant:
    """Return a grant of a kind."""
    scopes = scopes_of(kind, tuple(fields.pop("scopes", ())))
    return Grant(kind, scopes, spaces or ("default",), **fields)


def listed(data_dir: Path) -> list[dict[str, Any]]:
    """Return what `token list --all` lists."""
    result = run("token", "list", "--all", "--json", "--data-dir", data_dir)
    assert result.exit_code == 0, result.output
    fields: list[dict[str, Any]] = json.loads(result.stdout)
    return fields


def valid(tokens: Tokens) -> list[Token]:
    """Return the tokens that are valid now."""
    return [it for it in tokens.all() if not tokens.ended(it.id)]


class Caller:
    """A caller with a connection of its own, and a token."""

    def __init__(self, target: str, token: str = "") -> None:
        """`token` is sent with every call; empty: none is."""
        self.metadata: tuple[tuple[str, str], ...] = ()
        if token:
            self.metadata = (("authorization", f"Bearer {token}"),)
        self.channel = grpc.insecure_channel(
            target, options=[("grpc.use_local_subchannel_pool", 1)]
        )

    def call(
        self, name: str, request: ProtoMessage | None = None, *metadata: tuple[str, str | bytes]
    ) -> Any:
        """Call a method by its name as `Service.Method`; return its answer, or the first element of
        its stream.
        """
        answer = self.begin(name, request, *metadata)
        if not METHODS[name].server_streaming:
            return answer
        try:
            return next(answer)
        finally:
            answer.cancel()

    def begin(
        self, name: str, request: ProtoMessage | None = None, *metadata: tuple[str, str | bytes]
    ) -> Any:
        """Call a method, and return its answer, or its open stream."""
        method = METHODS[name]
        kind = "unary_stream" if method.server_streaming else "unary_unary"
        begin = getattr(self.channel, kind)(
            f"/{method.containing_service.full_name}/{method.name}",
            request_serializer=lambda it: it.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        request = GetMessageClass(method.input_type)() if request is None else request
        return begin(request, metadata=(*self.metadata, *metadata), timeout=30)

    def outcome(
        self, name: str, request: ProtoMessage | None = None, *metadata: tuple[str, str | bytes]
    ) -> str:
        """Call a method; return `OK`, or the reason of its failure."""
        try:
            self.call(name, request, *metadata)
        except grpc.RpcError as error:
            failure = failure_in(error)
            return failure.reason or failure.code
        return "OK"


class Callers:
    """Makes callers of a server, and closes them."""

    def __init__(self, target: str, tokens: Tokens) -> None:
        self.target = target
        self.tokens = tokens
        self._callers: list[Caller] = []

    def with_text(self, text: str) -> Caller:
        """Return a caller with a token; empty: without one."""
        caller = Caller(self.target, text)
        self._callers.append(caller)
        return caller

    def of(self, kind: str, *spaces: str, **fields: Any) -> Caller:
        """Return a caller with a new token of a kind."""
        return self.with_text(self.tokens.create(grant(kind, *spaces, **fields))[1])

    def close(self) -> None:
        """Close all connections."""
        for caller in self._callers:
            caller.channel.close()
