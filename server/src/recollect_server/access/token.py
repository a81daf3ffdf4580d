"""Tokens: what one looks like, and what is known of it.

A token is `rcl_ID_SECRET`: 12 characters of id, 43 of secret (256 random bits in base 62) and 6 of
checksum behind it, so that a mistyped token differs from a wrong one, and scanners of source code
find a leaked one by `PATTERN`. The id is no secret: it names the token in lists and logs. The
server keeps the SHA-256 of the secret alone, which suffices for 256 random bits.
"""

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from zlib import crc32

from recollect_server.access.principal import ALL_SCOPES, CUSTOM, EVERY_SPACE, KINDS, PROJECT, Scope
from recollect_server.kernel.domain.errors import InvalidField, Violation
from recollect_server.kernel.domain.ids import is_conversation_id, is_space_name
from recollect_server.text.text import breaks_line

PATTERN = r"rcl_[0-9a-z]{12}_[0-9A-Za-z]{49}"
"""Regular expression of a token, for scanners."""

_TOKEN = re.compile(r"(rcl_([0-9a-z]{12})_([0-9A-Za-z]{43}))([0-9A-Za-z]{6})", re.ASCII)
_ID = re.compile(r"[0-9a-z]{12}", re.ASCII)
_CHANNEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
_LIMIT = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_ID_DIGITS = string.digits + string.ascii_lowercase
_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET_DIGITS, _CRC_DIGITS = 43, 6  # base 62
_MAX_NOTE = 256
_MAX_SPACES = 1000
_NO_LIMITS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Grant:
    """Permissions of a token, its lifetime and its limits."""

    kind: str
    scopes: frozenset[Scope]
    spaces: tuple[str, ...]
    """At least one; `EVERY_SPACE` stands for all. The first is that of calls that name none."""
    expires: int = 0
    """Milliseconds since 1970; 0: never."""
    note: str = ""
    conversation_id: str = ""
    """The only conversation that it may name; empty: any."""
    channel: str = ""
    """Channel that its holder speaks from; empty: any."""
    limits: Mapping[str, float] = field(default_factory=lambda: _NO_LIMITS)
    """Limits of its own, by their names, in place of the settings'."""

    def check(self) -> None:
        """Raise InvalidField, which names all that is wrong by the names that the contract has,
        unless a token may be made of it.
        """
        wrong = [Violation(name, text) for name, text in self._violations() if text]
        if wrong:
            raise InvalidField(*wrong)

    def allows(self, space: str) -> bool:
        return space in self.spaces or EVERY_SPACE in self.spaces

    def _violations(self) -> tuple[tuple[str, str], ...]:
        unlike = [it for it in self.spaces if it != EVERY_SPACE and not is_space_name(it)]
        return (
            ("kind", "" if self.kind in (*KINDS, CUSTOM) else _not_a_kind(self.kind)),
            (
                "scopes",
                "names no scope" if self.kind == CUSTOM and not self.scopes - {Scope.ANY} else "",
            ),
            ("spaces", f"{unlike[0]!r} is not the name of a space" if unlike else ""),
            ("spaces", "" if 1 <= len(self.spaces) <= _MAX_SPACES else "names 1 to 1000 spaces"),
            ("conversation_id", self._wrong_conversation()),
            (
                "channel",
                "is not a channel: 1 to 32 lower case letters, digits, _ and -"
                if self.channel and not _CHANNEL.fullmatch(self.channel)
                else "",
            ),
            (
                "note",
                "has more than 256 characters, or is not one line"
                if len(self.note) > _MAX_NOTE or breaks_line(self.note)
                else "",
            ),
            (
                "limits",
                "is not NAME=NUMBER with a number from 0"
                if any(not _LIMIT.fullmatch(it) for it in self.limits)
                or not all(0 <= it < float("inf") for it in self.limits.values())
                else "",
            ),
        )

    def _wrong_conversation(self) -> str:
        if not self.conversation_id:
            return "is required: a project token is for one" if self.kind == PROJECT else ""
        if self.kind not in (PROJECT, CUSTOM):
            return f"goes with the kinds {PROJECT} and {CUSTOM} alone"
        return "" if is_conversation_id(self.conversation_id) else "is not conv- and a ULID"


@dataclass(frozen=True, slots=True)
class Token:
    """A token as its ledger has it: everything but the secret."""

    id: str
    grant: Grant
    created: int
    digest: bytes = field(repr=False)
    """SHA-256 of the secret."""
    revoked: int = 0
    """Moment of its revocation, in milliseconds since 1970; 0: it was not revoked."""
    replaces: str = ""
    """Id of the token that it was made to replace."""

    def end(self, now: int) -> str:
        """Return why the token is not valid now: `revoked` or `expired`; empty if it is valid."""
        if self.revoked:
            return "revoked"
        return "expired" if self.grant.expires and now >= self.grant.expires else ""

    def fits(self, secret: str) -> bool:
        """Return True for its own secret, in the same time for any other."""
        return hmac.compare_digest(self.digest, digest_of(secret))

    def ending_at(self, moment: int) -> "Token":
        """Return this token with its end at a moment, unless it ends before."""
        earliest = min(moment, self.grant.expires or moment)
        return replace(self, grant=replace(self.grant, expires=earliest))


def new_secret() -> str:
    """Return 256 random bits in base 62."""
    return _base62(secrets.randbits(256), _SECRET_DIGITS)


def new_id() -> str:
    return "".join(secrets.choice(_ID_DIGITS) for _ in range(12))


def token_text(token_id: str, secret: str) -> str:
    """Return the token as its holder gets it."""
    body = f"rcl_{token_id}_{secret}"
    return body + _checksum(body)


def parse(text: str) -> tuple[str, str]:
    """Return the id and the secret of a token. Raises ValueError, whose text holds no part of the
    token.
    """
    match = _TOKEN.fullmatch(text)
    if match is None:
        raise ValueError(
            "it does not have the form rcl_ID_SECRET, so it is cut short or no token of Recollect"
        )
    body, token_id, secret, checksum = match.groups()
    if not hmac.compare_digest(checksum, _checksum(body)):
        raise ValueError("it is mistyped: its checksum does not fit")
    return token_id, secret


def digest_of(secret: str) -> bytes:
    """Return the SHA-256 of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def is_token_id(text: str) -> bool:
    """Return True for the form of a token's id."""
    return _ID.fullmatch(text) is not None


def scopes_of(kind: str, names: tuple[str, ...]) -> frozenset[Scope]:
    """Return the scopes of a kind, and of a custom token those that it names. Raises
    InvalidField.
    """
    if kind != CUSTOM:
        if names:
            raise InvalidField.of("scopes", f"goes with the kind {CUSTOM} alone")
        return KINDS.get(kind, frozenset())
    choices = sorted(ALL_SCOPES - {Scope.ANY})
    if unlike := [name for name in names if name not in choices]:
        raise InvalidField.of(
            "scopes", f"{unlike[0]!r} is not a scope: scopes are {', '.join(choices)}"
        )
    if not names:
        raise InvalidField.of("scopes", f"is required for the kind {CUSTOM}")
    return frozenset(map(Scope, names)) | {Scope.ANY}


def _not_a_kind(kind: str) -> str:
    return f"{kind!r} is not a kind: kinds are {', '.join((*KINDS, CUSTOM))}"


def _checksum(body: str) -> str:
    return _base62(crc32(body.encode()), _CRC_DIGITS)


def _base62(number: int, digits: int) -> str:
    text = ""
    for _ in range(digits):
        number, digit = divmod(number, 62)
        text = _DIGITS[digit] + text
    return text
