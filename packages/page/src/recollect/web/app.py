"""The application: the page's files, its sessions, its calls, and those of the gateway."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from recollect._bounded_http import BoundedHttp
from recollect._shared.endpoint import Endpoint
from recollect._shared.startup import print_notice
from recollect.web import protocols
from recollect.web.files import PageFiles
from recollect.web.forwarding import Forwarder, admit, read_body
from recollect.web.gateway import Gateway
from recollect.web.imports import Imports
from recollect.web.protection import DOCUMENT, HEALTH, TOKEN_KEY, App, Protection
from recollect.web.protocols import NO_STORE, RequestRefused
from recollect.web.proxy import (
    PERSON_KEY,
    TOKEN_FORM,
    PersonRefused,
    PublicAddress,
    SignedInPeople,
)
from recollect.web.sessions import Session, Sessions

MARK_SESSION = "session"
"""The value of the header `recollect-web` if the browser has no session."""
PERSON_HEADER = "recollect-person"
"""The header in which a page learns whom the proxy signed in."""
_MAX_SECRET = 4096
"""Bytes of a request that brings a key or a token."""
_MAX_CONNECTIONS = 512
_SHUTDOWN_GRACE = 1
"""Seconds that a stop waits for open streams."""


class Page:
    """The handlers of one bridge."""

    def __init__(
        self,
        endpoint: Endpoint,
        sessions: Sessions,
        address: PublicAddress,
        announce: Callable[[], None],
        people: SignedInPeople | None = None,
        most_import: int = 0,
    ) -> None:
        self._endpoint = endpoint
        self._imports = Imports(endpoint, most_import)
        self._sessions = sessions
        self._announce = announce
        self._people = people
        port = address.host.rpartition(":")[2]
        self._cookie = f"recollect-web-{port}" if port.isdecimal() else "recollect-web"
        self._of_cookie: dict[str, Any] = {
            "path": address.base or "/",
            "secure": address.is_secure,
            "httponly": True,
            "samesite": "strict",
        }
        self._files = PageFiles(address.base, people is None, most_import)
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
                Route("/session/import", self._import, methods=["POST"]),
                Route("/{path:path}", self._call, methods=["POST"]),
                Route(DOCUMENT, self._document, methods=["GET"]),
                Route(HEALTH, self._health, methods=["GET"]),
                Route("/{path:path}", self._file, methods=["GET"]),
            ],
            exception_handlers={
                RequestRefused: _refusal,
                PersonRefused: self._refusal_of_person,
                ClientDisconnect: _no_answer,
            },
            lifespan=lifespan,
        )

    async def _file(self, request: Request) -> ASGIApp:
        if protocols.is_call_path(request.scope["path"]):
            return await self._call(request)
        file = self._files.find(request.scope["path"])
        if file is None and "text/html" in request.headers.get("accept", ""):
            index = self._files.index  # which says so to people
            return Response(index.content, 404, dict(index.headers))
        if file is None:
            return Response("there is no such page\n", 404)
        headers = dict(file.headers)
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers)

    async def _document(self, _: Request) -> Response:
        return self._gateway.document()

    async def _health(self, _: Request) -> Response:
        await self._forwarder.check_health()
        return Response('{"status":"SERVING"}\n', headers=NO_STORE, media_type="application/json")

    async def _call(self, request: Request) -> ASGIApp:
        # a URL that is parsed drops tabs and line breaks
        method = self._methods.get(request.scope["path"])
        if method is None:
            text = f"there is no such call: {DOCUMENT} describes them"
            raise RequestRefused(404, "unimplemented", text)
        if TOKEN_KEY in request.scope:  # whatever cookies come with it
            return await self._gateway.answer(request, method, request.scope[TOKEN_KEY])
        if request.method != "POST":
            text = "a browser's calls are made with POST"
            raise RequestRefused(405, "unimplemented", text, allow="POST")
        session = self._session_of(request)
        protocol = protocols.of_page(request.headers.get("content-type"), method)
        token = self._people.token(session.person) if self._people else session.token
        try:
            admit(request, session.person or session)
        except RequestRefused as refused:
            return protocol.refusal(refused)
        return await self._forwarder.answer(request, protocol, token)

    async def _open_session(self, request: Request) -> Response:
        """Exchange the key of the printed address for a cookie."""
        key = await _secret(request, "key")
        if self._people is not None:
            return await self._open_for_person(request, self._people)
        cookie = self._sessions.exchange(key)
        if cookie is None:
            raise _NoSession(
                "this address was used before: open the newest one that recollect-web printed"
            )
        self._announce()
        return self._with_cookie(204, cookie)

    async def _open_for_person(self, request: Request, people: SignedInPeople) -> Response:
        """Begin a session of the person whom the proxy signed in, unless the browser has it."""
        person = request.scope[PERSON_KEY]
        caller = await self._forwarder.check(people.token(person))
        if not caller.token_id:
            text = (
                "the server asks for no token, and so cannot tell people apart: start it with auth"
            )
            raise RequestRefused(None, "failed_precondition", f"{text} `required`")
        named = {PERSON_HEADER: person}
        if self._session(request) is not None:
            return Response(status_code=204, headers=NO_STORE | named)
        return self._with_cookie(201, self._sessions.begin(person), **named)

    def _with_cookie(self, status: int, cookie: str, **headers: str) -> Response:
        answer = Response(status_code=status, headers=NO_STORE | headers)
        answer.set_cookie(self._cookie, cookie, **self._of_cookie)
        return answer

    async def _sign_in(self, request: Request) -> Response:
        """Keep a token for this browser's session, if the server takes it."""
        session = self._session_of(request)
        token = await _secret(request, "token")
        if self._people is not None:
            text = "tokens come from the configuration of recollect-web"
            raise RequestRefused(None, "permission_denied", text)
        if not TOKEN_FORM.fullmatch(token):
            text = "a token must be printable ASCII without spaces"
            raise RequestRefused(None, "invalid_argument", text)
        await self._forwarder.check(token)
        session.token = token
        return Response(status_code=204, headers=NO_STORE)

    async def _sign_out(self, request: Request) -> Response:
        """Forget the token of this browser's session; of a person whom a proxy signed in, end the
        session.
        """
        session = self._session_of(request)
        session.token = None
        if self._people is None:
            return Response(status_code=204, headers=NO_STORE)
        try:
            self._sessions.end(request.cookies[self._cookie])
        except OSError as error:
            print_notice(f"Signed out until a restart only: {error.filename}: {error.strerror}")
        content = json.dumps({"location": self._people.sign_out})
        answer = Response(content, headers=NO_STORE, media_type="application/json")
        answer.delete_cookie(self._cookie, **self._of_cookie)
        return answer

    async def _import(self, request: Request) -> ASGIApp:
        session = self._session_of(request)
        token = self._people.token(session.person) if self._people else session.token
        admit(request, session.person or session)
        caller = session.person or request.cookies[self._cookie]
        return await self._imports.answer(request, caller, self._forwarder, token)

    def _session(self, request: Request) -> Session | None:
        person = request.scope.get(PERSON_KEY, "")
        return self._sessions.find(request.cookies.get(self._cookie), person)

    def _session_of(self, request: Request) -> Session:
        """Return the session of a browser. Raises RequestRefused where it has none."""
        session = self._session(request)
        if session is None:
            raise _NoSession
        return session

    async def _refusal_of_person(self, request: Request, refused: Any) -> Response:
        assert self._people is not None
        self._people.log(request.scope, refused)
        return RequestRefused(None, "permission_denied", str(refused)).response()


class _NoSession(RequestRefused):
    """A browser has no session, and its page says so by the header of the answer."""

    def __init__(
        self, text: str = "this browser has no session: open the address that recollect-web printed"
    ) -> None:
        super().__init__(None, "unauthenticated", text)

    def response(self, **more: str) -> Response:
        return super().response(**{"recollect-web": MARK_SESSION}, **more)


async def _refusal(_: Request, refused: Any) -> Response:
    response: Response = refused.response()
    return response


async def _no_answer(_: Request, __: Exception) -> Response:
    """Answer a caller who went away, and reads nothing."""
    return Response(status_code=499)


async def _secret(request: Request, name: str) -> str:
    """Return the one text in a request's JSON. Raises RequestRefused, HTTPException."""
    if request.headers.get("content-type") != "application/json":
        raise HTTPException(415, "the content type must be application/json\n")
    try:
        value = json.loads(await read_body(request, _MAX_SECRET))[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        value = None
    if not isinstance(value, str):
        text = f"the request must be an object with a text {name}"
        raise RequestRefused(None, "invalid_argument", text)
    return value


def serve(
    listening: socket.socket,
    addresses: list[PublicAddress],
    endpoint: Endpoint,
    sessions: Sessions,
    origins: frozenset[str] = frozenset(),
    people: SignedInPeople | None = None,
    until: Callable[[], Any] | None = None,
    *,
    is_direct: bool,
    most_import: int = 0,
) -> None:
    """Serve until a signal ends the process, or `until` returns. The first of the page's
    `addresses` is printed; pages of `origins` may call the gateway. `is_direct` says that no proxy
    is before it. `most_import` is the bytes of a file that a person may import, 0 for no imports.
    """
    address = addresses[0]

    def announce(beginning: str = "For another browser") -> None:
        url = f"{address.origin}{address.base}/"
        if people is None:
            print_notice(f"{beginning}: {url}#key={sessions.new_key()}")
        else:
            print_notice(f"{beginning}: {url} for {len(people.files)} people, by {people.path}")

    page = Page(endpoint, sessions, address, announce, people, most_import)
    app: App = Protection(page.app(), addresses, origins, people, is_direct=is_direct)
    announce("The page")
    config = uvicorn.Config(
        app,
        log_level="error",
        ws="none",
        http=BoundedHttp,
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
