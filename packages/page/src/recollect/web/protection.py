"""Checks of every request before it is answered, and the headers of every answer."""

import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from recollect.web.proxy import PERSON_KEY, PersonRefused, PublicAddress, SignedInPeople

App = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types recollect"
)
_HEADERS = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "x-frame-options": "DENY",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
    }.items()
)
TOKEN_KEY = "recollect.token"  # noqa: S105 - a key of a request's scope
"""The key of a request's scope under which the token is that it brought."""
DOCUMENT = "/openapi.json"
"""The path of the OpenAPI document, which any program may read."""
_BEARER = re.compile(rb"bearer +([!-~]{1,512})", re.IGNORECASE)
_SPELT = re.compile(rb"%(2[def]|3[0-9]|[46][1-9a-f]|[57][0-9a]|5f|7e)", re.IGNORECASE)
"""Characters that a path has no reason to encode (RFC 3986, 2.3), and the slash. Another spelling
of a path would pass the rule of a proxy that forbids the usual one.
"""
_CORS = (
    (b"access-control-allow-methods", b"POST, GET"),
    (
        b"access-control-allow-headers",
        b"authorization, content-type, recollect-space, connect-protocol-version,"
        b" connect-timeout-ms, grpc-timeout, x-grpc-web, x-user-agent",
    ),
    (b"access-control-max-age", b"7200"),
)
_EXPOSED = b"retry-after, grpc-status, grpc-message, grpc-status-details-bin"


class Protection:
    """Refuses requests that neither a page of this server nor a program with a token sends, before
    anything else sees them.

    A foreign page that had its own name resolved to this machine (DNS rebinding) passes every check
    of addresses, but its requests carry its own name as `Host`. A foreign page that calls this
    address carries its own `Origin`. Both headers must therefore be exactly ours, and there once.

    A program sends no `Origin`: it brings a token instead, in a header that no form can set, and
    that scripts of a foreign page may set only if this process allows it to their origin, as it
    does to those that it was started for. `Host` must be ours with a token, too: a server without
    tokens takes any.

    What it passes on has the path within the page: without the one that a proxy serves it under.
    """

    def __init__(
        self,
        app: App,
        addresses: Iterable[PublicAddress],
        origins: Iterable[str] = (),
        people: SignedInPeople | None = None,
    ) -> None:
        """`addresses` are the page's own, of one path; `origins` are those of the pages that may
        call with a token; `people` may call by the word of a proxy, and nobody else without a
        token.
        """
        self._app = app
        self._own = {it.host.encode(): it.origin.encode() for it in addresses}
        [self._base] = {it.base for it in addresses}
        self._origins = {origin.encode() for origin in origins}
        self._people = people

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no WebSocket: the handshake is refused

        is_within = self._enter(scope)
        origin = self._listed_origin(scope)
        headers = [*_HEADERS]
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
        if bearer is not None and not scope["path"].startswith("/session/"):
            scope[TOKEN_KEY] = bearer[1].decode()
        refusal = self._refusal(scope, origin) or self._refusal_of_person(scope)
        if refusal is None and not is_within:
            refusal = 404, f"the page is at {self._base}/\n"
        if refusal is None and scope["method"] == "OPTIONS":
            await with_headers({"type": "http.response.start", "status": 204, "headers": [*_CORS]})
            await with_headers({"type": "http.response.body", "body": b""})
            return
        if refusal is None:
            await self._app(scope, receive, with_headers)
            return
        status, text = refusal
        own = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        await with_headers({"type": "http.response.start", "status": status, "headers": own})
        await with_headers({"type": "http.response.body", "body": text.encode()})

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

    def _refusal_of_person(self, scope: MutableMapping[str, Any]) -> tuple[int, str] | None:
        """Return status and text for a request of which no trusted proxy says who made it."""
        if self._people is None:
            return None
        try:
            if TOKEN_KEY in scope or scope["method"] == "OPTIONS" or scope["path"] == DOCUMENT:
                self._people.check_peer(scope)
            else:
                scope[PERSON_KEY] = self._people.person_of(scope)
        except PersonRefused as refused:
            self._people.log(scope, refused)
            return 403, f"{refused}\n"
        return None

    def _refusal(
        self, scope: MutableMapping[str, Any], listed: bytes | None
    ) -> tuple[int, str] | None:
        """Return status and text for a request that is refused. `listed` is its origin, if that is
        of a page that may call with a token.
        """
        if _values(scope, b"content-length") and _values(scope, b"transfer-encoding"):
            return 400, "Content-Length and Transfer-Encoding: send one of them\n"
        if _SPELT.search(scope["raw_path"]):
            return (
                404,
                "percent signs in the path: write letters, digits, - . _ ~ and / as they are\n",
            )
        hosts = _values(scope, b"host")
        own = self._own.get(hosts[0]) if len(hosts) == 1 else None
        if own is None:
            return 421, "wrong Host: open the address that recollect-web printed\n"
        origins = _values(scope, b"origin")
        brings_token = TOKEN_KEY in scope
        if listed is not None and (
            brings_token or scope["method"] == "OPTIONS" or scope["path"] == DOCUMENT
        ):
            return None
        if scope["method"] in ("GET", "HEAD"):
            # A browser sends none with its own requests for files; another page's is foreign.
            if any(origin != own for origin in origins):
                return 403, "wrong Origin: this page serves nobody else\n"
        elif scope["method"] != "POST":
            return 405, "only GET and POST\n"
        elif origins != [own] and not (brings_token and not origins):
            return 403, (
                "wrong Origin: this page serves nobody else. A program brings a token, as"
                " `authorization: Bearer rcl_...`; --cors of recollect-web names the origins of pages"
                " that may\n"
            )
        # A link on a foreign page may open ours; nothing else may be asked for from there.
        opens = scope["method"] == "GET" and b"navigate" in _values(scope, b"sec-fetch-mode")
        sites = _values(scope, b"sec-fetch-site")
        if not opens and any(site not in (b"same-origin", b"none") for site in sites):
            return 403, "another site asks: this page serves nobody else\n"
        return None


def _values(scope: MutableMapping[str, Any], name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]
