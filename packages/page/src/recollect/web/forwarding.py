"""Calls that come over HTTP, made over gRPC. Messages pass through as bytes, unless the caller
speaks JSON.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from typing import Any

import grpc
import grpc.aio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from recollect import InvalidArgument
from recollect._bounded_http import BoundedHttp, connection_of
from recollect._shared.channel import CHANNEL_OPTIONS
from recollect._shared.endpoint import Endpoint, checked_space
from recollect.v1.access_service_pb2 import WhoAmIResponse
from recollect.web.protocols import (
    NO_STORE,
    Protocol,
    RequestRefused,
    StreamProtocol,
    too_large,
)

MAX_BODY = 9 * 1024 * 1024
"""Bytes of a request of the page."""
BODY_SECONDS = 20.0
"""The time that a request's body may take to arrive."""
DEFAULT_SECONDS = 30.0
"""The time for a call that says none, and for the first message of a stream."""
_HEALTH_SECONDS = 5.0
_SERVING = b"\x08\x01"
"""A grpc.health.v1.HealthCheckResponse with the status SERVING."""
_NO_MESSAGE = b"\xff"
"""Sent in place of a body that is not read. It is no message of any kind, so that the server does
nothing even if it no longer refuses the caller.
"""


class Forwarder:
    """A connection to the server, over which callers' calls go."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        apart: bool = False,
        when_refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`apart` keeps its connection from being shared, so that the server slows its callers
        alone for wrong tokens. `when_refused` gets the token of each call that was refused for it.
        """
        self._metadata = endpoint.metadata
        self._keeps_secrets = endpoint.keeps_secrets
        self._when_refused = when_refused
        options = [*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", int(apart))]
        tls = endpoint.tls
        self._channel = (
            grpc.aio.insecure_channel(endpoint.target, options)
            if tls is None
            else grpc.aio.secure_channel(endpoint.target, tls.credentials(), options)
        )

    async def close(self) -> None:
        """End the connection and every call over it."""
        await self._channel.close()

    async def answer(
        self,
        request: Request,
        protocol: Protocol,
        token: str | None,
        limit: int = MAX_BODY,
        *,
        reads: bool = True,
    ) -> Response:
        """Return the answer to a call of `limit` bytes at most. `token` replaces the one of the
        endpoint, unless it is empty. Unless `reads`, the call is one that the server will refuse,
        and its body is left.
        """
        try:
            protocol.check(request.headers)
            seconds = protocol.seconds(request.headers)
            message = _NO_MESSAGE
            if reads:
                message = await protocol.message(await read_body(request, limit), limit)
            metadata = self.metadata(request, token)
            if isinstance(protocol, StreamProtocol) and protocol.method.streams:
                return await self._stream(protocol, message, seconds, metadata)
            return await self._unary(request, protocol, message, seconds, metadata)
        except RequestRefused as error:
            return protocol.refusal(error)
        except ClientDisconnect:
            return Response(status_code=499)

    async def check_health(self) -> None:
        """Return if the server serves. Raises RequestRefused."""
        check: Any = self._channel.unary_unary("/grpc.health.v1.Health/Check")
        text = "it is stopping"
        try:
            if await check(b"", timeout=_HEALTH_SECONDS) == _SERVING:
                return
        except grpc.aio.AioRpcError as error:
            text = error.details() or error.code().name
        raise RequestRefused(None, "unavailable", f"the server does not serve: {text}")

    async def check(self, token: str) -> WhoAmIResponse:
        """Return what the server knows of a caller with a token, or of one without where it is
        empty. Raises RequestRefused.
        """
        if token and not self._keeps_secrets:
            raise RequestRefused(
                None,
                "failed_precondition",
                "this token would go to the server over the network in plain text: start"
                " recollect-web with --ca, or with --insecure where the network itself is trusted",
            )
        whoami: Any = self._channel.unary_unary("/recollect.v1.AccessService/WhoAmI")
        metadata = _with_token(self._metadata, token)
        try:
            answer = await whoami(b"", timeout=DEFAULT_SECONDS, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise RequestRefused.by_server(error) from None
        return WhoAmIResponse.FromString(answer)

    async def _unary(
        self,
        request: Request,
        protocol: Protocol,
        message: bytes,
        seconds: float | None,
        metadata: tuple[tuple[str, str], ...],
    ) -> Response:
        method: Any = self._channel.unary_unary(protocol.method.path)
        timeout = DEFAULT_SECONDS if seconds is None else seconds
        call = method(message, timeout=timeout, metadata=metadata)
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
            call.cancel()  # ends the work for a caller who went away; nothing otherwise
        if isinstance(outcome, grpc.aio.AioRpcError):
            raise self._failure(outcome, metadata)
        body = await protocol.answer(outcome)
        return Response(body, headers=NO_STORE, media_type=protocol.kind)

    async def _stream(
        self,
        protocol: StreamProtocol,
        message: bytes,
        seconds: float | None,
        metadata: tuple[tuple[str, str], ...],
    ) -> Response:
        method: Any = self._channel.unary_stream(protocol.method.path)
        call = method(message, timeout=seconds, metadata=metadata)
        messages = aiter(call)
        try:
            # a call that fails at once can have a status of its own
            async with asyncio.timeout(DEFAULT_SECONDS):
                first = await anext(messages, None)
        except grpc.aio.AioRpcError as error:
            raise self._failure(error, metadata) from None
        except BaseException as error:
            call.cancel()
            if isinstance(error, TimeoutError):
                raise RequestRefused(None, "deadline_exceeded", "no message came in time") from None
            raise

        async def parts() -> AsyncIterator[bytes]:
            failure: RequestRefused | None = None
            try:
                if first is not None:
                    yield await protocol.part(first)
                async for it in messages:
                    yield await protocol.part(it)
            except grpc.aio.AioRpcError as error:
                failure = self._failure(error, metadata)
            finally:
                call.cancel()
            yield protocol.end(failure)

        return StreamingResponse(parts(), headers=NO_STORE, media_type=protocol.kind)

    def _failure(
        self, error: grpc.aio.AioRpcError, metadata: tuple[tuple[str, str], ...]
    ) -> RequestRefused:
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            self._when_refused(dict(metadata).get("authorization", "").removeprefix("Bearer "))
        return RequestRefused.by_server(error)

    def metadata(self, request: Request, token: str | None) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a call: the endpoint's, with the caller's space and token. Raises
        RequestRefused.
        """
        metadata = _with_token(self._metadata, token)
        space = request.headers.get("recollect-space")
        if space:
            try:
                metadata = _replaced(metadata, "recollect-space", checked_space(space))
            except InvalidArgument as error:
                raise RequestRefused(400, "invalid_argument", str(error)) from None
        return metadata


def admit(request: Request, caller: Hashable) -> None:
    """Let a connection serve a caller. Raises RequestRefused if it has its share."""
    connection = connection_of(request.scope)
    if connection is not None and not connection.admit(caller):
        raise RequestRefused(
            None,
            "resource_exhausted",
            f"this caller has {BoundedHttp.share} connections in use, which is its share: end a"
            " stream, or call again when an answer has come",
            retry_delay=1.0,
        )


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
        raise too_large(limit)
    return b"".join(parts)


async def _outcome(call: Any) -> bytes | grpc.aio.AioRpcError:
    try:
        response: bytes = await call
    except grpc.aio.AioRpcError as error:
        return error
    return response


async def _disconnected(request: Request) -> None:
    """Wait until the caller went away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _with_token(
    metadata: tuple[tuple[str, str], ...], token: str | None
) -> tuple[tuple[str, str], ...]:
    return _replaced(metadata, "authorization", f"Bearer {token}") if token else metadata


def _replaced(
    metadata: tuple[tuple[str, str], ...], key: str, value: str
) -> tuple[tuple[str, str], ...]:
    return (*(pair for pair in metadata if pair[0] != key), (key, value))
