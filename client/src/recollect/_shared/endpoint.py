"""The far end of a client's connection, and what is shown to it: address, token, space, TLS.
Arguments win over the environment.
"""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from os import PathLike
from pathlib import Path

import grpc

from recollect._shared.channel import ADDRESS, DEFAULT_TARGET, checked_target
from recollect._shared.fill import invalid

TOKEN = "RECOLLECT_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable with the token that goes with every call."""
SPACE = "RECOLLECT_SPACE"
"""The environment variable with the space to call."""
CA = "RECOLLECT_CA"
"""The environment variable with the authority of the server's certificate."""
CLIENT_CERT, CLIENT_KEY = "RECOLLECT_CLIENT_CERT", "RECOLLECT_CLIENT_KEY"
"""The environment variables with the client's own certificate and its key."""
SYSTEM = "system"
"""The value of `ca` for the authorities that this machine trusts anyway."""

Pem = str | PathLike[str] | bytes
"""A file in PEM by its path, or its content."""

_SPACE = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,63}|[a-z0-9._+-]{0,63}@[a-z0-9][a-z0-9.-]{0,62})")
_WITHOUT_NETWORK = ("unix:", "unix-abstract:", "vsock:")
_CERTIFICATE, _KEY = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"


@dataclass(frozen=True, slots=True)
class Tls:
    """The authorities that a server's certificate may come from; the client's own certificate."""

    source: str
    """A name for the authorities in sentences: their file, if they come from one."""
    roots: bytes | None
    """The authorities in PEM; None for the list that gRPC brings."""
    chain: bytes | None = None
    key: bytes | None = field(default=None, repr=False)

    def credentials(self) -> grpc.ChannelCredentials:
        """Return the credentials of a channel."""
        return grpc.ssl_channel_credentials(self.roots, self.key, self.chain)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's address with all that a connection to it needs, checked."""

    target: str
    metadata: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Goes with every call. It holds the token, and never appears in an error's text."""
    tls: Tls | None = None
    """None: plain text."""
    keeps_secrets: bool = True
    """False if a token would go over a network in plain text, and nobody called that safe."""

    @classmethod
    def of(
        cls,
        target: str | None,
        *,
        token: str | None = None,
        space: str | None = None,
        ca: Pem | None = None,
        cert: tuple[Pem, Pem] | None = None,
        insecure: bool = False,
        environment: Mapping[str, str] = os.environ,
    ) -> "Endpoint":
        """Check what a caller gives, or the environment instead. Raises InvalidArgument."""
        target = environment.get(ADDRESS) or DEFAULT_TARGET if target is None else target
        checked_target(target)
        token = environment.get(TOKEN) or None if token is None else token
        space = environment.get(SPACE) or None if space is None else space
        tls = None
        if not target.startswith(_WITHOUT_NETWORK):
            tls = _tls(ca, cert, environment)
        keeps_secrets = tls is not None or insecure or _is_local(target)
        if token is not None and not keeps_secrets:
            raise invalid(
                "token",
                f"would go to {target:.200} over the network in plain text: name the authority of"
                f' the server\'s certificate with ca ({CA}; "{SYSTEM}" for a public one), or say'
                " insecure=True (--insecure) where the network itself is trusted",
            )
        return cls(target, (*_authorization(token), *_space(space)), tls, keeps_secrets)


def _authorization(token: str | None) -> tuple[tuple[str, str], ...]:
    if token is None:
        return ()
    if not token or not all("!" <= character <= "~" for character in token):
        raise invalid("token", "must be printable ASCII without spaces, and not empty")
    return (("authorization", f"Bearer {token}"),)


def checked_space(space: str) -> str:
    """Return the name of a space. Raises InvalidArgument for a text that is none."""
    if not isinstance(space, str) or not _SPACE.fullmatch(space):
        raise invalid(
            "space",
            "must be 1 to 64 lower case letters, digits, _ and -, beginning with a letter or digit,"
            f" or an e-mail address in lower case, not {space!a:.100}",
        )
    return space


def _space(space: str | None) -> tuple[tuple[str, str], ...]:
    return () if space is None else (("recollect-space", checked_space(space)),)


def _tls(
    ca: Pem | None, cert: tuple[Pem, Pem] | None, environment: Mapping[str, str]
) -> Tls | None:
    name = "ca"
    if ca is None and (named := environment.get(CA)):
        ca, name = named, f"ca ({CA})"
    own = (environment.get(CLIENT_CERT), environment.get(CLIENT_KEY))
    if cert is None and own[0] and own[1]:
        cert = (own[0], own[1])
    if ca is None:
        if cert is not None:
            raise invalid("ca", "is needed beside cert, to know the server by its certificate")
        return None
    if ca == SYSTEM:
        source, roots = "the authorities that this machine trusts", _system_roots()
    else:
        source = "ca" if isinstance(ca, bytes) else os.fspath(ca)
        roots = _pem(ca, name, _CERTIFICATE, "certificate")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(
                cadata=roots.decode("ascii", "ignore")
            )
        except ssl.SSLError as error:
            raise invalid(name, "holds a certificate that is damaged or cut off") from error
    if cert is None:
        return Tls(source, roots)
    chain = _pem(cert[0], "cert[0]", _CERTIFICATE, "certificate")
    return Tls(source, roots, chain, _pem(cert[1], "cert[1]", _KEY, "private key"))


def _pem(given: Pem, name: str, marker: bytes, noun: str) -> bytes:
    """Return PEM that is given, or read. Raises InvalidArgument, which never shows the content."""
    try:
        content = given if isinstance(given, bytes) else Path(given).read_bytes()
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise invalid(name, f"cannot be read: {given!a:.200}: {reason}") from error
    if marker not in content:
        raise invalid(name, f"holds no {noun} in PEM")
    return content


def _system_roots() -> bytes | None:
    """Return the authorities of this machine; None where it has no such file, for those of gRPC."""
    file = ssl.get_default_verify_paths().cafile
    try:
        return Path(file).read_bytes() if file else None
    except OSError:
        return None


def host_and_port(target: str) -> tuple[str, int] | None:
    """Return the first host of a checked target, and its port; None if it names none."""
    scheme, _, rest = target.partition(":")
    if scheme in ("unix", "unix-abstract", "vsock", "xds"):
        return None
    if scheme in ("dns", "ipv4", "ipv6") and not rest.isdecimal():
        target = rest.rpartition("/")[2].partition(",")[0]
    host, _, port = target.rpartition(":")
    return host.strip("[]"), int(port)


def _is_local(target: str) -> bool:
    """Return whether a target never leaves this machine."""
    if target.startswith(_WITHOUT_NETWORK):
        return True
    _, _, addresses = target.rpartition("/")
    return all(_is_loopback(address) for address in addresses.split(","))


def _is_loopback(target: str) -> bool:
    named = host_and_port(target)
    if named is None:
        return False
    try:
        return named[0] == "localhost" or ip_address(named[0]).is_loopback
    except ValueError:
        return False
