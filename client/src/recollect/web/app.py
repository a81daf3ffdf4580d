"""The application: the page's files, its sessions, its calls, and those of the gateway."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from recollect._shared.endpoint import Endpoint
from recollect._shared.startup import print_notice
from recollect._timed_heads import TimedHeads
from recollect.web import protocols
from recollect.web.files import PageFiles
from recollect.web.forwarding import Forwarder, read_body
from recollect.web.gateway import Gateway
from recollect.web.protection import DOCUMENT, TOKEN_KEY, App, Protection
from recollect.web.protocols import RequestRefused
from recollect.web.sessions import Session, SessionKey, Sessions

MARK_SESSION = "session"
"""The value of the header `recollect-web` if the browser has no session."""
_MAX_SECRET = 4096
"""Bytes of a request that brings a key or a token."""
_TOKEN = re.compile(r"[!-~]{1,512}")
_MAX_CONNECTIONS = 512
_SHUTDOWN_GRACE = 1
"""Seconds that a stop waits for open streams."""


class Page:
    """The handlers of one bridge."""

    def __init__(
        self,
        endpoint: Endpoint,
        sessions: Sessions,
        port: int,
        announce: Callable[[], None],
    ) -> None:
        self._endpoint = endpoint
        self._sessions = sessions
        self._announce = announce
        self._cookie = f"recollect-web-{port}"
        self._files = PageFiles()
        self._methods = protocols.methods()
        self._forwarder: Forwarder
        self._gateway: Gateway

    def app(self) -> Starlette:
        """Return the application."""

        @asynccontextmanager
        async def lifespan(_: Starlette) -> Any:
            self._forwarder, self._gateway = Forwarder(self._endpoint), Gateway(self._endpoint)
            try:
                yield
            finally:
                await self._forwarder.close()
                await self._gateway.close()

        return Starlette(
            routes=[
                Route("/session/open", self._open_session, methods=["POST"]),
                Route("/session/sign-in", self._sign_in, methods=["POST"]),
                Route("/session/sign-out", self._sign_out, methods=["POST"]),
                Route("/{path:path}", self._call, methods=["POST"]),
                Route(DOCUMENT, self._document, methods=["GET"]),
                Route("/{path:path}", self._file, methods=["GET"]),
            ],
            lifespan=lifespan,
        )

    async def _file(self, request: Request) -> Response:
        file = self._files.find(request.scope["path"])
        if file is None:
            return Response("there is no such page\n", 404)
        headers = dict(file.headers)
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers)

    async def _document(self, _: Request) -> Response:
        return self._gateway.document()

    async def _call(self, request: Request) -> Response:
        # a URL that is parsed drops tabs and line breaks
        method = self._methods.get(request.scope["path"])
        if method is None:
            return Response("there is no such call\n", 404)
        if TOKEN_KEY in request.scope:  # whatever cookies come with it
            return await self._gateway.answer(request, method, request.scope[TOKEN_KEY])
        session = self._session(request)
        if session is None:
            return _no_session()
        protocol = protocols.of_page(request.headers.get("content-type"), method)
        if protocol is None:
            return Response(f"the content type must be {protocols.expected(method)}\n", 415)
        return await self._forwarder.answer(request, protocol, session.token)

    async def _open_session(self, request: Request) -> Response:
        """Exchange the key of the printed address for a cookie."""
        key = await _secret(request, "key")
        if isinstance(key, Response):
            return key
        cookie = self._sessions.exchange(key)
        if cookie is None:
            return _unauthenticated(
                "this address was used before: open the newest one that recollect-web printed"
            )
        self._announce()
        answer = Response(status_code=204, headers={"cache-control": "no-store"})
        answer.set_cookie(self._cookie, cookie, path="/", httponly=True, samesite="strict")
        return answer

    async def _sign_in(self, request: Request) -> Response:
        """Keep a token for this browser's session, if the server takes it."""
        session = self._session(request)
        if session is None:
            return _no_session()
        token = await _secret(request, "token")
        if isinstance(token, Response):
            return token
        if not _TOKEN.fullmatch(token):
            return _invalid("a token must be printable ASCII without spaces")
        try:
            await self._forwarder.check(token)
        except RequestRefused as error:
            return error.response()
        session.token = token
        return Response(status_code=204, headers={"cache-control": "no-store"})

    async def _sign_out(self, request: Request) -> Response:
        """Forget the token of this browser's session."""
        session = self._session(request)
        if session is None:
            return _no_session()
        session.token = None
        return Response(status_code=204, headers={"cache-control": "no-store"})

    def _session(self, request: Request) -> Session | None:
        return self._sessions.find(request.cookies.get(self._cookie))


def _no_session() -> Response:
    return _unauthenticated(
        "this browser has no session: open the address that recollect-web printed"
    )


def _unauthenticated(text: str) -> Response:
    error = RequestRefused(None, "unauthenticated", text)
    return error.response(**{"recollect-web": MARK_SESSION})


def _invalid(text: str) -> Response:
    return RequestRefused(None, "invalid_argument", text).response()


async def _secret(request: Request, name: str) -> str | Response:
    """Return the one text in a request's JSON, or the refusal of the request."""
    if request.headers.get("content-type") != "application/json":
        return Response("the content type must be application/json\n", 415)
    try:
        value = json.loads(await read_body(request, _MAX_SECRET))[name]
    except RequestRefused as error:
        return error.response()
    except ClientDisconnect:
        return Response(status_code=499)
    except (ValueError, KeyError, TypeError, RecursionError):
        value = None
    if not isinstance(value, str):
        return _invalid(f"the request must be an object with a text {name}")
    return value


def serve(
    host: str,
    port: int,
    endpoint: Endpoint,
    origins: frozenset[str] = frozenset(),
    until: Callable[[], Any] | None = None,
) -> None:
    """Serve until a signal ends the process, or `until` returns. Pages of `origins` may call the
    gateway. Raises OSError where the address cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    key = SessionKey.of(port) if port else SessionKey.new()  # a free port is another each time
    with socket.create_server((host, port), family=family) as listening:
        port = listening.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        sessions = Sessions(key)

        def announce(beginning: str = "For another browser") -> None:
            print_notice(f"{beginning}: http://{shown}:{port}/#key={sessions.new_key()}")

        page = Page(endpoint, sessions, port, announce)
        names = {shown, "localhost"} if host in ("127.0.0.1", "::1") else {shown}
        hosts = {f"{name}:{port}" for name in names}
        if port == 80:  # browsers leave the usual port out
            hosts |= names
        app: App = Protection(page.app(), hosts, origins)
        announce("The page")
        config = uvicorn.Config(
            app,
            log_level="error",
            ws="none",
            http=TimedHeads,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_SHUTDOWN_GRACE,
        )
        asyncio.run(_serve(uvicorn.Server(config), listening, until))


async def _serve(
    server: uvicorn.Server, listening: socket.socket, until: Callable[[], Any] | None
) -> None:
    if until is not None:
        loop = asyncio.get_running_loop()

        def stop() -> None:
            server.should_exit = True

        def wait() -> None:
            until()
            loop.call_soon_threadsafe(stop)

        threading.Thread(target=wait, daemon=True).start()
    await server.serve(sockets=[listening])
