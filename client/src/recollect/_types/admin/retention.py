# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: admin, retention."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """A rule of retention: it deletes or unindexes conversations by themselves, never pinned
    ones, or deletes communications with third parties.
    """

    rule: str = ""
    """The rule as the setting has it."""
    space: str = ""
    """The space it is about. Empty: every space."""
    channel: str = ""
    """The channel it is about. Empty: every channel."""
    idle_seconds: int = 0
    """Seconds without a message after which the rule is about a conversation. 0: no bound."""
    conversations: int = 0
    """Conversations that may be there; of a rule that unindexes, those that are searchable.
    Unset: no bound.
    """
    bytes: int = 0
    """Bytes that their transcripts may have together, counted likewise. Unset: no bound."""
    keeps_anchors: bool = False
    """True if anchors that came from a conversation stay."""
    unindexes: bool = False
    """True if it unindexes conversations and deletes none: they stay, and searches leave them
    out.
    """
    deletes_communications: bool = False
    """True if it deletes communications with third parties, and no conversations. Those without
    a message stay, and those of blocked parties unless the rule says `trust=blocked`.
    """
    start_time: datetime | None = None
    """Time from which it deletes or unindexes, because it is new (setting `retention_grace`);
    until then it does nothing. Unset: it does not wait.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRuleList:
    """The rules of retention about a space."""

    rules: tuple[RetentionRule, ...] = ()
    """The rules. Empty: nothing is deleted by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredConversation:
    """A conversation that a rule deletes or unindexes, or a communication that it deletes."""

    conversation_id: str = ""
    """The conversation, or the communication."""
    channel: str = ""
    """Its channel."""
    update_time: datetime
    """Time at which it changed last."""
    bytes: int = 0
    """Bytes of its transcript."""
    rule: str = ""
    """The rule."""
    reason: str = ""
    """Reason why it goes, in a sentence without text of it."""
    name: str = ""
    """Its title, or the name of its party. In a preview only: receipts hold no text."""
    space: str = ""
    """Its space. In a preview only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPreview:
    """Conversations that rules would delete now."""

    conversations: tuple[RetiredConversation, ...] = ()
    """The conversations, rule by rule, those that are idle for longest first."""
    has_more: bool = False
    """True if there are more."""
    total: int = 0
    """Number of all of them."""
    is_most: bool = False
    """True if the rules are about more than half of the conversations, or of the communications
    with third parties, that are there. A caller should let `total` be typed before it sets
    them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReceipt:
    """Record of a conversation or communication that a rule deleted or unindexed; `rule` says
    which.
    """

    conversation: RetiredConversation
    """The one that was deleted, and the reason."""
    time: datetime
    """Time of the deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReceiptPage:
    """A page of receipts, the newest first. Iterating over it gives the receipts."""

    receipts: tuple[RetentionReceipt, ...] = ()
    """The receipts, the newest first."""
    next_page_token: str = ""
    """Asks for the page that follows; empty: there is none."""

    def __iter__(self) -> Iterator[RetentionReceipt]:
        return iter(self.receipts)

    def __len__(self) -> int:
        return len(self.receipts)
