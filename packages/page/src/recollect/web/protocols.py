"""Protocols of calls over HTTP: Connect and gRPC-Web, with messages in binary or in JSON, and
streams as server-sent events or as lines of JSON.

The Connect protocol: https://connectrpc.com/docs/protocol. Server-sent events: the HTML standard,
9.2 (https://html.spec.whatwg.org/multipage/server-sent-events.html).
"""

import asyncio
import base64
import binascii
import importlib
import json
import math
import pkgutil
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar
from urllib.parse import parse_qsl, quote

import grpc
import grpc.aio
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

import recollect.v1
from recollect._shared.failures import DETAILS_KEY
from recollect._shared.status import raw_details, read_details
from recollect.v1 import scope_pb2

UNARY, STREAM = "application/proto", "application/connect+proto"
"""The content types of the page's calls."""
_JSON = "application/json"
_EVENTS, _LINES = "text/event-stream", "application/x-ndjson"
"""The values of `accept` for a stream as server-sent events, and as lines of JSON."""
_CALL = re.compile(r"/(recollect|grpc)\.")
_PREFIX = 5
"""Bytes before a message of a stream: one of flags, four of length."""
_COMPRESSED, _END, _TRAILERS = 0x01, 0x02, 0x80
"""Flags of a compressed message, and of the last part of a stream of Connect and of gRPC-Web."""
_GZIP = zlib.MAX_WBITS | 16
"""The argument of zlib for the format of gzip."""
_MAX_SECONDS = 600.0
_INLINE = 32 * 1024
"""Bytes of a message that is converted at once. The conversion of a larger one would hold up the
other callers.
"""
_MAX_VALUES = 100_000
"""Names, values and lists that a request in JSON may hold. Each costs some 6 microseconds and 200
bytes, and a body of 18 MiB has room for millions.
"""
_VALUE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[^\s",:\[\]{}]++', re.DOTALL)
_GRPC_TIMEOUT = re.compile(r"([0-9]{1,8})([HMSmun])", re.ASCII)
_GRPC_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
NO_STORE = {"cache-control": "no-store"}
"""Headers of answers that nobody may keep."""
_PLAIN = "".join(chr(it) for it in range(0x20, 0x7F) if chr(it) != "%")
"""Characters that `grpc-message` shows as they are."""

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


@dataclass(frozen=True, slots=True)
class ForwardedMethod:
    """A method that may be called over HTTP."""

    path: str
    streams: bool
    """True if it answers with a stream."""
    is_safe: bool = False
    """True if it has no side effects, so that it may be called with GET."""
    request: type[Message] | None = None
    """None for the health check, whose messages pass through as bytes alone."""
    response: type[Message] | None = None
    scopes: frozenset[int] = frozenset()
    """The scopes that it needs, all of them."""


def methods() -> Mapping[str, ForwardedMethod]:
    """Return every method of the contract by its path, and the check of the server's health."""
    health = ForwardedMethod("/grpc.health.v1.Health/Check", streams=False)
    by_path = {health.path: health}
    for module in pkgutil.iter_modules(recollect.v1.__path__):
        if not module.name.endswith("_service_pb2"):
            continue
        file = importlib.import_module(f"recollect.v1.{module.name}").DESCRIPTOR
        for service in file.services_by_name.values():
            for method in service.methods:
                path = f"/{service.full_name}/{method.name}"
                messages = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
                options = method.GetOptions()
                is_safe = options.idempotency_level == MethodOptions.NO_SIDE_EFFECTS
                scopes = frozenset(options.Extensions[scope_pb2.scope])
                by_path[path] = ForwardedMethod(
                    path, method.server_streaming, is_safe, *messages, scopes
                )
    return by_path


def is_call_path(path: str) -> bool:
    """Return whether a path is one of calls, whether or not the method exists."""
    return _CALL.match(path) is not None


class RequestRefused(Exception):
    """A call that failed: the server refused it, or it is too large, too slow or not as its
    protocol has it.
    """

    def __init__(
        self,
        status: int | None,
        code: str,
        text: str,
        details: bytes = b"",
        retry_delay: float | None = None,
        allow: str = "",
    ) -> None:
        """`status` is that of HTTP, None for the one of the code; `details` an encoded
        google.rpc.Status; `retry_delay` the seconds to wait where that does not say so; `allow` the
        methods of HTTP that are allowed, for the status 405.
        """
        super().__init__(text)
        self._retry_delay = retry_delay
        self._allow = allow
        self.status = status or _HTTP_STATUS[code]
        self.code = code
        self.details = details

    @classmethod
    def by_server(cls, error: grpc.aio.AioRpcError) -> "RequestRefused":
        """Return a failure that the server answered."""
        name = error.code().name.lower()
        details = [
            value
            for key, value in error.trailing_metadata() or ()
            if key == DETAILS_KEY and isinstance(value, bytes)
        ]
        code = "canceled" if name == "cancelled" else name
        return cls(None, code, error.details() or "", b"".join(details[:1]))

    def described(self) -> dict[str, Any]:
        """Return the error as Connect has it: code, text, details."""
        described: dict[str, Any] = {"code": self.code, "message": str(self)}
        shown = self._shown_details()
        details = []
        for kind, content in raw_details(self.details):
            detail = {"type": kind, "value": base64.b64encode(content).decode().rstrip("=")}
            details.append(detail | ({"debug": shown[kind]} if kind in shown else {}))
        if details:
            described["details"] = details
        return described

    def _shown_details(self) -> dict[str, Any]:
        """Return the details by their types in JSON, for callers who decode no messages."""
        details = read_details(self.details)
        shown: dict[str, Any] = {}
        if details.reason:
            shown["google.rpc.ErrorInfo"] = {
                "reason": details.reason,
                "domain": "recollect",
                "metadata": details.metadata,
            }
        if details.violations:
            violations = [
                {"field": it.field, "description": it.description} for it in details.violations
            ]
            shown["google.rpc.BadRequest"] = {"fieldViolations": violations}
        if details.retry_delay is not None:
            shown["google.rpc.RetryInfo"] = {"retryDelay": f"{details.retry_delay:g}s"}
        return shown

    def response(self, **more: str) -> Response:
        """Return the error as Connect has it where a call has one answer."""
        headers = NO_STORE | more
        if self._allow:
            headers["allow"] = self._allow
        if self.status == 401:  # RFC 9110, 11.6.1: every answer with it names a scheme
            headers["www-authenticate"] = "Bearer"
        delay = read_details(self.details).retry_delay or self._retry_delay
        if delay is not None:
            headers["retry-after"] = str(math.ceil(delay))
        return Response(_json(self.described()) + b"\n", self.status, headers, _JSON)


class Protocol:
    """The protocol of one call, here Connect's for a call with one answer."""

    encoding: ClassVar[str] = "content-encoding"
    """The header that says how a request is compressed."""

    def __init__(self, kind: str, method: ForwardedMethod) -> None:
        self.kind = kind
        """The content type of an answer."""
        self.method = method
        self._is_json = kind.endswith("json")
        self._is_compressed = False
        self.turn: AbstractAsyncContextManager[object] = nullcontext()
        """Held while a large message is converted, and while one is decompressed."""

    def check(self, headers: Headers) -> None:
        """Take in the headers of a request. Raises RequestRefused for what is not supported."""
        encoding = headers.get(self.encoding, "identity")
        if encoding not in ("identity", "gzip"):
            raise RequestRefused(
                None, "unimplemented", f"{self.encoding}: must be gzip or identity"
            )
        self._is_compressed = encoding == "gzip"
        if headers.get("connect-protocol-version", "1") != "1":
            raise RequestRefused(None, "invalid_argument", "connect-protocol-version must be 1")

    def seconds(self, headers: Headers) -> float | None:
        """Return the time that the caller gives the call, None if it says nothing. Raises
        RequestRefused.
        """
        text = headers.get("connect-timeout-ms")
        if text is None:
            return None
        if not text.isdecimal() or not text.isascii() or len(text) > 10:
            raise RequestRefused(
                None, "invalid_argument", "connect-timeout-ms is a number of milliseconds"
            )
        return min(int(text) / 1000, _MAX_SECONDS)

    async def message(self, body: bytes, limit: int) -> bytes:
        """Return the message of a request's body in binary. It has `limit` bytes at most when it is
        decompressed. Raises RequestRefused.
        """
        # an empty body is never compressed (Connect, "Unary-Request")
        if self._is_compressed and body:
            async with self.turn:
                body = await asyncio.to_thread(_decompressed, body, limit, self.encoding)
        return await self._converted(self._parsed, body)

    async def answer(self, message: bytes) -> bytes:
        """Return the body of the one answer."""
        return await self._converted(self._printed, message)

    def refusal(self, error: RequestRefused) -> Response:
        """Return the answer to a call that failed before it had one."""
        return error.response()

    async def _converted(self, convert: Callable[[bytes], bytes], content: bytes) -> bytes:
        if not self._is_json:
            return content
        if len(content) <= _INLINE:
            return convert(content)
        async with self.turn:
            return await asyncio.to_thread(convert, content)

    def _parsed(self, text: bytes) -> bytes:
        assert self.method.request is not None
        message = self.method.request()
        try:
            if not text.lstrip().startswith(b"{"):
                raise ValueError("it is no object")  # the parser takes [] for {}
            if len(text) > _MAX_VALUES and _has_too_many_values(text):
                raise ValueError(
                    f"it holds more than {_MAX_VALUES} names, values and lists: send it in parts"
                )
            json_format.Parse(text, message)
        except (json_format.ParseError, ValueError, TypeError, RecursionError) as error:
            # Texts with half of a surrogate pair are not encoded in an answer, either.
            reason = " ".join(str(error).split()).encode(errors="backslashreplace").decode()
            # all that protobuf says of a name that has no UTF-8
            if "returned a result with an exception set" in reason:
                reason = "a name in it has half of a surrogate pair"
            raise RequestRefused(
                None,
                "invalid_argument",
                f"the body is no {message.DESCRIPTOR.name} in JSON: {reason:.500}",
            ) from None
        return message.SerializeToString()

    def _printed(self, content: bytes) -> bytes:
        assert self.method.response is not None
        message = self.method.response.FromString(content)
        return json_format.MessageToJson(message, indent=None, ensure_ascii=False).encode() + b"\n"


class StreamProtocol(Protocol, ABC):
    """A protocol of streams."""

    @abstractmethod
    async def part(self, message: bytes) -> bytes:
        """Return one message of an answer as it is sent."""

    @abstractmethod
    def end(self, error: RequestRefused | None) -> bytes:
        """Return what ends an answer."""


class Envelopes(StreamProtocol):
    """Connect's protocol for a stream: an envelope around each message."""

    encoding = "connect-content-encoding"

    async def message(self, body: bytes, limit: int) -> bytes:
        """Return the message in a request's envelope. Raises RequestRefused."""
        length = int.from_bytes(body[1:_PREFIX], "big")
        flags = (0, _COMPRESSED) if self._is_compressed else (0,)
        if len(body) < _PREFIX or body[0] not in flags or length != len(body) - _PREFIX:
            raise RequestRefused(
                None, "invalid_argument", "the request is no envelope of one message"
            )
        self._is_compressed = body[0] == _COMPRESSED
        return await super().message(body[_PREFIX:], limit)

    async def part(self, message: bytes) -> bytes:
        """Return one message of an answer in its envelope."""
        return _envelope(0, await super().answer(message))

    def end(self, error: RequestRefused | None) -> bytes:
        """Return what ends an answer."""
        end = {} if error is None else {"error": error.described()}
        return _envelope(_END, _json(end))

    async def answer(self, message: bytes) -> bytes:
        """Return a whole answer of one message."""
        return await self.part(message) + self.end(None)

    def refusal(self, error: RequestRefused) -> Response:
        """Return an answer that ends at once: streams have the status 200 however they end."""
        return Response(self.end(error), headers=NO_STORE, media_type=self.kind)


class Lines(StreamProtocol):
    """A stream as lines of JSON: a message each, and behind a failure its error.

    Its request has no envelope. A call that fails before the first message has the status of its
    error, as a call with one answer.
    """

    def __init__(self, kind: str, method: ForwardedMethod) -> None:
        super().__init__(_JSON, method)
        self.kind = kind
        self._last_cursor = ""

    def check(self, headers: Headers) -> None:
        """Take in the headers of a request. Raises RequestRefused for what is not supported."""
        super().check(headers)
        self._last_cursor = headers.get("last-event-id", "")

    async def message(self, body: bytes, limit: int) -> bytes:
        """Return a request's message, with the cursor of the last event that the caller has."""
        message = await super().message(body, limit)
        if not self._last_cursor:
            return message
        assert self.method.request is not None
        # of a field that is there twice, the last one counts
        return message + self.method.request(cursor=self._last_cursor).SerializeToString()

    async def part(self, message: bytes) -> bytes:
        """Return one message of an answer in its line."""
        return await self.answer(message)

    def end(self, error: RequestRefused | None) -> bytes:
        """Return the line of an error."""
        return b"" if error is None else _json({"error": error.described()}) + b"\n"


class Events(Lines):
    """A stream as server-sent events: a message each, with its cursor as id. The event `end` has
    the error with which the stream ended.
    """

    def end(self, error: RequestRefused | None) -> bytes:
        """Return the event of an error, behind which EventSource comes again after a second."""
        line = super().end(error)
        return b"event: end\nretry: 1000\ndata: " + line + b"\n" if line else b""

    def refusal(self, error: RequestRefused) -> Response:
        """Return the answer to a call that failed before it had one."""
        if error.code != "unavailable":
            return super().refusal(error)
        # EventSource comes again after 200 alone, and this server is most likely being restarted
        return Response(self.end(error), headers=NO_STORE, media_type=self.kind)

    def _printed(self, content: bytes) -> bytes:
        assert self.method.response is not None
        message: Any = self.method.response.FromString(content)
        updates = [message.update, *getattr(message, "following", ())]
        cursor = next((it.cursor for it in reversed(updates) if it.cursor), "")
        identity = f"id: {cursor}\n".encode() if cursor else b""
        return identity + b"data: " + super()._printed(content) + b"\n"


class GrpcWeb(Envelopes):
    """The gRPC-Web protocol, which frames a single answer as it does a stream."""

    encoding = "grpc-encoding"

    def seconds(self, headers: Headers) -> float | None:
        """Return the time that the caller gives the call, None if it says nothing. Raises
        RequestRefused.
        """
        text = headers.get("grpc-timeout")
        if text is None:
            return None
        match = _GRPC_TIMEOUT.fullmatch(text)
        if match is None:
            raise RequestRefused(None, "invalid_argument", "grpc-timeout is a time such as 500m")
        return min(int(match[1]) * _GRPC_UNITS[match[2]], _MAX_SECONDS)

    def end(self, error: RequestRefused | None) -> bytes:
        """Return the trailers of an answer."""
        trailers = {"grpc-status": "0"}
        if error is not None:
            name = "CANCELLED" if error.code == "canceled" else error.code.upper()
            trailers["grpc-status"] = str(grpc.StatusCode[name].value[0])
            trailers["grpc-message"] = quote(str(error), safe=_PLAIN)
            if error.details:
                trailers[DETAILS_KEY] = base64.b64encode(error.details).decode().rstrip("=")
        text = "".join(f"{name}: {value}\r\n" for name, value in trailers.items())
        return _envelope(_TRAILERS, text.encode())


def of_page(kind: str | None, method: ForwardedMethod) -> Protocol:
    """Return the protocol of a call of the page. Raises RequestRefused for another content type."""
    if kind != expected(method):
        raise _unsupported(expected(method))
    return Envelopes(kind, method) if method.streams else Protocol(kind, method)


def of_program(headers: Headers, method: ForwardedMethod) -> Protocol:
    """Return the protocol of a call of a program. Raises RequestRefused for a content type that is
    not supported.
    """
    media, _, parameters = headers.get("content-type", "").lower().partition(";")
    media = media.strip()
    if parameters.replace(" ", "") in ("", "charset=utf-8"):
        if media in ("application/grpc-web", "application/grpc-web+proto"):
            return GrpcWeb(media, method)
        if media == expected(method):
            return of_page(media, method)
        if method.request is not None and media == _JSON and not method.streams:
            return Protocol(media, method)
        if media == "application/connect+json" and method.streams:
            return Envelopes(media, method)
        accepted = headers.get("accept", "").lower()
        if media == _JSON and method.streams and _EVENTS in accepted:
            return Events(_EVENTS, method)
        if media == _JSON and method.streams and _LINES in accepted:
            return Lines(_LINES, method)
    kinds = f"{_JSON}, {UNARY}"
    if method.streams:
        kinds = f"application/connect+json, {STREAM}, {_JSON} with `accept: {_EVENTS}` or `accept: {_LINES}`"
    text = f"{kinds} or application/grpc-web+proto"
    if media == "application/x-www-form-urlencoded":
        text += f": with curl, give --json in place of -d, or -H 'content-type: {_JSON}' beside it"
    raise _unsupported(text)


def posted(request: Request, method: ForwardedMethod) -> Request:
    """Return the POST that a GET of the Connect protocol stands for ("Unary-Get-Request"). Streams
    may be called so, too, as EventSource can. Raises RequestRefused.
    """
    if request.method != "GET" or not method.is_safe:
        allow = "GET, POST" if method.is_safe else "POST"
        raise RequestRefused(
            405, "unimplemented", f"{method.path}: call it with {allow}", allow=allow
        )
    # latin-1 keeps every byte of a message that is not in base64
    query = dict(
        parse_qsl(
            request.scope["query_string"].decode("latin-1"),
            keep_blank_values=True,
            encoding="latin-1",
        )
    )
    if query.get("connect", "v1") != "v1":
        raise RequestRefused(None, "invalid_argument", "connect: must be v1")
    if query.get("encoding") not in ("json", "proto"):
        raise RequestRefused(415, "invalid_argument", "encoding: must be json or proto")
    if "message" not in query:
        raise RequestRefused(
            None, "invalid_argument", "message: is required: the request, as {} in JSON"
        )
    body = query["message"].encode("latin-1")
    if query.get("base64") == "1":
        try:
            body = base64.b64decode(body + b"=" * (-len(body) % 4), b"-_", validate=True)
        except binascii.Error as error:
            raise RequestRefused(
                None, "invalid_argument", f"message: is no base64 for URLs: {error}"
            ) from None
    sent = [
        it
        for it in request.scope["headers"]
        if it[0] not in (b"content-type", b"content-encoding", b"content-length")
    ]
    sent.append((b"content-type", f"application/{query['encoding']}".encode()))
    sent.append((b"content-encoding", query.get("compression", "identity").encode("latin-1")))
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        return next(parts, None) or await request.receive()

    return Request({**request.scope, "method": "POST", "headers": sent}, receive)


def _unsupported(kinds: str) -> RequestRefused:
    return RequestRefused(415, "invalid_argument", f"content-type: must be {kinds}")


def expected(method: ForwardedMethod) -> str:
    """Return the content type of a call of the page."""
    return STREAM if method.streams else UNARY


def _has_too_many_values(text: bytes) -> bool:
    """Return whether a text in JSON holds more than `_MAX_VALUES`. Reads no further than that."""
    return next(islice(_VALUE.finditer(text), _MAX_VALUES, None), None) is not None


def _decompressed(content: bytes, limit: int, header: str) -> bytes:
    """Return what gzip compressed, which has `limit` bytes at most. Raises RequestRefused."""
    decompressor = zlib.decompressobj(_GZIP)
    try:
        message = decompressor.decompress(content, limit + 1)
    except zlib.error as error:
        raise RequestRefused(
            None, "invalid_argument", f"{header}: the request is no gzip: {error}"
        ) from None
    if len(message) > limit:
        raise too_large(limit)
    if not decompressor.eof or decompressor.unused_data:
        raise RequestRefused(
            None, "invalid_argument", f"{header}: the request is not one whole member of gzip"
        )
    return message


def too_large(limit: int) -> RequestRefused:
    """Return the refusal of a request that has more than `limit` bytes."""
    return RequestRefused(413, "resource_exhausted", f"the request has more than {limit} bytes")


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _envelope(flags: int, content: bytes) -> bytes:
    return bytes((flags,)) + len(content).to_bytes(4, "big") + content
