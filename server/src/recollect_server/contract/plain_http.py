"""A small HTTP server for pages that operators' programs read: metrics and health.

It answers GET alone, closes each connection, and has a bounded number of them at once: beyond that
the oldest is closed for the newest, so a caller that stands still keeps nobody out. It holds up no
stop.
"""

import selectors
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import structlog

from recollect_server.contract.certificates import TlsFiles, WrongCertificate, read_certificate
from recollect_server.contract.listening import CannotListen

log = structlog.get_logger("recollect.http")

_SECONDS = 5.0  # that a caller may stand still
_MOST = 16  # connections at once
_REST_SECONDS = 0.1  # after a connection that could not be taken, as without a free descriptor

Page = Callable[[str], tuple[int, str, bytes]]
"""Returns the status, the content type and the text of a page, given the caller's Accept."""
Admit = Callable[[str, str], str]
"""Returns why a caller is refused, given its Authorization and its address; empty if it is not."""


def _admit_anybody(_authorization: str, _peer: str) -> str:
    return ""


class PlainHttp:
    """One address with some pages. Started by `open`, ended by `close`."""

    def __init__(
        self,
        flag: str,
        address: str,
        pages: Mapping[str, Page],
        admit: Admit = _admit_anybody,
        tls: TlsFiles | None = None,
    ) -> None:
        """`flag` is the one that names the address, for errors. `pages` by their paths. With `tls`
        it speaks HTTPS; the files are read again at each connection.
        """
        self._flag = flag
        self._address = address
        self._pages = pages
        self._admit = admit
        self._tls = tls
        self._wake, self._woken = socket.socketpair()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"http-{flag}", daemon=True)

    def open(self) -> str:
        """Listen, and return the address with its port. Raises CannotListen."""
        host, _, port = self._address.rpartition(":")
        try:
            if self._tls is not None:
                read_certificate(self._tls)
            (family, _, _, _, place), *_ = socket.getaddrinfo(
                host.strip("[]"), int(port), type=socket.SOCK_STREAM
            )
            self._server = _Server(family, place, self)
        except (OSError, UnicodeError, WrongCertificate) as error:
            self._wake.close()
            self._woken.close()
            reason = error.strerror if isinstance(error, OSError) else str(error)
            if isinstance(error, UnicodeError):  # of a name that IDNA cannot encode
                reason = "no host can have this name"
            raise CannotListen(
                f"cannot listen on {self._address}: {(reason or str(error)).lower()}:"
                f" name another address with --{self._flag}"
            ) from error
        self._thread.start()
        return f"{host}:{self._server.server_address[1]}"

    def close(self) -> None:
        """Take no more connections, and read no more from those that are open: they end by
        themselves, within seconds.
        """
        self._closing.set()
        self._wake.send(b"\0")
        self._thread.join()
        self._server.server_close()
        self._server.leave()
        self._wake.close()
        self._woken.close()

    def answer(
        self, path: str, accept: str, authorization: str, peer: str
    ) -> tuple[int, str, bytes]:
        """Return the status, the content type and the text for a request."""
        page = self._pages.get(path.partition("?")[0])
        if page is None:
            return text_page(HTTPStatus.NOT_FOUND, f"there is only {', '.join(self._pages)}")
        if refusal := self._admit(authorization, peer):
            return text_page(HTTPStatus.UNAUTHORIZED, refusal)
        try:
            return page(accept)
        except Exception:  # the end of what was foreseen: the next request is answered
            log.exception("fault", page=path)
            return text_page(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the page failed: see the server's log"
            )

    def secured(self, connection: socket.socket) -> socket.socket:
        """Return a connection as it is to be spoken on, before any handshake. Raises OSError."""
        if self._tls is None:
            return connection
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._tls.certificate, self._tls.key)
        if self._tls.client_ca is not None:
            context.load_verify_locations(self._tls.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._server.socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while all(key.fileobj is not self._woken for key, _ in selector.select()):
                try:
                    self._server.take()
                except OSError:  # the caller stays in the queue: without a rest this would spin
                    self._closing.wait(_REST_SECONDS)


def text_page(status: int, text: str) -> tuple[int, str, bytes]:
    return status, "text/plain; charset=utf-8", f"{text}\n".encode()


class _Server(ThreadingHTTPServer):
    """The listening socket, and a thread for each connection."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, family: socket.AddressFamily, place: Any, http: PlainHttp) -> None:
        self.address_family = family
        self.http = http
        self._guard = threading.Lock()  # guards `_open`
        # by what was accepted, which TLS replaces; the oldest first
        self._open: dict[socket.socket, socket.socket] = {}
        super().__init__(place, _Handler)
        self.socket.setblocking(False)

    def server_bind(self) -> None:
        """Bind, without asking for the name of the host."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def take(self) -> None:
        """Take one connection, and answer it in a thread if there is room. Raises OSError if the
        system gives none.
        """
        try:
            connection, peer = self.get_request()
        except (BlockingIOError, ConnectionError):  # the caller left meanwhile
            return
        with self._guard:
            if len(self._open) >= _MOST:
                _shut(self._open.pop(next(iter(self._open))), socket.SHUT_RDWR)
            self._open[connection] = connection
        try:
            self.process_request(connection, peer)
        except RuntimeError:  # no thread can be started
            with self._guard:
                self._open.pop(connection, None)
            self.shutdown_request(connection)

    def leave(self) -> None:
        """Read no more from any connection. Answers that are being written are finished."""
        with self._guard:
            for connection in self._open.values():
                _shut(connection, socket.SHUT_RD)
            self._open.clear()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        taken = request
        try:
            request.settimeout(_SECONDS)
            with suppress(OSError):
                request = self.http.secured(request)
                with self._guard:
                    if taken not in self._open:  # it gave way
                        return
                    self._open[taken] = request
                if isinstance(request, ssl.SSLSocket):
                    request.do_handshake()
                self.finish_request(request, client_address)
        finally:
            with self._guard:
                self._open.pop(taken, None)
            self.shutdown_request(request)


def _shut(connection: socket.socket, how: int) -> None:
    """Shut a connection that another thread may be using."""
    with suppress(OSError):
        # That of SSLSocket would first turn TLS off, under a thread that may be writing.
        socket.socket.shutdown(connection, how)


class _Handler(BaseHTTPRequestHandler):
    timeout = _SECONDS
    server: _Server

    def do_GET(self) -> None:
        headers = self.headers
        host, port, *_ = self.client_address
        status, kind, body = self.server.http.answer(
            self.path,
            headers.get("Accept", ""),
            headers.get("Authorization", ""),
            # as gRPC names it
            f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}",
        )
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """Return the name of the server, without versions."""
        return "recollect"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Log nothing: programs ask every few seconds."""
