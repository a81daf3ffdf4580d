# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: access."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller: its token and what that allows. Without a token, where the server asks for
    none, it has every scope.
    """

    token_id: str = ""
    """Id of the caller's token; its secret is never answered. Empty: the call brought none."""
    kind: str = ""
    """Kind of the token: `brain`, `project`, `gateway`, `panel`, `reader`, `monitor`, `admin`
    or `custom`. Empty without a token.
    """
    scopes: frozenset[str] = frozenset()
    """Permissions, in the order of the enum."""
    spaces: tuple[str, ...] = ()
    """Spaces that the token is for; empty: every space."""
    space: str = ""
    """The space that this call is about: the one that it names, else the first of the token's,
    else the server's default.
    """
    conversation_id: str = ""
    """The only conversation that the token sees; empty: all of the space."""
    channel: str = ""
    """The channel that the caller speaks from; empty: any."""
    expire_time: datetime | None = None
    """Time at which the token expires; unset: never."""
