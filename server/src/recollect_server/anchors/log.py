"""Values of anchors, the current one of each key and those that it replaced; and the ledger of
anchors: those that callers set, and those kept of conversations that were deleted.

Its lines are those of a transcript. What the writer of notes finds stands in the transcript that it
was found in, and not here. Unlike other logs the ledger is replaced where something in it is to be
forgotten, so that the text is nowhere in it any more.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import structlog

from recollect_server.kernel.domain.conversation import AnchorForgotten, AnchorSet
from recollect_server.kernel.log.ledger import TRIES, tried_again
from recollect_server.kernel.log.lines import Entry, Line, contents_of, encoded
from recollect_server.kernel.log.store import (
    ANCHORS,
    NO_CLAIM,
    START,
    Claim,
    LogConflict,
    LogNotFound,
    LogStore,
    LogUnavailable,
    Position,
    request_claim,
)

TENTATIVE = 0.5
"""Confidence below which a value that was found takes the place of no surer one."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A lasting fact about the user, as it stands among the others of its key."""

    key: str
    value: str
    confidence: float
    create_time: int
    conversation_id: str = ""
    """Conversation of the message that it came from; empty if there is none."""
    sequence: int = 0
    superseded_time: int | None = None
    supersedes: str = ""
    by_caller: bool = False


def history(given: Iterable[AnchorSet]) -> list[Anchor]:
    """Return what became of the values of one key: the one that holds first, then those it
    superseded, the last first. An empty value takes back the one that holds: then none does.

    In the order of time each takes the place of the one before it. Two kinds do not, and are
    superseded from their beginning: a value that was found, where a caller's holds that is surer;
    and a tentative one that was found, where anything but another tentative one that was found
    holds, so that a guess overrules neither a model nor a caller. A value that is given
    again stays what it was: a caller's confidence and source count, of two that were found the
    higher confidence.
    """
    holds: Anchor | None = None
    past: list[Anchor] = []
    for each in sorted(given, key=lambda it: (it.time, it.by_caller)):
        new = Anchor(
            each.key,
            each.value,
            each.confidence,
            each.time,
            each.conversation_id,
            each.sequence,
            by_caller=each.by_caller,
        )
        if not new.value:
            if holds and _supersedes(new, holds):
                past.append(replace(holds, superseded_time=new.create_time))
                holds = None
        elif holds is None:
            holds = new
        elif new.value == holds.value:
            holds = _again(holds, new)
        elif _supersedes(new, holds):
            past.append(replace(holds, superseded_time=new.create_time))
            holds = replace(new, supersedes=holds.value)
        else:
            past.append(replace(new, superseded_time=new.create_time))
    return [*([holds] if holds else []), *reversed(past)]


def _supersedes(new: Anchor, holds: Anchor) -> bool:
    if new.by_caller:
        return True
    if new.confidence < TENTATIVE:
        return holds.confidence < TENTATIVE and not holds.by_caller
    return not holds.by_caller or new.confidence >= holds.confidence


def _again(holds: Anchor, new: Anchor) -> Anchor:
    if new.by_caller:
        source = new if new.conversation_id else holds
        return replace(
            holds,
            confidence=new.confidence,
            conversation_id=source.conversation_id,
            sequence=source.sequence,
            by_caller=True,
        )
    return (
        holds
        if holds.by_caller
        else replace(holds, confidence=max(holds.confidence, new.confidence))
    )


log = structlog.get_logger("recollect.anchors")


class AnchorLedger:
    """The ledger, read once and kept in memory: it has a line for each fact that a person set. Safe
    to call from any thread.
    """

    def __init__(self, store: LogStore) -> None:
        """Read it, with its tail recovered. Raises LogUnavailable."""
        self.lock = threading.RLock()
        """Held while it is written to, and by who decides by what is in it."""
        self.version = 0
        """Grows with every change of an anchor, here or in a transcript (see `changed`)."""
        self._store = store
        self._lines: list[Line] = []
        self._requests: dict[str, Entry] = {}
        self.request = self._requests.get
        """Returns the line that a request wrote. It waits for nobody who holds the lock."""
        self._read()

    @property
    def entries(self) -> list[Entry]:
        """Return what its lines say, in order."""
        with self.lock:
            return [line.entry for line in self._lines if line.entry]

    @property
    def anchors(self) -> list[AnchorSet]:
        """Return the anchors in it, in order."""
        with self.lock:
            return [
                line.entry.content
                for line in self._lines
                if line.entry and isinstance(line.entry.content, AnchorSet)
            ]

    def forgotten(self) -> dict[str, int]:
        """Return up to when what was found for a key does not count, by key."""
        return _forgotten(entry.content for entry in self.entries)

    def changed(self) -> None:
        """Note that an anchor changed: here, in a transcript, or in what the index has of them."""
        self.version += 1

    def append(self, entry: Entry) -> None:
        """Add a line, durable when it returns. Raises LogUnavailable; then nothing is added."""
        with self.lock:
            end = Position(self._lines[-1].sequence, self._lines[-1].end) if self._lines else START
            lines, data = encoded([entry], *end, ANCHORS)
            request = entry.stamp.request_id
            try:
                self._store.append(
                    ANCHORS, end, data, Claim(request_claim(request)) if request else NO_CLAIM
                )
            except LogConflict:
                self._read()  # something else wrote to it: the next call knows what
                raise
            self._lines += lines
            if request:
                self._requests[request] = entry
            self.changed()

    def rewrite(
        self,
        change: Callable[[AnchorSet], AnchorSet | None],
        added: Sequence[Entry] = (),
        *,
        tries: int = TRIES,
    ) -> int:
        """Replace it with every anchor changed, or left out (None), and lines added. Return how
        many were left out.

        `tries`: 1 if the lines depend on what it has, which another process may change meanwhile.
        Damaged lines are left out too: they may have what is to be forgotten. Raises LogConflict if
        another process was faster each time, LogTaken if it carries out the request of a line that
        is added, LogUnavailable; then it is as it was.
        """
        return tried_again(partial(self._rewrite, change, added), tries)

    def reload(self) -> None:
        """Read it anew: another process wrote to it. Raises LogUnavailable."""
        with self.lock:
            self._read()

    def _rewrite(
        self, change: Callable[[AnchorSet], AnchorSet | None], added: Sequence[Entry]
    ) -> int:
        with self.lock:
            entries: list[Entry] = []
            removed = 0
            for entry in self.entries:
                content = entry.content
                if isinstance(content, AnchorSet):
                    after = change(content)
                    removed += after is None
                    entries += [Entry(after, entry.stamp)] if after else []
                elif not any(
                    isinstance(new.content, AnchorForgotten) and _key(content) == new.content.key
                    for new in added
                ):
                    entries.append(entry)
            entries += added
            requests = {entry.stamp.request_id for entry in entries}
            released = [request_claim(it) for it in self._requests if it not in requests]
            request = next((it.stamp.request_id for it in added if it.stamp.request_id), "")
            try:
                before = self._lines[-1].end if self._lines else 0
                self._store.swap(
                    ANCHORS,
                    encoded(entries, log=ANCHORS)[1],
                    before,
                    request=request_claim(request) if request else "",
                    released=released,
                )
            except LogUnavailable:
                with suppress(LogUnavailable):
                    self._read()  # it may have been replaced, and only the sync have failed
                raise
            self._read()
            return removed

    def drop_sources(
        self, conversations: Collection[str], sequences: Collection[int] | None = None
    ) -> int:
        """Remove the anchors that came from conversations; `sequences`: those of these messages.
        Return how many. Raises LogUnavailable.
        """

        def is_dropped(anchor: AnchorSet) -> bool:
            return anchor.conversation_id in conversations and (
                sequences is None or anchor.sequence in sequences
            )

        with self.lock:
            if not any(map(is_dropped, self.anchors)):
                return 0
            return self.rewrite(lambda anchor: None if is_dropped(anchor) else anchor)

    def _read(self) -> None:
        lines: list[Line] = []
        with suppress(LogNotFound):
            if torn := self._store.recover(ANCHORS):
                log.warning(
                    "torn_tail_cut", ledger=ANCHORS, bytes=torn.bytes_cut, reason=torn.reason
                )
            lines += self._store.read(ANCHORS)
        requests: dict[str, Entry] = {}
        for line in lines:
            if line.entry is None:
                log.warning("damaged_line", ledger=ANCHORS, line=line.sequence, reason=line.damage)
            elif line.entry.stamp.request_id:
                requests[line.entry.stamp.request_id] = line.entry
        self._lines = lines
        # none is missing meanwhile: others ask for them without the lock
        self._requests |= requests
        for removed in self._requests.keys() - requests.keys():
            del self._requests[removed]
        self.changed()


def forgotten_keys(store: LogStore) -> dict[str, int]:
    """Return the result of `AnchorLedger.forgotten` for a ledger that nobody has open. Raises
    LogUnavailable.
    """
    with suppress(LogNotFound):
        return _forgotten(contents_of(list(store.read(ANCHORS))))
    return {}


def _forgotten(contents: Iterable[object]) -> dict[str, int]:
    return {it.key: it.time for it in contents if isinstance(it, AnchorForgotten)}


def _key(content: object) -> str:
    return content.key if isinstance(content, AnchorForgotten) else ""
