"""Addresses that a server listens on: `unix:PATH` or `HOST:PORT`, IPv6 hosts between brackets."""

import re
from ipaddress import ip_address

UNIX = "unix:"
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[A-Za-z0-9][A-Za-z0-9.-]*):(\d{1,5})")
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - compared, not listened on
_MAX_PORT = 65535


def split(listen: str) -> tuple[str, ...]:
    """Return the addresses of a list that commas separate. Even a socket's path holds none: gRPC's
    clients split there too.
    """
    return tuple(it.strip() for it in listen.split(",")) if "," in listen else (listen,)


def problem(address: str) -> str:
    """Return what is wrong with the form of an address; empty if nothing is."""
    if address.startswith(UNIX):
        return "" if len(address) > len(UNIX) else "names no path after unix:"
    match = _HOST_PORT.fullmatch(address)
    if match is None or (match[1].startswith("[") and not _is_ip(match[1][1:-1])):
        return "must be unix:PATH or HOST:PORT as 127.0.0.1:50051; commas separate several"
    if int(match[2]) > _MAX_PORT:
        return f"has port {match[2]}; ports end at {_MAX_PORT}"
    return ""


def is_local(address: str) -> bool:
    """Return whether only programs of this machine reach an address."""
    if address.startswith(UNIX):
        return True
    host = address.rpartition(":")[0].strip("[]")
    return host == "localhost" or (_is_ip(host) and ip_address(host).is_loopback)


def to_call(address: str) -> str:
    """Return the address at which this machine calls it: a wildcard stands for all, and is none."""
    host, colon, port = address.rpartition(":")
    return f"{_WILDCARDS[host]}{colon}{port}" if host in _WILDCARDS else address


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
