"""Every earlier promise with tokens on: `TOKENS_ON=1 pytest tests/server tests/streaming …`.

With `TOKENS_ON` in the environment every server that a test starts, in this process or as one of
its own, finds a token in its data folder, so that it asks everybody for one; and every channel
that a test opens brings it.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from recollect_server.access.principal import EVERY_SPACE
from recollect_server.access.token import digest_of, token_text
from recollect_server.access.token_log import TokenLedger
from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests import programs

ON = "TOKENS_ON" in os.environ

_ID, _SECRET = "0" * 12, "A" * 43
TOKEN = token_text(_ID, _SECRET)
"""The token of all servers of all tests: of all scopes, for all spaces."""
_LINE = {
    "type": "token",
    "event": "created",
    "id": _ID,
    "time": "2026-01-01T00:00:00.000Z",
    "kind": "admin",
    "spaces": [EVERY_SPACE],
    "sha256": digest_of(_SECRET).hex(),
}


def install(data_dir: Path) -> None:
    """Put the token into a data folder, unless tokens are there."""
    ledger = TokenLedger(data_dir)
    with suppress(StorageUnavailable):  # the server of the test says so
        if not ledger.raw():
            ledger.append(_LINE)


class _Details(NamedTuple):
    method: str
    timeout: float | None
    metadata: Sequence[tuple[str, str | bytes]] | None
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class _Token(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Brings the token with every call that brings none."""

    def intercept_unary_unary(self, begin: Any, details: Any, request: Any) -> Any:
        return _begun(begin, details, request)

    def intercept_unary_stream(self, begin: Any, details: Any, request: Any) -> Any:
        return _begun(begin, details, request)

    def intercept_stream_unary(self, begin: Any, details: Any, requests: Any) -> Any:
        return _begun(begin, details, requests)

    def intercept_stream_stream(self, begin: Any, details: Any, requests: Any) -> Any:
        return _begun(begin, details, requests)


def _begun(begin: Any, details: Any, request: Any) -> Any:
    metadata = tuple(details.metadata or ())
    if not any(key == "authorization" for key, _ in metadata):
        metadata = (*metadata, ("authorization", f"Bearer {TOKEN}"))
    fields = {name: getattr(details, name, None) for name in _Details._fields}
    return begin(_Details(**fields | {"metadata": metadata}), request)


class _AsyncUnary(grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, begin: Any, details: Any, request: Any) -> Any:
        return await begin(_with_token(details), request)


class _AsyncStream(grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, begin: Any, details: Any, request: Any) -> Any:
        return await begin(_with_token(details), request)


def _with_token(details: Any) -> Any:
    metadata = grpc.aio.Metadata(*(details.metadata or ()))
    if not any(key == "authorization" for key, _ in metadata):
        metadata.add("authorization", f"Bearer {TOKEN}")
    return details._replace(metadata=metadata)


def turn_on() -> None:
    """Let every server of this process and its forked ones have the token, and every channel of
    this process bring it.
    """
    start, begin = app.start, programs.Forked.__init__
    channel, async_channel = grpc.insecure_channel, grpc.aio.insecure_channel

    def started(settings: Settings, **others: Any) -> app.App:
        install(settings.data_dir)
        return start(settings, **others)

    def begun(process: Any, program: str, arguments: Sequence[str], **others: Any) -> None:
        if "serve" in arguments and "--data-dir" in arguments:
            install(Path(arguments[list(arguments).index("--data-dir") + 1]))
        begin(process, program, arguments, **others)

    def opened(*arguments: Any, **others: Any) -> grpc.Channel:
        return grpc.intercept_channel(channel(*arguments, **others), _Token())

    def opened_async(target: str, options: Any = None, **others: Any) -> grpc.aio.Channel:
        interceptors = [_AsyncUnary(), _AsyncStream(), *(others.pop("interceptors", None) or ())]
        return async_channel(target, options, interceptors=interceptors, **others)

    os.environ["RECOLLECT_TOKEN"] = TOKEN  # of clients that are processes of their own
    app.start = started
    programs.Forked.__init__ = begun  # type: ignore[method-assign, assignment]
    grpc.insecure_channel = opened
    grpc.aio.insecure_channel = opened_async  # type: ignore[assignment]
