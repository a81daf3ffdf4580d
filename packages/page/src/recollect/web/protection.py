"""Checks of every request before it is answered, and the headers of every answer."""

import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from starlette.responses import PlainTextResponse, Response

from recollect.web.protocols import RequestRefused, is_call_path
from recollect.web.proxy import PERSON_KEY, PersonRefused, PublicAddress, SignedInPeople

App = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " font-src 'self'; img-src 'self' data:; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types recollect"
)
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every answer: no page of another origin can embed it."""
_PAGE_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
"""Headers of what a browser shows."""
TOKEN_KEY = "recollect.token"  # noqa: S105 - a key of a request's scope
"""The key of a program's scope under which its token is; an empty one if it brought none."""
DOCUMENT = "/openapi.json"
"""The path of the OpenAPI document, which any program may read."""
HEALTH = "/healthz"
"""The path that says whether the server serves, which any program may read."""
_OPEN = (DOCUMENT, HEALTH)
_METHODS = "GET, HEAD, POST"
_OF_PROXY = {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"}
"""Headers that a proxy adds to what it forwards."""
_WRONG_ORIGIN = (
    "wrong Origin: this page serves nobody else. A program brings a token, as `authorization: Bearer"
    " rcl_...`; --cors of recollect-web names the origins of pages that may"
)
_BEARER = re.compile(rb"bearer +([!-~]{1,512})", re.IGNORECASE)
_SPELT = re.compile(rb"%(2[def]|3[0-9]|[46][1-9a-f]|[57][0-9a]|5f|7e)", re.IGNORECASE)
"""Characters that a path has no reason to encode (RFC 3986, 2.3), and the slash. Another spelling
of a path would pass the rule of a proxy that forbids the usual one.
"""
_CORS = {
    "access-control-allow-methods": "POST, GET",
    "access-control-allow-headers": "authorization, content-type, content-encoding, recollect-space,"
    " last-event-id, connect-protocol-version, connect-timeout-ms, connect-content-encoding,"
    " connect-accept-encoding, grpc-timeout, x-grpc-web, x-user-agent",
    "access-control-max-age": "7200",
}
_EXPOSED = b"retry-after, grpc-status, grpc-message, grpc-status-details-bin"


class Protection:
    """Refuses requests that neither a page of this server nor a program sends, before anything else
    sees them.

    A foreign page that had its own name resolved to this machine (DNS rebinding) passes every check
    of addresses, but its requests carry its own name as `Host`. A foreign page that calls this
    address carries its own `Origin`. Both headers must therefore be exactly ours, and there once.

    A program sends no `Origin`: it brings a token instead, in a header that no form can set, and
    that scripts of a foreign page may set only if this process allows it to their origin, as it
    does to those that it was started for. `Host` must be ours with a token, too: a server without
    tokens takes any.

    Where no proxy is before this process, a program may come without a token; the server then says
    whether it wants one. No foreign page can pass for such a program:

    - A browser sends `Origin` with every POST to another origin, and Fetch metadata
      (`Sec-Fetch-Site` and more) with every request to a loopback address. Node's fetch sends
      `Sec-Fetch-Mode` alone, which therefore counts for nothing.
    - A browser too old for Fetch metadata asks before it sends a content type of calls to another
      origin (a preflight), and is refused. It can send a GET, which has no side effects by the
      contract, and whose answer it shows to no page of another origin.
    - A page that had its name resolved to this machine sends that name as `Host`.

    A proxy forwards requests of other machines, about which a loopback address says nothing: behind
    one, every program brings a token.

    What it passes on has the path within the page: without the one that a proxy serves it under.
    """

    def __init__(
        self,
        app: App,
        addresses: Iterable[PublicAddress],
        origins: Iterable[str] = (),
        people: SignedInPeople | None = None,
        *,
        is_direct: bool,
    ) -> None:
        """`addresses` are the page's own, of one path; `origins` are those of the pages that may
        call with a token; `people` may call by the word of a proxy, and nobody else without a
        token. `is_direct` says that no proxy is before this process, on a loopback address.
        """
        self._app = app
        self._own = {it.host.encode(): it.origin.encode() for it in addresses}
        [self._base] = {it.base for it in addresses}
        self._origins = {origin.encode() for origin in origins}
        self._people = people
        self._is_direct = is_direct

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no WebSocket: the handshake is refused

        is_within = self._enter(scope)
        origin = self._listed_origin(scope)
        path = scope["path"]
        is_call = is_within and is_call_path(path)
        is_of_page = scope["method"] in ("GET", "HEAD") and not is_call and path not in _OPEN
        headers = [*_HEADERS, *(_PAGE_HEADERS if is_of_page else ())]
        if self._origins:
            headers.append((b"vary", b"origin"))
        if origin is not None:
            headers.append((b"access-control-allow-origin", origin))
            headers.append((b"access-control-expose-headers", _EXPOSED))

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *headers]
            await send(message)

        authorizations = _values(scope, b"authorization")
        bearer = _BEARER.fullmatch(authorizations[0]) if len(authorizations) == 1 else None
        if bearer is not None and not path.startswith("/session/"):
            scope[TOKEN_KEY] = bearer[1].decode()
        try:
            self._check(scope, origin, is_call)
            self._check_person(scope)
            if not is_within:
                raise RequestRefused(404, "unimplemented", f"the page is at {self._base}/")
        except RequestRefused as refused:
            closing = {"connection": "close"}
            answer = refused.response(**closing)
            if is_of_page:
                answer = PlainTextResponse(f"{refused}\n", refused.status, closing)
        else:
            if scope["method"] != "OPTIONS":
                await self._app(scope, receive, with_headers)
                return
            answer = Response(status_code=204, headers=_CORS)
        await answer(scope, receive, with_headers)

    def _listed_origin(self, scope: MutableMapping[str, Any]) -> bytes | None:
        """Return the origin of a request, if it is of a page that may call with a token."""
        origins = _values(scope, b"origin")
        return origins[0] if len(origins) == 1 and origins[0] in self._origins else None

    def _enter(self, scope: MutableMapping[str, Any]) -> bool:
        """Cut the page's own path off a request's, unless it is not below it."""
        # As it was sent: what is written in another way may have passed another rule of the proxy.
        base, sent = self._base, scope["raw_path"]
        if sent != base.encode() and not sent.startswith(f"{base}/".encode()):
            return not base  # what has no path, as `*`, is refused for other reasons
        scope["path"] = scope["path"][len(base) :] or "/"
        return True

    def _check_person(self, scope: MutableMapping[str, Any]) -> None:
        """Raise RequestRefused for a request of which no trusted proxy says who made it."""
        if self._people is None:
            return
        try:
            if TOKEN_KEY in scope or scope["method"] == "OPTIONS" or scope["path"] in _OPEN:
                self._people.check_peer(scope)
            else:
                scope[PERSON_KEY] = self._people.person_of(scope)
        except PersonRefused as refused:
            self._people.log(scope, refused)
            raise _denied(str(refused)) from None

    def _check(self, scope: MutableMapping[str, Any], listed: bytes | None, is_call: bool) -> None:
        """Raise RequestRefused for a request that no page of this server and no program sends.
        `listed` is its origin, if that is of a page that may call with a token; `is_call` says that
        its path is one of calls.
        """
        if _values(scope, b"content-length") and _values(scope, b"transfer-encoding"):
            text = "Content-Length and Transfer-Encoding: send one of them"
            raise RequestRefused(None, "invalid_argument", text)
        if _SPELT.search(scope["raw_path"]):
            text = "percent signs in the path: write letters, digits, - . _ ~ and / as they are"
            raise RequestRefused(404, "unimplemented", text)
        hosts = _values(scope, b"host")
        own = self._own.get(hosts[0]) if len(hosts) == 1 else None
        if own is None:
            text = "wrong Host: open the address that recollect-web printed"
            raise RequestRefused(421, "permission_denied", text)
        origins = _values(scope, b"origin")
        method, path = scope["method"], scope["path"]
        brings_token = TOKEN_KEY in scope
        if listed is not None and (brings_token or method == "OPTIONS" or path in _OPEN):
            return
        if method not in ("GET", "HEAD", "POST"):
            text = f"only {_METHODS} are answered"
            raise RequestRefused(405, "unimplemented", text, allow=_METHODS)
        if is_call and not brings_token and origins != [own]:
            self._check_program(scope, listed)
            return
        if method != "POST":
            # A browser sends none with its own requests for files; another page's is foreign.
            if any(origin != own for origin in origins):
                raise _denied("wrong Origin: this page serves nobody else")
        elif origins != [own] and not (brings_token and not origins):
            raise _denied(_WRONG_ORIGIN)
        # A link on a foreign page may open ours; nothing else may be asked for from there.
        opens = method == "GET" and b"navigate" in _values(scope, b"sec-fetch-mode")
        sites = _values(scope, b"sec-fetch-site")
        if not opens and any(site not in (b"same-origin", b"none") for site in sites):
            raise _denied("another site asks: this page serves nobody else")

    def _check_program(self, scope: MutableMapping[str, Any], listed: bytes | None) -> None:
        """Admit a call without a token that no browser sends. Raises RequestRefused for others."""
        names = {name for name, _ in scope["headers"]}
        is_of_browser = b"origin" in names or any(
            it.startswith(b"sec-fetch-") and it != b"sec-fetch-mode" for it in names
        )
        if self._people is not None or (is_of_browser and listed is None):
            raise _denied(_WRONG_ORIGIN)
        is_wrong = b"authorization" in names
        is_local = self._is_direct and not is_of_browser and names.isdisjoint(_OF_PROXY)
        if is_wrong or not is_local:
            problem = "must be there once" if is_wrong else "is missing"
            text = f"authorization: {problem}: send a token, as `Bearer rcl_...`"
            raise RequestRefused(None, "unauthenticated", text)
        scope[TOKEN_KEY] = ""


def _denied(text: str) -> RequestRefused:
    return RequestRefused(None, "permission_denied", text)


def _values(scope: MutableMapping[str, Any], name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]
