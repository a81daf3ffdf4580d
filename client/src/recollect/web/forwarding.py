"""Calls of the page: from the Connect protocol to gRPC and back. Messages pass through as bytes."""

import asyncio
import base64
import importlib
import json
import pkgutil
from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
import grpc.aio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

import recollect.v1
from recollect import InvalidArgument
from recollect._shared.channel import CHANNEL_OPTIONS
from recollect._shared.endpoint import Endpoint, checked_space
from recollect._shared.failures import DETAILS_KEY
from recollect._shared.status import raw_details

MAX_BODY = 9 * 1024 * 1024
"""Bytes of a request: the largest that the server takes by default, and room for its envelope."""
BODY_SECONDS = 20.0
"""The time that a request's body may take to arrive."""
DEFAULT_SECONDS = 30.0
_MAX_SECONDS = 600.0
_PREFIX = 5
"""Bytes before a message of a stream: one of flags, four of length."""
_END = b"\x02"
UNARY, STREAM = "application/proto", "application/connect+proto"

# The codes of the Connect protocol, with the status of HTTP that each has.
_HTTP_STATUS = {
    "canceled": 499,
    "unknown": 500,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "aborted": 409,
    "out_of_range": 400,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "data_loss": 500,
    "unauthenticated": 401,
}


class RequestRefused(Exception):
    """A request is too large, too slow or not as the protocol has it."""

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


def methods() -> Mapping[str, bool]:
    """Return every method of the contract by its path, true if it answers with a stream; and the
    check of the server's health.
    """
    paths = {"/grpc.health.v1.Health/Check": False}
    for module in pkgutil.iter_modules(recollect.v1.__path__):
        if not module.name.endswith("_service_pb2"):
            continue
        file = importlib.import_module(f"recollect.v1.{module.name}").DESCRIPTOR
        for service in file.services_by_name.values():
            for method in service.methods:
                paths[f"/{service.full_name}/{method.name}"] = method.server_streaming
    return paths


class Forwarder:
    """The connection to the server, over which every browser's calls go."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.methods = methods()
        self._metadata = endpoint.metadata
        self._keeps_secrets = endpoint.keeps_secrets
        tls = endpoint.tls
        self._channel = (
            grpc.aio.insecure_channel(endpoint.target, CHANNEL_OPTIONS)
            if tls is None
            else grpc.aio.secure_channel(endpoint.target, tls.credentials(), CHANNEL_OPTIONS)
        )

    async def close(self) -> None:
        """End the connection and every call over it."""
        await self._channel.close()

    async def answer(self, request: Request, path: str, token: str | None) -> Response:
        """Return the answer to a call of the page. `token` replaces the one of the bridge."""
        streams = self.methods[path]
        expected = STREAM if streams else UNARY
        if request.headers.get("content-type") != expected:
            return Response(f"the content type must be {expected}\n", 415)
        try:
            timeout = _timeout(request)
            body = await read_body(request)
            metadata = self._with(request, token)
            if streams:
                return self._stream(path, _opened(body), timeout, metadata)
            return await self._unary(request, path, body, timeout, metadata)
        except RequestRefused as error:
            return refusal(error.code, str(error), status=error.status)
        except ClientDisconnect:
            return Response(status_code=499)

    async def check(self, token: str) -> Response | None:
        """Return the refusal of a token, None if the server takes it."""
        if not self._keeps_secrets:
            return refusal(
                "failed_precondition",
                "this token would go to the server over the network in plain text: start"
                " recollect-web with --ca, or with --insecure where the network itself is trusted",
            )
        whoami: Any = self._channel.unary_unary("/recollect.v1.AccessService/WhoAmI")
        metadata = _replaced(self._metadata, "authorization", f"Bearer {token}")
        try:
            await whoami(b"", timeout=DEFAULT_SECONDS, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            return _failure(error)
        return None

    async def _unary(
        self,
        request: Request,
        path: str,
        body: bytes,
        timeout: float | None,
        metadata: tuple[tuple[str, str], ...],
    ) -> Response:
        seconds = DEFAULT_SECONDS if timeout is None else timeout
        method: Any = self._channel.unary_unary(path)
        call = method(body, timeout=seconds, metadata=metadata)
        answer = asyncio.ensure_future(_outcome(call))
        disconnect = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({answer, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                return Response(status_code=499)  # nobody reads it
            outcome = answer.result()
        finally:
            disconnect.cancel()
            answer.cancel()
            call.cancel()  # ends the work for a page that went away; nothing otherwise
        if isinstance(outcome, grpc.aio.AioRpcError):
            return _failure(outcome)
        return Response(outcome, headers={"cache-control": "no-store"}, media_type=UNARY)

    def _stream(
        self,
        path: str,
        body: bytes,
        timeout: float | None,
        metadata: tuple[tuple[str, str], ...],
    ) -> Response:
        method: Any = self._channel.unary_stream(path)
        call = method(body, timeout=timeout, metadata=metadata)

        async def envelopes() -> AsyncIterator[bytes]:
            end: dict[str, Any] = {}
            try:
                async for message in call:
                    yield b"\0" + len(message).to_bytes(4, "big") + message
            except grpc.aio.AioRpcError as error:
                end = {"error": _described(error)}
            finally:
                call.cancel()
            text = json.dumps(end).encode()
            yield _END + len(text).to_bytes(4, "big") + text

        return StreamingResponse(
            envelopes(), headers={"cache-control": "no-store"}, media_type=STREAM
        )

    def _with(self, request: Request, token: str | None) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a call: the bridge's, with the page's space and token."""
        metadata = self._metadata
        if token is not None:
            metadata = _replaced(metadata, "authorization", f"Bearer {token}")
        space = request.headers.get("recollect-space")
        if space:
            try:
                metadata = _replaced(metadata, "recollect-space", checked_space(space))
            except InvalidArgument as error:
                raise RequestRefused(400, "invalid_argument", str(error)) from None
        return metadata


async def read_body(
    request: Request, limit: int = MAX_BODY, seconds: float = BODY_SECONDS
) -> bytes:
    """Return a request's body. Raises RequestRefused."""
    announced = request.headers.get("content-length", "0")
    parts: list[bytes] = []
    size = int(announced) if announced.isdecimal() else limit + 1
    try:
        async with asyncio.timeout(seconds):
            if size <= limit:
                size = 0
                async for part in request.stream():
                    parts.append(part)
                    size += len(part)
                    if size > limit:
                        break
    except TimeoutError:
        raise RequestRefused(408, "deadline_exceeded", "the request took too long") from None
    if size > limit:
        raise RequestRefused(413, "resource_exhausted", f"the request has more than {limit} bytes")
    return b"".join(parts)


def refusal(code: str, text: str, *, status: int | None = None, mark: str = "") -> Response:
    """Return an error of the bridge's own, as the protocol has it."""
    headers = {"cache-control": "no-store"}
    if mark:
        headers["recollect-web"] = mark
    content = json.dumps({"code": code, "message": text})
    return Response(content, status or _HTTP_STATUS[code], headers, "application/json")


def _opened(body: bytes) -> bytes:
    """Return the message in an envelope."""
    if len(body) < _PREFIX or body[0] != 0 or int.from_bytes(body[1:5], "big") != len(body) - 5:
        raise RequestRefused(400, "invalid_argument", "the request is no envelope of one message")
    return body[_PREFIX:]


def _timeout(request: Request) -> float | None:
    text = request.headers.get("connect-timeout-ms")
    if text is None:
        return None
    if not text.isdecimal() or not text.isascii() or len(text) > 10:
        raise RequestRefused(
            400, "invalid_argument", "connect-timeout-ms is a number of milliseconds"
        )
    return min(int(text) / 1000, _MAX_SECONDS)


async def _outcome(call: Any) -> bytes | grpc.aio.AioRpcError:
    try:
        response: bytes = await call
    except grpc.aio.AioRpcError as error:
        return error
    return response


async def _disconnected(request: Request) -> None:
    """Wait until the browser went away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _failure(error: grpc.aio.AioRpcError) -> Response:
    described = _described(error)
    return Response(
        json.dumps(described),
        _HTTP_STATUS[described["code"]],
        {"cache-control": "no-store"},
        "application/json",
    )


def _described(error: grpc.aio.AioRpcError) -> dict[str, Any]:
    """Return an error as the protocol has it: code, text, details."""
    name = error.code().name.lower()
    code = "canceled" if name == "cancelled" else name
    described: dict[str, Any] = {"code": code, "message": error.details() or ""}
    details = []
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY and isinstance(value, bytes):
            for kind, content in raw_details(value):
                encoded = base64.b64encode(content).decode().rstrip("=")
                details.append({"type": kind, "value": encoded})
    if details:
        described["details"] = details
    return described


def _replaced(
    metadata: tuple[tuple[str, str], ...], key: str, value: str
) -> tuple[tuple[str, str], ...]:
    return (*(pair for pair in metadata if pair[0] != key), (key, value))
