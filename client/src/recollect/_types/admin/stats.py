# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: admin, stats."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from recollect._types.admin.jobs import JobFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingStats:
    """State of the embedding of a space's texts."""

    problem: str = ""
    """Problem with the vectors' file, in a sentence; empty: none."""
    vectors: int = 0
    """Vectors that are kept."""
    other_language_vectors: int = 0
    """Those of them that are of the model of other languages."""
    bytes: int = 0
    """Bytes of the vectors' file."""
    waiting_conversations: int = 0
    """Conversations with texts that have no vectors yet."""
    share: float = 0.0
    """Share of the text that has its vectors, from 0 to 1."""
    time_left: timedelta | None = None
    """Time that the rest takes at the last pace; unset: nothing is left, or the pace is not
    known.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteStats:
    """State of the notes of a space's conversations."""

    waiting_conversations: int = 0
    """Conversations with turns that no notes have yet."""
    failed_conversations: int = 0
    """Conversations whose notes could not be written."""
    failures: tuple[JobFailure, ...] = ()
    """Some of them, those with the newest messages first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextStats:
    """Figures of how contexts were built in a space."""

    contexts: int = 0
    """Contexts that were built."""
    hot_in_memory: int = 0
    """Those of them whose newest turns came from memory."""
    cold_asked: int = 0
    """Those that asked other conversations."""
    hot_messages: int = 0
    """Messages in them: newest turns."""
    warm_messages: int = 0
    """Messages in them: earlier turns of the conversation."""
    cold_messages: int = 0
    """Messages in them: of other conversations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalStats:
    """Third parties of a space."""

    communications: int = 0
    """External communications."""
    messages: int = 0
    """Their messages."""
    bytes: int = 0
    """Bytes of their transcripts."""
    not_indexed_yet: int = 0
    """Communications whose newest lines are not indexed yet."""
    open_escalations: int = 0
    """Escalations that wait for the owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedSender:
    """A sender who wrote faster than allowed."""

    channel: str = ""
    """Channel."""
    sender: str = ""
    """Address on the channel."""
    refused: int = 0
    """Messages that were refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceStats:
    """State of a space: what it holds, and what is left to do."""

    space: str = ""
    """The space."""
    conversations: int = 0
    """Conversations."""
    messages: int = 0
    """Messages, as the index knows them."""
    transcript_bytes: int = 0
    """Bytes of the transcripts of conversations."""
    index_problem: str = ""
    """Problem with the index, in a sentence; empty: none."""
    index_bytes: int = 0
    """Bytes of the index."""
    not_indexed_yet: int = 0
    """Conversations whose newest lines are not indexed yet."""
    embedding: EmbeddingStats
    """Embedding of texts."""
    notes: NoteStats
    """Notes of conversations."""
    contexts: ContextStats
    """Contexts that were built."""
    torn_transcripts: int = 0
    """Files with what a start cut off a log: an append that a crash cut short, for which nobody
    was answered. They are kept until somebody removes them, or the conversation is deleted.
    """
    torn_bytes: int = 0
    """Bytes of those files."""
    unfinished_deletes: int = 0
    """Deletes that have begun and are not finished."""
    external: ExternalStats
    """Third parties."""
    limited_senders: int = 0
    """Senders who were refused for writing too fast."""
    most_limited: tuple[LimitedSender, ...] = ()
    """The ones with the most refusals, at most 3."""
    held_messages: int = 0
    """Messages that the disk refused: they are kept in memory, and written as soon as it takes
    them.
    """
    held_because: str = ""
    """Reason why it refuses them, in a sentence with the free bytes of a full disk; empty: none
    is held.
    """
    torn_files: tuple[str, ...] = ()
    """Paths of the files that `torn_transcripts` counts, from the server's data folder on; at
    most 20.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpending:
    """Cost of the models of the server's own notes on the last day that one was called."""

    day: str = ""
    """The day (UTC), as `2026-02-03`; empty: none was ever called."""
    calls: int = 0
    """Calls."""
    tokens: int = 0
    """Tokens read and written."""
    cost: float = 0.0
    """US dollars, by the prices in the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached:
    """A token or a space that reached a limit today (UTC)."""

    of: str = ""
    """`token` or `space`."""
    name: str = ""
    """Id of the token, or name of the space."""
    limit: str = ""
    """Name of the limit: `calls`."""
    refused: int = 0
    """Calls that were refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStats:
    """The server as a whole."""

    version: str = ""
    """Version of the server."""
    start_time: datetime
    """Time at which it started."""
    spaces: int = 0
    """Spaces on its disk."""
    open_spaces: int = 0
    """Those of them that are open."""
    suspended_spaces: int = 0
    """No longer set: spaces at rest are open."""
    model_spending: ModelSpending
    """Cost of its own notes."""
    limited: int = 0
    """Number of tokens and spaces that reached a limit today."""
    most_limited: tuple[LimitReached, ...] = ()
    """The ones with the most refusals, at most 10."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """State of a space, and of the server."""

    space: SpaceStats
    """The space."""
    server: ServerStats | None = None
    """The server as a whole; unset for a token that is for certain spaces."""
