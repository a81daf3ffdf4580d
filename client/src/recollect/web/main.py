"""The entry point of `recollect-web`."""

import argparse
import ipaddress
import os
import re
import sys
from importlib.util import find_spec

from recollect import InvalidArgument
from recollect._shared.channel import ADDRESS, DEFAULT_TARGET
from recollect._shared.endpoint import Endpoint
from recollect._shared.startup import open_closed_streams

DEFAULT_LISTEN = "127.0.0.1:50080"
LISTEN = "RECOLLECT_WEB_LISTEN"
"""The environment variable with the address of the page."""
CORS = "RECOLLECT_WEB_CORS"
"""The environment variable with the origins whose pages may call."""
_MAX_PORT = 0xFFFF
_ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9]([a-z0-9.-]*[a-z0-9])?)(:[0-9]{1,5})?")


def main() -> None:
    """Serve the page until Ctrl-C, and exit: 0 is the end, 1 a failure, 2 wrong usage."""
    open_closed_streams()
    parser = argparse.ArgumentParser(
        prog="recollect-web",
        description="Serves the page on which people read, search and administer the conversations"
        " of a Recollect server. Open the address that it prints: it signs one browser in. A server"
        " that asks for tokens is signed in to on the page, or with RECOLLECT_TOKEN for everybody"
        " who opens it. Programs that speak HTTP make every call of the server here with a token of"
        " their own, by Connect, JSON or gRPC-Web; /openapi.json describes the calls.",
    )
    address = os.environ.get(ADDRESS) or DEFAULT_TARGET
    text = f"the server: host:port or unix:PATH [{ADDRESS}, else {DEFAULT_TARGET}]"
    parser.add_argument("--address", default=address, help=text)
    listen = os.environ.get(LISTEN) or DEFAULT_LISTEN
    text = "a loopback address to serve the page on; port 0 takes a free one"
    text += f" [{LISTEN}, else {DEFAULT_LISTEN}]"
    parser.add_argument("--listen", metavar="HOST:PORT", default=listen, help=text)
    text = "origins, as https://app.example, whose pages may make calls with a token, separated by"
    parser.add_argument("--cors", default=os.environ.get(CORS, ""), metavar="ORIGINS",
                        help=f"{text} commas; of no other page unless given [{CORS}]")  # fmt: skip
    text = "the space: whose data is meant [RECOLLECT_SPACE]"
    parser.add_argument("--space", metavar="NAME", help=text)
    text = "speak TLS to the server: the authority of its certificate, or `system` [RECOLLECT_CA]"
    parser.add_argument("--ca", metavar="FILE", help=text)
    text = "send tokens to the server in plain text over a network that is trusted"
    parser.add_argument("--insecure", action="store_true", help=text)
    text = "end when the standard input ends, as for a page beside a server"
    parser.add_argument("--until-input-ends", action="store_true", help=text)
    arguments = parser.parse_args()
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        sys.exit(f"recollect-web needs {missing[0]}: pip install 'recollect-client[web]'")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # a failure is one sentence, without gRPC's
    try:
        host, port = _loopback(arguments.listen)
        origins = _origins(arguments.cors)
        endpoint = Endpoint.of(
            arguments.address,
            space=arguments.space,
            ca=arguments.ca,
            insecure=arguments.insecure,
        )
    except (ValueError, InvalidArgument) as error:
        parser.error(str(error))
    try:
        from recollect.web.app import serve

        serve(host, port, endpoint, origins, sys.stdin.read if arguments.until_input_ends else None)
    except KeyboardInterrupt:
        pass
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        sys.exit(
            f"recollect-web: cannot listen on {arguments.listen}: {reason}: choose another address"
            f" with --listen or {LISTEN}, or port 0 for a free one"
        )


def _loopback(listen: str) -> tuple[str, int]:
    """Return host and port of an address that only this machine reaches. Raises ValueError."""
    host, colon, port = listen.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        colon = ""
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > _MAX_PORT:
        raise ValueError(f"--listen {listen:.100}: is no address such as {DEFAULT_LISTEN}")
    if not address.is_loopback:
        raise ValueError(
            f"--listen {listen:.100}: can be reached from other machines. The page is served on"
            " loopback alone: forward its port with ssh -L, or name a loopback address"
        )
    return host, int(port)


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
