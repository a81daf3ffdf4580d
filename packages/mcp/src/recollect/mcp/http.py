"""Streamable HTTP: for programs of this machine, or with TLS and a token for those of others."""

import asyncio
import hmac
import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

from recollect._shared.startup import print_notice

TOKEN = "RECOLLECT_MCP_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable with the token that callers of the bridge present."""
PATH = "/mcp"

_MAX_CONNECTIONS = 256
"""Open at the same time over HTTP, streams that wait for nothing included. A request over another
one is answered 503.
"""
_SHUTDOWN_GRACE = 2
"""Seconds that a stop waits for open streams."""
_RENEWAL_SECONDS = 0.5
"""Between two looks at the files of the certificate."""
_LEAST_TOKEN = 20
"""Characters of a token that nobody guesses."""
_HTTPS = 443
_NAME = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)(?::([0-9]{1,5}))?")

App = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """The address of a bridge over HTTP, and what protects it. All of it is checked."""

    host: str
    port: int
    names: tuple[str, ...]
    """`Host` headers that are accepted; a name without a port gets the one that is listened on."""
    token: str | None = field(repr=False)
    certificate: Path | None
    key: Path | None

    @classmethod
    def of(
        cls,
        listen: str,
        names: tuple[str, ...] = (),
        token: str | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> "HttpOptions":
        """Check the options of a command line. Raises ValueError, which names the wrong one."""
        host, port = _host_and_port(listen)
        if token is not None and (len(token) < _LEAST_TOKEN or not token.isascii()):
            raise ValueError(
                f"{TOKEN}: must have {_LEAST_TOKEN} characters or more: `openssl rand -hex 32`"
                " makes one"
            )
        if (certificate is None) != (key is None):
            raise ValueError("--tls-cert and --tls-key: each needs the other")
        if certificate is not None:
            _check_certificate(certificate, key)
        for name in names:
            if not _NAME.fullmatch(name):
                raise ValueError(f"--host {name:.100}: is no name such as recollect.example")
        address = ipaddress.ip_address(host)
        if not address.is_loopback:
            _check_protection(listen, certificate, token)
        if address.is_unspecified and not names:
            raise ValueError(
                f"--http {listen}: stands for every address of this machine: name the host by which"
                " callers know it with --host"
            )
        return cls(host, port, names, token, certificate, key)

    @property
    def scheme(self) -> str:
        """Return `https`, or `http` without a certificate."""
        return "http" if self.certificate is None else "https"

    def security(self, port: int) -> TransportSecuritySettings:
        """Return the `Host` and `Origin` headers that are accepted on a port."""
        names = self.names or (_shown(self.host), "127.0.0.1", "localhost", "[::1]")
        hosts = []
        for name in names:
            match = _NAME.fullmatch(name)
            assert match is not None
            number = int(match[2] or port)
            hosts.append(f"{match[1]}:{number}")
            if self.scheme == "https" and number == _HTTPS:
                hosts.append(match[1])  # browsers and clients leave the usual port out
        return TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=hosts,
            allowed_origins=[f"{self.scheme}://{host}" for host in hosts],
        )


def _host_and_port(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        colon = ""
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 0xFFFF:
        raise ValueError(f"--http {listen:.100}: is no address such as 127.0.0.1:8765")
    return host, int(port)


def _check_certificate(certificate: Path, key: Path | None) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            certificate, key, password=lambda: b""
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(
            f"--tls-cert {certificate}: cannot be used with --tls-key {key}: {reason}"
        ) from None


def _check_protection(listen: str, certificate: Path | None, token: str | None) -> None:
    """Refuse an address that other machines reach without TLS and a token."""
    if certificate is None:
        raise ValueError(
            f"--http {listen}: can be reached from other machines, so it needs TLS: name a"
            " certificate and its key with --tls-cert and --tls-key, or listen on a loopback"
            " address as 127.0.0.1:8765"
        )
    if token is None:
        raise ValueError(
            f"--http {listen}: can be reached from other machines, so it needs a token that its"
            f" callers present: set {TOKEN} (`openssl rand -hex 32` makes one)"
        )


async def serve_http(server: Server[Any], options: HttpOptions, target: str) -> None:
    """Serve on a port for ever. Raises OSError where it cannot listen."""
    import uvicorn

    from recollect._bounded_http import BoundedHttp

    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    with socket.create_server((options.host, options.port), family=family) as listening:
        port = listening.getsockname()[1]
        # Without sessions: no tool needs one, and each that a host never ended was kept for
        # ever, some 40 KiB of memory. The headers are given even where mcp would set them: it does
        # so for three spellings of this machine, and 127.0.0.2 is none of them.
        app: App = server.streamable_http_app(
            streamable_http_path=PATH,
            stateless_http=True,
            transport_security=options.security(port),
            host=options.host,
        )
        if options.token is not None:
            app = _with_token(app, options.token)
        url = f"{options.scheme}://{_shown(options.host)}:{port}{PATH}"
        print_notice(f"recollect-mcp listens on {url} and asks {target}")
        config = uvicorn.Config(
            app,
            log_level="error",
            http=BoundedHttp,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_SHUTDOWN_GRACE,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.key,
        )
        config.load()
        async with asyncio.TaskGroup() as tasks:
            renewal = tasks.create_task(_renew(config.ssl, options))
            await uvicorn.Server(config).serve(sockets=[listening])
            renewal.cancel()


async def _renew(context: ssl.SSLContext | None, options: HttpOptions) -> None:
    """Let new connections have the certificate that is in the files, within a second of a change.
    Files that do not fit each other yet change nothing.
    """
    if context is None or options.certificate is None:
        return
    files = options.certificate, options.key or options.certificate
    before = _marks(files)
    while True:
        await asyncio.sleep(_RENEWAL_SECONDS)
        now = _marks(files)
        if now == before:
            continue
        try:
            # first in a context of its own: one that fails may be left with half of it
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*files)
            context.load_cert_chain(*files)
        except (OSError, ssl.SSLError):
            continue  # it is tried again: the files may be half-written
        before = now


def _marks(files: tuple[Path, ...]) -> list[tuple[int, int, int]]:
    """Return what changes with the files; empty while one is missing."""
    try:
        return [(it.st_ino, it.st_size, it.st_mtime_ns) for it in map(os.stat, files)]
    except OSError:
        return []


def _with_token(app: App, token: str) -> App:
    """Return an application that answers 401 to requests without the token."""
    expected = f"Bearer {token}".encode()

    async def guarded(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        presented = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
        if scope["type"] == "http" and not (
            len(presented) == 1 and hmac.compare_digest(presented[0], expected)
        ):
            headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return guarded


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
