"""The caller of a call: its scopes, the space that the call is about, and why it may not make the
call.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from recollect_server.kernel.domain.errors import RecollectError


class Scope(StrEnum):
    """Permission that a method asks for: the names of `recollect/v1/scope.proto`."""

    ANY = "any"
    """Every valid token has it."""
    CONVERSATIONS_READ = "conversations.read"
    CONVERSATIONS_WRITE = "conversations.write"
    CONVERSATIONS_MANAGE = "conversations.manage"
    CONVERSATIONS_DELETE = "conversations.delete"
    RECALL = "recall"
    ANCHORS_WRITE = "anchors.write"
    RECEIVE = "receive"
    IDENTITIES_MANAGE = "identities.manage"
    COMMUNICATIONS_READ = "communications.read"
    COMMUNICATIONS_WRITE = "communications.write"
    COMMUNICATIONS_DELETE = "communications.delete"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)

EVERY_SPACE = "*"
"""Stands for all spaces among those of a token."""

CUSTOM = "custom"
"""Kind of a token that names its scopes itself."""
PROJECT = "project"
"""Kind of a token for one conversation."""

_ANY, _READ, _WRITE = Scope.ANY, Scope.CONVERSATIONS_READ, Scope.CONVERSATIONS_WRITE
KINDS: dict[str, frozenset[Scope]] = {
    "brain": ALL_SCOPES - {Scope.IDENTITIES_MANAGE, Scope.ADMIN},
    PROJECT: frozenset({_ANY, _READ, _WRITE}),
    "gateway": frozenset({_ANY, Scope.RECEIVE}),
    "panel": frozenset(
        {
            _ANY,
            _READ,
            Scope.CONVERSATIONS_MANAGE,
            Scope.RECALL,
            Scope.COMMUNICATIONS_READ,
            Scope.COMMUNICATIONS_WRITE,
        }
    ),
    "reader": frozenset({_ANY, _READ, Scope.RECALL, Scope.COMMUNICATIONS_READ}),
    "monitor": frozenset({_ANY}),
    "admin": ALL_SCOPES,
}
"""Named bundles of scopes, by the kind of a token."""


@dataclass(frozen=True, slots=True)
class Principal:
    token_id: str = ""
    """Empty: no token, on loopback without credentials."""
    kind: str = ""
    scopes: frozenset[Scope] = ALL_SCOPES
    space: str = "default"
    """Chosen for this call."""
    conversation_id: str = ""
    """The only conversation that this caller may name; empty: any."""
    channel: str = ""
    """Channel that this caller speaks from: its appends count as coming from there."""
    peer: str = ""
    spaces: tuple[str, ...] = ()
    """Spaces that it may choose; empty: all, without a token."""
    expires: int = 0
    """End of its token, in milliseconds since 1970; 0: never."""
    is_for_every_space: bool = field(init=False)
    """True if this caller may choose any space, so that it may also deal with the server as a
    whole.
    """

    def __post_init__(self) -> None:
        is_for_every_space = not self.spaces or EVERY_SPACE in self.spaces
        object.__setattr__(self, "is_for_every_space", is_for_every_space)

    def is_for(self, space: str) -> bool:
        """Return whether this caller may choose a space."""
        return self.is_for_every_space or space in self.spaces


class Denied(RecollectError):
    """The caller's credentials do not allow the call. Nothing was changed."""

    principal: Principal | None = None
    """The caller, if the gate knows it: the audit names it."""


class Unauthenticated(Denied):
    """The call brought no token, or one that is not valid. The text never holds a part of it."""


class PermissionDenied(Denied):
    """The token does not allow the call. Nothing was changed."""

    def __init__(self, method: str, reason: str, scope: str = "") -> None:
        """`scope` is the missing one; empty if the token has all that the call needs."""
        super().__init__(f"{method} is not allowed: {reason}", method=method, scope=scope)
