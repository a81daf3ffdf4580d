"""Answers that are still being written: text in memory, passed on as it grows, and never stored.

A draft ends when the messages land that complete it, when its conversation is deleted, or when
nothing was added to it for a while: then its watchers are asked to drop it. All that is kept for a
watcher is how much of a draft it was sent, so what a slow one is sent next is one part with
everything that came meanwhile.
"""

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from itertools import count

from recollect_server.kernel.domain.errors import InvalidField
from recollect_server.kernel.domain.last_used import LastUsed
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.domain.update import Delta, Update

_MAX_DRAFTS = 1000
_MAX_TOTAL = 64 << 20  # characters of all drafts together
_MAX_ENDED = 4096  # whose end is remembered

Key = tuple[str, str]
"""The conversation's id and the draft's."""


class Growth(Enum):
    """The effect of a part on a draft."""

    NONE = 0
    GREW = 1
    BEGAN = 2
    """It began, or began anew."""


@dataclass(slots=True)
class Draft:
    """An answer as far as it is written."""

    channel: str
    generation: int
    """Another one each time a draft begins, anew too."""
    touched: int
    parts: list[str] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """Number of characters up to the end of each part."""
    done: bool = False
    shown: bool = False
    """True if watchers may see it: everything written before it began is delivered first."""
    encoded: tuple[int, int, bool, bytes] | None = None
    """The last part that was sent, from and to where: many watchers are sent the same."""

    @property
    def length(self) -> int:
        """Characters so far."""
        return self.ends[-1] if self.ends else 0

    def text(self, start: int, end: int | None = None) -> str:
        """Return the characters from `start`, up to `end`."""
        first = bisect_right(self.ends, start)
        if first == len(self.parts):
            return ""
        before = self.ends[first - 1] if first else 0
        return "".join(self.parts[first:])[start - before : None if end is None else end - before]

    def add(self, text: str) -> None:
        """Append text."""
        if text:
            self.parts.append(text)
            self.ends.append(self.length + len(text))


@dataclass(frozen=True, slots=True)
class Sent:
    """Length of a draft that a watcher was sent."""

    generation: int
    length: int
    done: bool


class Drafts:
    """The drafts of a space. Safe to call from any thread."""

    def __init__(self, clock: Clock, *, timeout: int, max_length: int) -> None:
        """`timeout` in milliseconds; `max_length` of one draft in characters."""
        self._clock = clock
        self._timeout = timeout
        self._max_length = max_length
        self._guard = threading.Lock()  # guards everything below
        self._drafts: OrderedDict[Key, Draft] = OrderedDict()  # least recently touched first
        self._landed: LastUsed[Key, bool] = LastUsed(_MAX_ENDED)
        """Those of whose end other updates tell: True: their messages, and nothing more is taken;
        False: the delete of their conversation, whose id may begin anew.
        """
        self._total = 0
        self._generations = count(1)
        self.version = 0
        """Grows with every change."""

    def about(self) -> set[tuple[str, str]]:
        """Return the conversation and the channel of each draft."""
        with self._guard:
            return {(key[0], draft.channel) for key, draft in self._drafts.items()}

    def publish(
        self,
        conversation_id: str,
        channel: str,
        draft_id: str,
        offset: int,
        text: str,
        *,
        done: bool,
    ) -> Growth:
        """Add text that starts at character `offset`, and return what became of the draft. A part
        that is there already changes nothing. Raises InvalidField.
        """
        key = (conversation_id, draft_id)
        with self._guard:
            if self._landed.get(key):
                raise InvalidField.of(
                    "draft_id",
                    "is that of a draft which AppendTurn completed: the next one needs another",
                )
            before = draft = self._drafts.get(key)
            length = draft.length if draft else 0
            if offset > length:
                expected = (
                    f"the draft has {length} characters"
                    if draft
                    else "no such draft is known: begin with 0"
                )
                raise InvalidField.of("offset", f"is {offset}, and {expected}")
            if draft is None or self._differs(draft, offset, text):
                if offset:
                    raise InvalidField.of(
                        "offset", f"is {offset}, and other text stands there: begin anew with 0"
                    )
                draft = self._begin(key, channel, draft)
            more = text[draft.length - offset :]
            if more and draft.done:
                raise InvalidField.of("text", "comes after the draft was done")
            if draft.length + len(more) > self._max_length:
                raise InvalidField.of(
                    "text", f"makes the draft longer than {self._max_length} characters"
                )
            growth = Growth.GREW if more or (done and not draft.done) else Growth.NONE
            if draft is not before:
                growth = Growth.BEGAN
            draft.add(more)
            draft.done = draft.done or done
            draft.touched = self._clock()
            self._total += len(more)
            self._drafts.move_to_end(key)
            self._keep_within_bounds()
            self.version += 1
            return growth

    def text_of(self, conversation_id: str, draft_id: str) -> str:
        """Return what is written of a draft; nothing if it has ended."""
        with self._guard:
            draft = self._drafts.get((conversation_id, draft_id))
            return draft.text(0) if draft else ""

    def retain(self, keys: Collection[Key]) -> None:
        """Drop all drafts but these."""
        with self._guard:
            for key in [key for key in self._drafts if key not in keys]:
                self._end(key)

    def show(self, conversation_ids: Collection[str]) -> None:
        """Show the drafts of these conversations: everything written before they began can be read
        now.
        """
        with self._guard:
            for key, draft in self._drafts.items():
                draft.shown = draft.shown or key[0] in conversation_ids
            self.version += 1

    def land(self, conversation_id: str, draft_id: str) -> None:
        """End a draft whose messages are stored."""
        key = (conversation_id, draft_id)
        with self._guard:
            self._land(key)

    def complete(self, conversation_id: str, draft_id: str) -> None:
        """Accept no more parts of a draft whose messages are stored. It ends when they are sent."""
        with self._guard:
            self._landed.keep((conversation_id, draft_id), True)

    def forget(self, conversation_id: str) -> None:
        """End the drafts of a deleted conversation."""
        with self._guard:
            for key in [key for key in self._drafts if key[0] == conversation_id]:
                self._land(key)
            for key in self._landed:
                if key[0] == conversation_id:
                    self._landed[key] = False

    def expire(self) -> set[tuple[str, str, str]]:
        """Drop the drafts that did not grow for too long, and return them: conversation, channel,
        draft.
        """
        now = self._clock()
        horizon = now - self._timeout
        expired: set[tuple[str, str, str]] = set()
        with self._guard:
            for key, draft in list(self._drafts.items()):
                # After the clock was set back the time counts from now on.
                draft.touched = min(draft.touched, now)
                if draft.touched > horizon:
                    break
                expired.add((key[0], draft.channel, key[1]))
                self._end(key)
        return expired

    def new_parts(
        self,
        sent: dict[Key, Sent],
        wants: Callable[[tuple[str, str]], bool],
        encode: Callable[[Update], bytes],
    ) -> list[bytes]:
        """Return the encoded drafts that a watcher must be sent of those it wants; update
        `sent`.
        """
        updates: list[bytes] = []
        with self._guard:
            for key in [key for key in sent if key not in self._drafts]:
                del sent[key]
                if key not in self._landed:  # else the messages themselves say so
                    updates.append(encode(self._update(key, Delta(key[1], 0, "", dropped=True))))
            for key, draft in self._drafts.items():
                now = Sent(draft.generation, draft.length, draft.done)
                if draft.shown and sent.get(key) != now and wants((key[0], draft.channel)):
                    updates.append(self._part(key, draft, sent.get(key), encode))
                    sent[key] = now
        return updates

    # Inside; hold the guard -----------------------------------------------------------------------

    def _part(
        self, key: Key, draft: Draft, sent: Sent | None, encode: Callable[[Update], bytes]
    ) -> bytes:
        start = sent.length if sent and sent.generation == draft.generation else 0
        part = (start, draft.length, draft.done)
        if draft.encoded is None or draft.encoded[:3] != part:
            delta = Delta(key[1], start, draft.text(start), done=draft.done)
            draft.encoded = (*part, encode(self._update(key, delta)))
        return draft.encoded[3]

    def _update(self, key: Key, delta: Delta) -> Update:
        return Update("", key[0], self._clock(), delta)

    def _differs(self, draft: Draft, offset: int, text: str) -> bool:
        common = min(len(text), draft.length - offset)
        return common > 0 and draft.text(offset, offset + common) != text[:common]

    def _begin(self, key: Key, channel: str, before: Draft | None) -> Draft:
        if before:
            self._total -= before.length
        self._landed.pop(key, None)
        draft = self._drafts[key] = Draft(channel, next(self._generations), self._clock())
        return draft

    def _end(self, key: Key) -> None:
        if draft := self._drafts.pop(key, None):
            self._total -= draft.length
            self.version += 1

    def _land(self, key: Key) -> None:
        self._end(key)
        self._landed.keep(key, True)

    def _keep_within_bounds(self) -> None:
        """Drop the drafts that grew longest ago, but never the newest."""
        while len(self._drafts) > 1 and (
            len(self._drafts) > _MAX_DRAFTS or self._total > _MAX_TOTAL
        ):
            self._end(next(iter(self._drafts)))
