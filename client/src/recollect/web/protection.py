"""Checks of every request before it is answered, and the headers of every answer."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

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


class Protection:
    """Refuses requests that no page of this server sends, before anything else sees them.

    A foreign page that had its own name resolved to this machine (DNS rebinding) passes every check
    of addresses, but its requests carry its own name as `Host`. A foreign page that calls this
    address carries its own `Origin`. Both headers must therefore be exactly ours, and there once.
    """

    def __init__(self, app: App, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = {host.encode() for host in hosts}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no WebSocket: the handshake is refused

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, with_headers)
            return
        status, text = refusal
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        await with_headers({"type": "http.response.start", "status": status, "headers": headers})
        await with_headers({"type": "http.response.body", "body": text.encode()})

    def _refusal(self, scope: MutableMapping[str, Any]) -> tuple[int, str] | None:
        """Return status and text for a request that is refused."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return 421, "wrong Host: open the address that recollect-web printed\n"
        origins = _values(scope, b"origin")
        if scope["method"] in ("GET", "HEAD"):
            # A browser sends none with its own requests for files; another page's is foreign.
            if any(origin != b"http://" + hosts[0] for origin in origins):
                return 403, "wrong Origin: this page serves nobody else\n"
        elif scope["method"] != "POST":
            return 405, "only GET and POST\n"
        elif origins != [b"http://" + hosts[0]]:
            return 403, "wrong Origin: this page serves nobody else\n"
        # A link on a foreign page may open ours; nothing else may be asked for from there.
        opens = scope["method"] == "GET" and b"navigate" in _values(scope, b"sec-fetch-mode")
        sites = _values(scope, b"sec-fetch-site")
        if not opens and any(site not in (b"same-origin", b"none") for site in sites):
            return 403, "another site asks: this page serves nobody else\n"
        return None


def _values(scope: MutableMapping[str, Any], name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]
