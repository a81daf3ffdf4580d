"""Rules that delete conversations by themselves."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """A rule of retention: it deletes conversations by themselves."""

    rule: str
    """The rule as the setting `retention` has it."""
    space: str
    """The space it is about. Empty: every space."""
    channel: str
    """The channel it is about. Empty: every channel."""
    idle_seconds: int
    """Seconds without a message after which the rule is about a conversation. 0: no bound."""
    conversations: int
    """Conversations that may be there. 0: no bound."""
    bytes: int
    """Bytes that their transcripts may have together. 0: no bound."""
    keeps_anchors: bool
    """True if anchors that came from a conversation stay."""
    unindexes: bool
    """True if it unindexes conversations, which stay, and deletes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRuleList:
    """The rules of retention about a space."""

    rules: tuple[RetentionRule, ...]
    """The rules, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredConversation:
    """A conversation that a rule deletes."""

    conversation_id: str
    """The conversation."""
    channel: str
    """Its channel."""
    update_time: datetime
    """The time of its last change."""
    bytes: int
    """Bytes of its transcript."""
    rule: str
    """The rule."""
    reason: str
    """The reason, in a sentence without text of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPreview:
    """Conversations that rules would delete now."""

    conversations: tuple[RetiredConversation, ...]
    """The conversations, rule by rule, those that are idle for longest first."""
    has_more: bool
    """True if there are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReceipt:
    """The record of a conversation that a rule deleted."""

    conversation: RetiredConversation
    """The conversation, and the reason."""
    time: datetime
    """The time of the deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReceiptPage:
    """A page of receipts, the newest first. Iterating over it gives the receipts."""

    receipts: tuple[RetentionReceipt, ...]
    """The receipts."""
    next_page_token: str
    """Asks for the page that follows. Empty: there is none."""

    def __iter__(self) -> Iterator[RetentionReceipt]:
        return iter(self.receipts)

    def __len__(self) -> int:
        return len(self.receipts)
