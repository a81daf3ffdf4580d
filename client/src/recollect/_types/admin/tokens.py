# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: admin, tokens."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class TokenState(StrEnum):
    """State of a token: whether it may be used."""

    VALID = "valid"
    """It is valid."""
    EXPIRED = "expired"
    """Its time is over."""
    REVOKED = "revoked"
    """It was revoked."""
    UNKNOWN = "unknown"
    """One that this client is too old to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token, without its secret, which the server does not know."""

    id: str = ""
    """Id, which is no secret."""
    kind: str = ""
    """Kind: `brain`, `project`, `gateway`, `panel`, `reader`, `monitor`, `admin` or `custom`."""
    scopes: frozenset[str] = frozenset()
    """Permissions, in the order of the enum."""
    spaces: tuple[str, ...] = ()
    """Spaces that it is for; `*`: every space."""
    conversation_id: str = ""
    """The only conversation that it may name; empty: any."""
    channel: str = ""
    """The channel that its holder speaks from; empty: any."""
    state: TokenState
    """True if it may be used."""
    create_time: datetime
    """Time at which it was created."""
    expire_time: datetime | None = None
    """Time at which it ends, or ended; unset: never."""
    replaces: str = ""
    """Id of the token that it was made to replace; empty: none."""
    limits: Mapping[str, float]
    """Limits of its own in place of the settings', by name (`calls`, `burst`, `bytes`,
    `streams`).
    """
    note: str = ""
    """Note of the one who made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPage:
    """A page of tokens. Iterating over it gives the tokens."""

    tokens: tuple[Token, ...] = ()
    """The tokens, the newest first."""
    next_page_token: str = ""
    """Asks for the page that follows; empty: there is none."""

    def __iter__(self) -> Iterator[Token]:
        return iter(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A new token with its secret, which nobody can learn again."""

    token: Token
    """The token."""
    secret: str = field(default="", repr=False)
    """The text that its holder presents: `rcl_…`. Nobody can learn it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotatedToken:
    """A new token in place of another one."""

    token: Token
    """The new token."""
    secret: str = field(default="", repr=False)
    """The text that its holder presents. Nobody can learn it again."""
    replaced: Token
    """The old token as it is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUse:
    """Use of a token: its calls of one method on one day, in one space and from one address."""

    day: str = ""
    """The day (UTC), as `2026-02-03`."""
    space: str = ""
    """The space of the calls; empty: they were refused before it counted, or it is one of too
    many.
    """
    method: str = ""
    """The method: `ConversationService.Load`."""
    peer: str = ""
    """The address that they came from, without its port: `ipv4:192.0.2.7`. It is that of a
    proxy or of the page's server where one stands between. `others`: one of too many.
    """
    calls: int = 0
    """Calls that were let in, whatever they came to. A stream is one call."""
    refused_calls: int = 0
    """Calls that were refused: because the token had ended or does not allow them, or for its
    limits.
    """
    last_call_time: datetime
    """Time at which the newest of them was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsePage:
    """A page of the use of a token. Iterating over it gives its entries."""

    uses: tuple[TokenUse, ...] = ()
    """The entries: the newest day first, then by space, method and address."""
    next_page_token: str = ""
    """Asks for the page that follows; empty: there is none."""

    def __iter__(self) -> Iterator[TokenUse]:
        return iter(self.uses)

    def __len__(self) -> int:
        return len(self.uses)
