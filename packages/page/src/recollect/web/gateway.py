"""The gateway: calls of programs, which bring a token of their own where the server asks for one,
and of pages of other origins.
"""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from importlib.resources import files

from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from recollect._shared.endpoint import Endpoint, host_and_port
from recollect.v1.scope_pb2 import SCOPE_ANY
from recollect.web import protocols
from recollect.web.forwarding import Forwarder, admit
from recollect.web.protocols import ForwardedMethod, RequestRefused, StreamProtocol

_MAX_BODY = 18 * 1024 * 1024
"""Bytes of a request: the largest that the server takes by default, and room for JSON."""
_MAX_TOKENS = 1024
"""Tokens that are remembered as accepted."""
_MIN_COMPRESSED = 1024
"""Bytes of an answer that is compressed for callers who take gzip."""
_COMPRESSION = 4
"""The level of gzip: 9 takes five times as long for JSON and saves 5 % more."""


@dataclass(eq=False, slots=True)
class Caller:
    """The callers with one token, or all without."""

    scopes: frozenset[int] = frozenset()
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while one of its large messages is converted: the threads are for others, too."""


class Gateway:
    """Calls of programs.

    A token that the server has not accepted yet is shown to it over a connection of its own, before
    the call's body is read. For wrong tokens the server slows the connection that brought them: so
    a stranger slows neither the page nor callers whose token was accepted.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        # what this process may do is for the page alone
        own = replace(endpoint, metadata=())
        self._calls = Forwarder(own, apart=True, when_refused=self._forget)
        self._checks = Forwarder(own, apart=True)
        self._is_private = host_and_port(endpoint.target) is None
        self._accepted: OrderedDict[bytes, Caller] = OrderedDict()
        self._document = files(__package__).joinpath("openapi.json").read_bytes()

    async def close(self) -> None:
        """End the connections."""
        await self._calls.close()
        await self._checks.close()

    def document(self) -> Response:
        """Return the description of all calls for OpenAPI's tools."""
        return Response(self._document, media_type="application/json")

    async def answer(self, request: Request, method: ForwardedMethod, token: str) -> ASGIApp:
        """Return the answer to a call. An empty `token` is that of a program without one. Raises
        RequestRefused for what is of no protocol.
        """
        if request.method != "POST":
            request = protocols.posted(request, method)
        protocol = protocols.of_program(request.headers, method)
        try:
            caller = await self._caller(token, method.scopes)
            admit(request, caller)
        except RequestRefused as error:
            return protocol.refusal(error)
        protocol.turn = caller.turn
        has_scopes = method.scopes <= caller.scopes
        answer = await self._calls.answer(request, protocol, token, _MAX_BODY, reads=has_scopes)
        if isinstance(protocol, StreamProtocol):
            return answer  # Connect compresses the messages of a stream, not its body
        return GZipMiddleware(answer, _MIN_COMPRESSED, _COMPRESSION)

    async def _caller(self, token: str, needed: frozenset[int]) -> Caller:
        """Return the caller with a token that the server accepts, or without where it asks for
        none. Its scopes are those that it has now, if it lacks one that is needed. Raises
        RequestRefused.
        """
        key = _hash(token)
        caller = self._accepted.get(key)
        if caller is not None and needed <= caller.scopes:
            self._accepted.move_to_end(key)
            return caller
        answer = await self._checks.check(token)
        if self._is_private and not answer.token_id:
            raise RequestRefused(
                None,
                "failed_precondition",
                "the server asks for no token, because only its owner may connect to its socket: make"
                " a token with `recollect-server token create`, and bring that",
            )
        caller = self._accepted.setdefault(key, Caller())
        caller.scopes = frozenset({SCOPE_ANY, *answer.scopes})
        while len(self._accepted) > _MAX_TOKENS:
            self._accepted.popitem(last=False)
        return caller

    def _forget(self, token: str) -> None:
        self._accepted.pop(_hash(token), None)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
