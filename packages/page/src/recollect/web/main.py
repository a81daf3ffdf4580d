"""The entry point of `recollect-web`."""

import argparse
import errno
import ipaddress
import os
import re
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from recollect import InvalidArgument
from recollect._shared.channel import ADDRESS, DEFAULT_TARGET
from recollect._shared.endpoint import Endpoint
from recollect._shared.startup import open_closed_streams
from recollect.web.proxy import PublicAddress, SignedInPeople
from recollect.web.sessions import SessionKey, Sessions

DEFAULT_LISTEN = "127.0.0.1:50080"
LISTEN = "RECOLLECT_WEB_LISTEN"
"""The environment variable with the address of the page."""
CORS = "RECOLLECT_WEB_CORS"
"""The environment variable with the origins whose pages may call."""
URL = "RECOLLECT_WEB_URL"
"""The environment variable with the address of the page behind a proxy."""
PEOPLE = "RECOLLECT_WEB_PEOPLE"
"""The environment variable with the file of the people whom a proxy signs in."""
MAX_IMPORT = "RECOLLECT_WEB_MAX_IMPORT"
"""The environment variable with the megabytes that a file to import may have."""
DEFAULT_MAX_IMPORT = 512
_MAX_PORT = 0xFFFF
_UNIX = "unix:"
_ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9]([a-z0-9.-]*[a-z0-9])?)(:[0-9]{1,5})?")


def main() -> None:
    """Serve the page until Ctrl-C, and exit: 0 is the end, 1 a failure, 2 wrong usage."""
    open_closed_streams()
    parser = argparse.ArgumentParser(
        prog="recollect-web",
        description="Serves the page on which people read, search and administer the conversations"
        " of a Recollect server. Open the address that it prints: it signs one browser in. A server"
        " that asks for tokens is signed in to on the page, or with RECOLLECT_TOKEN for everybody"
        " who opens it. Programs that speak HTTP make every call of the server here, with a token"
        " of their own where it asks for tokens, by Connect, JSON or gRPC-Web; /openapi.json describes"
        " the calls.",
    )
    parser.add_argument(
        "--address",
        default=os.environ.get(ADDRESS) or DEFAULT_TARGET,
        help=f"the server: host:port or unix:PATH [{ADDRESS}, else {DEFAULT_TARGET}]",
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=os.environ.get(LISTEN) or DEFAULT_LISTEN,
        help="a loopback address to serve the page on (port 0 takes a free one), or behind a proxy"
        f" unix:PATH [{LISTEN}, else {DEFAULT_LISTEN}]",
    )
    parser.add_argument(
        "--url",
        default=os.environ.get(URL),
        help="behind a proxy: the page's address in a browser, as https://tools.example/recollect"
        f" [{URL}]",
    )
    parser.add_argument(
        "--people",
        metavar="FILE",
        type=Path,
        default=os.environ.get(PEOPLE),
        help="the people whom the proxy signs in, and their tokens, in TOML: the guide of the page"
        f" says how [{PEOPLE}]",
    )
    parser.add_argument(
        "--cors",
        metavar="ORIGINS",
        default=os.environ.get(CORS, ""),
        help="origins, as https://app.example, whose pages may make calls with a token, separated by"
        f" commas; of no other page unless given [{CORS}]",
    )
    parser.add_argument(
        "--max-import",
        metavar="MB",
        default=os.environ.get(MAX_IMPORT) or str(DEFAULT_MAX_IMPORT),
        help="megabytes of a file that a person may import on the page; 0 for no imports"
        f" [{MAX_IMPORT}, else {DEFAULT_MAX_IMPORT}]",
    )
    parser.add_argument(
        "--space", metavar="NAME", help="the space: whose data is meant [RECOLLECT_SPACE]"
    )
    parser.add_argument(
        "--ca",
        metavar="FILE",
        help="speak TLS to the server: the authority of its certificate, or `system` [RECOLLECT_CA]",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="send tokens to the server in plain text over a network that is trusted",
    )
    parser.add_argument(
        "--until-input-ends",
        action="store_true",
        help="end when the standard input ends, as for a page beside a server",
    )
    arguments = parser.parse_args()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # a failure is one sentence, without gRPC's
    try:
        url = PublicAddress.of(arguments.url) if arguments.url else None
        is_socket = arguments.listen.startswith(_UNIX)
        people = (
            SignedInPeople.read(Path(arguments.people), is_socket) if arguments.people else None
        )
        if url is None and (is_socket or people):
            raise ValueError("--url: is required with --people and with a Unix socket")
        at = Path(arguments.listen[len(_UNIX):]) if is_socket else _host_and_port(arguments.listen, people is not None)  # fmt: skip
        origins = _origins(arguments.cors)
        most_import = _megabytes(arguments.max_import)
        endpoint = Endpoint.of(
            arguments.address,
            space=arguments.space,
            ca=arguments.ca,
            insecure=arguments.insecure,
        )
        if people and not endpoint.keeps_secrets:
            raise ValueError(
                "--people: the tokens would go to the server over the network in plain text: name the"
                " authority of its certificate with --ca, or give --insecure where the network itself"
                " is trusted"
            )
    except (ValueError, InvalidArgument) as error:
        parser.error(str(error))
    try:
        from recollect.web.app import serve

        until = sys.stdin.read if arguments.until_input_ends else None
        with _listening(at) as listening:
            addresses = [url] if url else _addresses(listening)
            sessions = Sessions(_session_key(at, url))
            is_direct = url is None
            serve(
                listening,
                addresses,
                endpoint,
                sessions,
                origins,
                people,
                until,
                is_direct=is_direct,
                most_import=most_import if find_spec("recollect.imports") else 0,
            )
    except KeyboardInterrupt:
        pass
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        sys.exit(
            f"recollect-web: cannot listen on {arguments.listen}: {reason}: choose another address"
            f" with --listen or {LISTEN}, or port 0 for a free one"
        )


@contextmanager
def _listening(at: Path | tuple[str, int]) -> Iterator[socket.socket]:
    """Listen on host and port, or at a path that the owner and the group may connect to. Raises
    OSError.
    """
    if not isinstance(at, Path):
        family = socket.AF_INET6 if ":" in at[0] else socket.AF_INET
        with socket.create_server(at, family=family) as listening:
            yield listening
        return
    with socket.socket(socket.AF_UNIX) as probe, suppress(FileNotFoundError):
        # What refuses is of one that has ended; what may not be asked can be another user's.
        is_socket = stat.S_ISSOCK(at.lstat().st_mode)
        if not is_socket or probe.connect_ex(str(at)) != errno.ECONNREFUSED:
            raise OSError(errno.EADDRINUSE, "in use")
        at.unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        before = os.umask(0o117)
        try:
            listening.bind(str(at))
        finally:
            os.umask(before)
        listening.listen()
        yield listening


def _addresses(listening: socket.socket) -> list[PublicAddress]:
    """Return the page's addresses where no proxy is before it."""
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    names = [shown, "localhost"] if host in ("127.0.0.1", "::1") else [shown]
    hosts = [f"{name}:{port}" for name in names]
    if port == 80:  # browsers leave the usual port out
        hosts += names
    return [PublicAddress(f"http://{it}", it) for it in hosts]


def _session_key(at: Path | tuple[str, int], url: PublicAddress | None) -> SessionKey:
    """Return the key of an address; a new one where a free port was asked for, another each
    time.
    """
    if url is not None:
        return SessionKey.of(re.sub("[^a-z0-9.]+", "-", f"{url.origin}{url.base}".lower()))
    return SessionKey.of(str(at[1])) if isinstance(at, tuple) and at[1] else SessionKey.new()


def _host_and_port(listen: str, is_proxied: bool) -> tuple[str, int]:
    """Return host and port of an address that only this machine reaches, or with `is_proxied`
    that others do, of which the proxy alone is served. Raises ValueError.
    """
    host, colon, port = listen.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        colon = ""
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > _MAX_PORT:
        raise ValueError(f"--listen {listen:.100}: is no address such as {DEFAULT_LISTEN}")
    if not address.is_loopback and not is_proxied:
        raise ValueError(
            f"--listen {listen:.100}: can be reached from other machines. The page is served on"
            " loopback alone: forward its port with ssh -L, or name a loopback address. A proxy on"
            " another machine needs --people"
        )
    return host, int(port)


def _megabytes(text: str) -> int:
    """Return the bytes of a number of megabytes. Raises ValueError."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len("1000000")):
        raise ValueError(f"--max-import {text:.100}: is no number of megabytes")
    return int(text) * 1_000_000


def _origins(text: str) -> frozenset[str]:
    """Return the origins in a list, separated by commas or spaces. Raises ValueError."""
    origins = text.replace(",", " ").split()
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise ValueError(
                f"--cors {origin:.100}: is no origin such as https://app.example: a scheme, a host in"
                " lower case, and a port unless it is the usual one, with nothing behind it"
            )
    return frozenset(origins)


if __name__ == "__main__":
    main()
