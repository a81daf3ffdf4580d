"""The connection's parts: target and options."""

import re

from recollect._shared.fill import invalid

ADDRESS = "RECOLLECT_ADDRESS"
"""The environment variable with the server's address."""
DEFAULT_TARGET = "127.0.0.1:50051"
DEFAULT_TIMEOUT = 30.0

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    # The client repeats calls itself: it knows which are safe, gRPC does not.
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # Notices a server that went away without a word, only while a call waits for it.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 0),
    # A call with its retries must meet a server soon after it is back: gRPC's own pauses (1 s,
    # growing to 2 min) would hide it.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    # Recollect is called directly: a proxy for web pages in the environment leads nowhere.
    ("grpc.enable_http_proxy", 0),
)


_HOST = re.compile(r"\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]|[^\[\]:,/\s]+")
_RESOLVED = {"dns", "ipv4", "ipv6"}
"""Schemes of gRPC that name hosts and ports."""
_NOT_CHECKED = {"unix-abstract", "vsock", "xds"}
"""Schemes of gRPC whose addresses are left to gRPC."""
_NEVER_IN_ADDRESS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, and half characters that UTF-8 cannot carry."""
_MAX_SOCKET_PATH = 107
"""Bytes of a socket's path that a system's address has room for."""


def checked_target(target: str) -> str:
    """Return the target if it is `HOST:PORT`, `unix:PATH` or another address that gRPC knows; else
    raise InvalidArgument.

    gRPC itself takes a port beyond 65535 modulo 65536, and so reaches another server.
    """
    problem = _problem_of(target)
    if problem:
        raise invalid(
            "target",
            f"{problem}: give an address such as {DEFAULT_TARGET} or unix:PATH, not"
            f" {target!a:.200}",
        )
    return target


def _problem_of(target: object) -> str:
    """Return what is wrong with a target, or an empty text."""
    if not isinstance(target, str):
        return "is not text"
    if not target:
        return "is empty"
    if target != target.strip() or _NEVER_IN_ADDRESS.search(target):
        return "holds characters that no address has"
    if target.startswith(("http:", "https:", "grpc:", "grpcs:", "tcp:")):
        return "must be without a scheme"
    scheme, _, rest = target.partition(":")
    if scheme == "unix":
        path = rest.removeprefix("//")
        if not path or (rest != path and not path.startswith("/")):
            return "names no path, or none that begins with / after unix://"
        return "has a path that is too long" if len(path.encode()) > _MAX_SOCKET_PATH else ""
    if scheme in _NOT_CHECKED:
        return "" if rest else "names nothing"
    if scheme in _RESOLVED and not rest.isdecimal():
        addresses = [rest.rpartition("/")[2]] if scheme == "dns" else rest.lstrip("/").split(",")
        return next(filter(None, map(_problem_of_address, addresses)), "")
    return _problem_of_address(target)


def _problem_of_address(address: str) -> str:
    """Return what is wrong with `HOST:PORT`, or an empty text."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        return "has no port"
    if not host:
        return "has no host"
    if not re.fullmatch(r"[0-9]{1,9}", port) or not 1 <= int(port) <= 0xFFFF:
        return f"has the port {port:.20}, and ports are numbers from 1 to 65535"
    if not _HOST.fullmatch(host):
        return "has a host that cannot be read (an IPv6 address stands between brackets)"
    return ""
