"""The page behind a reverse proxy: its public address, and the people whom the proxy signs in."""

import ipaddress
import os
import re
import stat
import time
import tomllib
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from recollect._shared.startup import print_notice

TOKEN_FORM = re.compile(r"[!-~]{1,512}")
"""The form of a token."""
PERSON_KEY = "recollect.person"
"""The key of a request's scope under which the person is whom the proxy signed in."""
_PUBLIC = re.compile(
    r"(?P<origin>(?P<scheme>https?)://(?P<host>(?:\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)"
    r"(?::[0-9]{1,5})?))(?P<base>(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*)/?"
)
_PERSON = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@+-]{0,126}[A-Za-z0-9])?")
_HEADER = re.compile(r"[a-z][a-z0-9-]{1,63}")
_OWN_HEADER = re.compile(
    "accept.*|authorization|connect.*|content-.*|cookie|grpc-.*|host|if-.*|origin|recollect-space"
    "|referer|sec-.*|te|transfer-encoding|upgrade|user-agent|x-grpc-web|x-user-agent"
)
_SIGN_OUT = re.compile(r"(?:https://[a-z0-9.:-]+)?/(?:[!-.0-\[\]-~][!-\[\]-~]*)?")
_PAUSE = 10.0
"""Seconds between two lines in the log about refusals of one kind."""


@dataclass(frozen=True, slots=True)
class PublicAddress:
    """The address of the page as browsers see it."""

    origin: str
    host: str
    base: str = ""
    """The path before all of the page's own; empty at the root."""

    @classmethod
    def of(cls, url: str) -> Self:
        """Return the address in a URL. Raises ValueError."""
        match = _PUBLIC.fullmatch(url)
        if match is None:
            raise ValueError(
                f"--url {url:.100}: is no address such as https://tools.example/recollect: a scheme,"
                " a host in lower case, a port unless it is the usual one, and plain names as path"
            )
        return cls(match["origin"], match["host"], match["base"])

    @property
    def is_secure(self) -> bool:
        """True if browsers reach it by TLS."""
        return self.origin.startswith("https:")


class PersonRefused(Exception):
    """A request of which it is not certain who made it, or whose person has no token here."""

    def __init__(self, kind: str, text: str, detail: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        """The reason in a word: the log has a line of each kind in ten seconds at most."""
        self.detail = detail
        """Facts for the log alone, as a path."""


@dataclass(slots=True)
class SignedInPeople:
    """The people whom a trusted proxy may name in a header, and the file of each one's token."""

    path: Path
    header: bytes
    peers: frozenset[str]
    """The addresses of the proxy; none: a Unix socket, which only its owner and group may open."""
    files: dict[str, Path]
    sign_out: str = ""
    """The address that ends the proxy's own session; empty: a browser stays on the page."""
    _tokens: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict, repr=False)
    _logged: dict[str, float] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: Path, is_socket: bool) -> Self:
        """Read a configuration. Raises ValueError with the name of the wrong value."""

        def wrong(text: str) -> ValueError:
            return ValueError(f"--people {path}: {text}")

        try:
            values = tomllib.loads(path.read_text("utf-8"))
        except OSError as error:
            raise wrong(os.strerror(error.errno or 0)) from None
        except ValueError as error:
            raise wrong(str(error)) from None
        keys = {"header", "proxy_replaces_header", "peers", "sign_out", "people"}
        if other := sorted(values.keys() - keys):
            raise wrong(f"{other[0]}: is no key: they are {', '.join(sorted(keys))}")
        header = values.get("header")
        name = header.lower() if isinstance(header, str) else ""
        if not _HEADER.fullmatch(name) or _OWN_HEADER.fullmatch(name):
            raise wrong("header: is required: a name such as X-Recollect-Person, that nothing else uses")  # fmt: skip
        if values.get("proxy_replaces_header") is not True:
            raise wrong(
                f"proxy_replaces_header: must be true, when you have made sure that the proxy replaces or"
                f" removes {header} in every request: whoever can send it is taken for anybody"
            )
        peers = values.get("peers", [])
        if not isinstance(peers, list) or bool(peers) is is_socket:
            raise wrong(
                "peers: goes with an address to listen on: who may open a Unix socket is known by its folder"
                if is_socket
                else "peers: is required: a list of the proxy's addresses, unless --listen names a Unix socket"
            )
        try:
            addresses = frozenset(str(ipaddress.ip_address(str(it))) for it in peers)
        except ValueError as error:
            raise wrong(f"peers: {error}: each is one exact address") from None
        sign_out = values.get("sign_out", "")
        if not isinstance(sign_out, str) or (sign_out and not _SIGN_OUT.fullmatch(sign_out)):
            raise wrong(
                "sign_out: is no path such as /oauth2/sign_out, and no address with https://"
            )
        people = values.get("people")
        if not isinstance(people, dict) or not people:
            raise wrong('people: is required: a table of lines such as alex = "/etc/recollect/alex.token"')  # fmt: skip
        files = {}
        for person, file in people.items():
            if not _PERSON.fullmatch(person) or not isinstance(file, str):
                raise wrong(
                    f"people: {person[:100]!a}: is no name of letters, digits and . _ @ + - with"
                    " the path of a token's file"
                )
            files[person] = path.parent / file
        read = cls(path, name.encode(), addresses, files, sign_out)
        for person in files:
            try:
                read.token(person)
            except PersonRefused as error:
                raise wrong(f"people: {person}: {error.detail}") from None
        return read

    def person_of(self, scope: MutableMapping[str, Any]) -> str:
        """Return the person whom the proxy signed in. Raises PersonRefused."""
        self.check_peer(scope)
        named = [value for key, value in scope["headers"] if key == self.header]
        header = self.header.decode()
        if not named:
            raise PersonRefused("nobody", f"the proxy named nobody in {header}")
        if len(named) > 1:
            text = f"{header} is there {len(named)} times: the proxy must replace it, not add to it"
            raise PersonRefused("twice", text)
        person: str = named[0].decode("latin-1")
        if not _PERSON.fullmatch(person):
            text = f"{header} holds no name of letters, digits and . _ @ + -"
            raise PersonRefused("odd", text, ascii(person)[:200])
        if person not in self.files:
            raise PersonRefused("unknown", f"{person} has no token here", f"see {self.path}")
        return person

    def check_peer(self, scope: MutableMapping[str, Any]) -> None:
        """Return if a request comes from the proxy. Raises PersonRefused."""
        client = scope.get("client")
        if self.peers and (client is None or client[0] not in self.peers):
            raise PersonRefused("peer", "only a proxy that is named by its address is served here")

    def token(self, person: str) -> str:
        """Return the token in a person's file, which may be replaced at any time. Raises
        PersonRefused.
        """
        path = self.files[person]
        try:
            status = path.stat()
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            before = self._tokens.get(person)
            if before is not None and before[0] == version:
                return before[1]
            text = path.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else "is no text"
            raise self._no_token(person, f"{path}: {reason}") from None
        if status.st_mode & stat.S_IRWXO:
            raise self._no_token(person, f"{path}: others may read it: chmod o= {path}")
        if not TOKEN_FORM.fullmatch(text):
            raise self._no_token(person, f"{path}: holds no token: one line, printable ASCII")
        self._tokens[person] = version, text
        return text

    def log(self, scope: MutableMapping[str, Any], refused: PersonRefused) -> None:
        """Write a line about a refusal, unless one of its kind was written a moment ago."""
        now = time.monotonic()
        if now - self._logged.get(refused.kind, -_PAUSE) >= _PAUSE:
            self._logged[refused.kind] = now
            peer = scope["client"][0] if scope.get("client") else "the Unix socket"
            more = f" ({refused.detail})" if refused.detail else ""
            print_notice(f"Refused a request from {peer}: {refused}{more}")

    @staticmethod
    def _no_token(person: str, detail: str) -> PersonRefused:
        return PersonRefused("token", f"the token of {person} cannot be read", detail)
