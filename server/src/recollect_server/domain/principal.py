"""The caller of a call: its scopes, and the space that the call is about."""

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """Permission that a method asks for."""

    CONVERSATIONS_READ = "conversations.read"
    CONVERSATIONS_WRITE = "conversations.write"
    CONVERSATIONS_MANAGE = "conversations.manage"
    RECALL = "recall"
    ANCHORS_WRITE = "anchors.write"
    RECEIVE = "receive"
    IDENTITIES_MANAGE = "identities.manage"
    COMMUNICATIONS_READ = "communications.read"
    COMMUNICATIONS_WRITE = "communications.write"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of one call."""

    token_id: str = ""
    """Empty: no token, on loopback without credentials."""
    kind: str = ""
    scopes: frozenset[Scope] = ALL_SCOPES
    space: str = "default"
    """Chosen for this call."""
    conversation_id: str = ""
    """The only conversation that a project token may name; empty: any."""
    channel: str = ""
    """Channel that this caller speaks from: its appends count as coming from there."""
    peer: str = ""
