"""The state of what a server keeps, in numbers."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from recollect._types.admin.jobs import JobFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingStats:
    """State of the embedding of a space's texts."""

    problem: str
    """Problem of the vectors' file. Empty: none."""
    vectors: int
    """Vectors that are kept."""
    other_language_vectors: int
    """Those of the model of other languages."""
    bytes: int
    """Bytes of the file."""
    waiting_conversations: int
    """Conversations with texts that have no vectors yet."""
    share: float
    """Share of the text that has its vectors, from 0 to 1."""
    time_left: timedelta | None
    """Time that the rest takes. `None`: nothing is left, or the pace is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteStats:
    """State of the notes of a space's conversations."""

    waiting_conversations: int
    """Conversations with turns that no notes have yet."""
    failed_conversations: int
    """Conversations whose notes could not be written."""
    failures: tuple[JobFailure, ...]
    """Some of them, those with the newest messages first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextStats:
    """Contexts of a space, by their sources."""

    contexts: int
    """Contexts that were built."""
    hot_in_memory: int
    """Those whose newest turns came from memory."""
    cold_asked: int
    """Those that asked other conversations."""
    hot_messages: int
    """Messages of newest turns in them."""
    warm_messages: int
    """Messages of earlier turns in them."""
    cold_messages: int
    """Messages of other conversations in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalStats:
    """Third parties of a space."""

    communications: int
    """External communications."""
    messages: int
    """Their messages."""
    bytes: int
    """Bytes of their transcripts."""
    not_indexed_yet: int
    """Communications whose newest lines are not indexed yet."""
    open_escalations: int
    """Escalations that wait for the owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedSender:
    """A sender who wrote faster than allowed."""

    channel: str
    """Channel."""
    sender: str
    """Address on the channel."""
    refused: int
    """Messages that were refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceStats:
    """Contents of a space, and what is left to do there."""

    space: str
    """The space."""
    conversations: int
    """Conversations."""
    messages: int
    """Messages, as the index knows them."""
    transcript_bytes: int
    """Bytes of the transcripts of conversations."""
    index_problem: str
    """Problem of the index. Empty: none."""
    index_bytes: int
    """Bytes of the index."""
    not_indexed_yet: int
    """Conversations whose newest lines are not indexed yet."""
    embedding: EmbeddingStats
    """Embedding of texts."""
    notes: NoteStats
    """Notes of conversations."""
    contexts: ContextStats
    """Contexts that were built."""
    torn_transcripts: int
    """Transcripts of which a crash left an incomplete line."""
    torn_bytes: int
    """Bytes of those lines."""
    unfinished_deletes: int
    """Deletes that have begun and are not finished."""
    external: ExternalStats
    """Third parties."""
    limited_senders: int
    """Senders who were refused for writing too fast."""
    most_limited: tuple[LimitedSender, ...]
    """The ones with the most refusals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpending:
    """Cost of the models of the server's own notes on the last day that one was called."""

    day: str
    """The day (UTC). Empty: none was ever called."""
    calls: int
    """Calls."""
    tokens: int
    """Tokens read and written."""
    cost: float
    """US dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached:
    """A token or a space that reached a limit today."""

    of: str
    """`token` or `space`."""
    name: str
    """Id of the token, or name of the space."""
    limit: str
    """Name of the limit."""
    refused: int
    """Calls that were refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStats:
    """The server as a whole."""

    version: str
    """Its version."""
    start_time: datetime
    """Time of its start."""
    spaces: int
    """Spaces on its disk."""
    open_spaces: int
    """Those that are open."""
    suspended_spaces: int
    """Those that are suspended."""
    model_spending: ModelSpending
    """Cost of its own notes."""
    limited: int
    """Number of tokens and spaces that reached a limit today."""
    most_limited: tuple[LimitReached, ...]
    """The ones with the most refusals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """State of a space, and of the server."""

    space: SpaceStats
    """The space."""
    server: ServerStats | None
    """The server. `None`: the token is for certain spaces."""
