"""Tokens of a server."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class TokenState(StrEnum):
    """State of a token."""

    VALID = "valid"
    """It may be used."""
    EXPIRED = "expired"
    """Its time is over."""
    REVOKED = "revoked"
    """It was revoked."""
    UNKNOWN = "unknown"
    """One that this client does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token, without its secret."""

    id: str
    """Id, which is no secret."""
    kind: str
    """`brain`, `project`, `gateway`, `panel`, `reader`, `admin` or `custom`."""
    scopes: frozenset[str]
    """Permissions, such as `recall` or `conversations.read`."""
    spaces: tuple[str, ...]
    """Spaces that it is for; `*`: every space."""
    conversation_id: str
    """The only conversation that it may name. Empty: any."""
    channel: str
    """The channel that its holder speaks from. Empty: any."""
    state: TokenState
    """Its state."""
    create_time: datetime
    """Time of its creation."""
    expire_time: datetime | None
    """Its end. `None`: never."""
    replaces: str
    """Id of the token that it was made to replace. Empty: none."""
    limits: Mapping[str, float]
    """Limits of its own, by name."""
    note: str
    """Note of its creator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPage:
    """A page of tokens. Iterating over it gives the tokens."""

    tokens: tuple[Token, ...]
    """The tokens, the newest first."""
    next_page_token: str
    """Asks for the page that follows. Empty: there is none."""

    def __iter__(self) -> Iterator[Token]:
        return iter(self.tokens)

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A new token with its secret, which nobody can learn again."""

    token: Token
    """The token."""
    secret: str = field(repr=False)
    """The text that its holder presents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotatedToken:
    """A new token in place of another one."""

    token: Token
    """The new token."""
    secret: str = field(repr=False)
    """The text that its holder presents."""
    replaced: Token
    """The old token as it is now."""
