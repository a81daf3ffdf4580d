"""Statistics of a space: its contents and the work that is left, read from its folder, whether a
server runs or not.
"""

from dataclasses import dataclass

from recollect_server.context.counts import counts_of
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.index.checking import state_of
from recollect_server.kernel.log.store import LogStore, Version
from recollect_server.notes.table import NoteState, note_state_of
from recollect_server.people.routing_table import Limited, limited_of
from recollect_server.recall.vectors import checking as vectors_checking

WHOLE = "whole"
"""Condition of a file with which nothing is wrong."""
_PART_BYTES = 800  # about as many bytes of a long text as one of its vectors stands for
_MOST_LIMITED_SENDERS = 3  # named


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """State of the vectors of a space."""

    condition: str
    vectors: int
    beside: int
    """Number of those of the model of other languages."""
    size: int
    waiting: int
    """Conversations with texts that have no vectors yet."""
    share: float
    """Share of the text that has its vectors, from 0 to 1."""
    seconds_left: float | None
    """Time that the rest takes at the last pace; None if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parties:
    """Third parties of a space."""

    communications: int
    messages: int
    size: int
    not_indexed_yet: int
    open_escalations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Contents of one space, and the work that is left."""

    conversations: int
    messages: int
    transcript_bytes: int
    index: str
    """Condition of the index."""
    index_bytes: int
    not_indexed_yet: int
    embedded: Embedded
    notes: NoteState
    hits: dict[str, int]
    """Contexts by their sources."""
    torn: dict[str, int]
    """Sizes of the files with what starts cut off logs, by their paths in the data folder."""
    deletes_to_finish: int
    threads: int
    """Threads of checkpoints."""
    threads_bytes: int
    parties: Parties
    limited: int
    worst_limited: list[Limited]


def statistics_of(folder: LogStore) -> Statistics:
    """Look at a space. Raises LogUnavailable, OSError."""
    index = state_of(folder.root)
    vectors = vectors_checking.state_of(folder.root)
    sizes = dict(folder.logs(Kind.CONVERSATION))
    parties = dict(folder.logs(Kind.COMMUNICATION))
    threads = dict(folder.logs(Kind.THREAD))
    limited, worst = limited_of(folder.root, _MOST_LIMITED_SENDERS)
    behind_by = {
        name: sizes.get(name, 0) * max(0.0, 1 - vectors.lines.get(name, 0) / lines)
        for name, lines in index.lines.items()
        if vectors.lines.get(name) != lines
    }
    size = sum(sizes.values())
    left = max(0.0, sum(behind_by.values()) - _PART_BYTES * vectors.parts)
    return Statistics(
        conversations=len(sizes),
        messages=index.messages,
        transcript_bytes=size,
        index=index.problem or "whole",
        index_bytes=index.size,
        not_indexed_yet=sum(index.progress.get(name) != size for name, size in sizes.items()),
        embedded=Embedded(
            condition=vectors.condition,
            vectors=vectors.vectors,
            beside=vectors.beside,
            size=vectors.size,
            waiting=len(behind_by),
            share=max(0.0, 1 - left / max(size, 1)),
            seconds_left=left / vectors.pace if vectors.pace else None if left else 0.0,
        ),
        notes=note_state_of(folder.root),
        hits=counts_of(folder.root),
        torn=folder.torn_files(),
        deletes_to_finish=len(list(folder.logs(Kind.CONVERSATION, Version.DELETED))),
        threads=len(threads),
        threads_bytes=sum(threads.values()),
        parties=Parties(
            communications=len(parties),
            messages=index.external_messages,
            size=sum(parties.values()),
            not_indexed_yet=sum(index.progress.get(name) != size for name, size in parties.items()),
            open_escalations=index.open_escalations,
        ),
        limited=limited,
        worst_limited=worst,
    )
