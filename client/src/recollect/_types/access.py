"""The caller, as the server knows it."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller: its token and what that allows. Without a token, where the server asks for none,
    it has every scope.
    """

    token_id: str
    """Id of the token, which is no secret. Empty: no token."""
    kind: str
    """`brain`, `project`, `gateway`, `panel`, `reader`, `admin` or `custom`. Empty: no token."""
    scopes: frozenset[str]
    """Permissions, such as `recall` or `conversations.read`."""
    spaces: tuple[str, ...]
    """Spaces that the token is for. Empty: every space."""
    space: str
    """The space that this client calls."""
    conversation_id: str
    """The only conversation that the token sees. Empty: all of the space."""
    channel: str
    """The channel that the caller speaks from. Empty: any."""
    expire_time: datetime | None
    """The end of the token. `None`: never."""
