"""The order of the changes of a space, which streams follow.

Processes that share a store commit at the same time, so no process can number the changes as they
come. The store orders them by the transactions that wrote them (`postgres.order`), and
tells a horizon: below it nothing can come any more, so a reader up to it sees what every other
process sees there. A folder has one process, whose index numbers the changes
(`kernel.index.order`): a number counts as a transaction with one change.

A `Mark` is a position in that order, as cursors have it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.ids import Action, Kind
from recollect_server.kernel.log.lines import Line

END = (1 << 63) - 1
"""The change, or the line, behind all others of a transaction."""

_LAST = (1 << 64) - 1  # the highest number that a transaction can have

_MARK = re.compile(
    r"([0-9a-f]{12})-([0-9a-f]{1,8})-(\d{1,20})\.([0-9a-f]{1,8})"
    r"(?:\.(\d{1,19})\.(\d{1,19}))?((?:~\d{1,20}(?:\.\d{1,19}\.\d{1,19})?){0,500})",
    re.ASCII,
)
_NUMBERED = re.compile(r"([0-9a-f]{12})-(\d{1,19})", re.ASCII)


class Key(NamedTuple):
    """Place of an update: its transaction, the change in that, and the last line of the update."""

    transaction: int = 0
    change: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """A position in the order: behind a key, but for some transactions."""

    epoch: str
    """Names the store, or the index. Transactions of another one mean nothing here."""
    timeline: int
    """Another one each time that a copy of the store takes over from it; 0: of an index."""
    key: Key
    tag: int
    """Random number of the change at the key: a copy that lost it may use the key for another."""
    missing: tuple[Key, ...] = ()
    """Of transactions before the key that had not ended when the mark was made, what is behind
    these keys is still to come.
    """

    @classmethod
    def numbered(cls, epoch: str, number: int) -> "Mark":
        """Return the position behind a change that an index numbers."""
        return cls(epoch, 0, Key(number, END, END), 0)

    def __str__(self) -> str:
        transaction, change, line = self.key
        if not self.timeline:
            return f"{self.epoch}-{transaction}"
        text = f"{self.epoch}-{self.timeline:x}-{transaction}.{self.tag:x}"
        if (change, line) != (END, END):
            text += f".{change}.{line}"
        for key in self.missing:
            text += f"~{transaction - key.transaction}"
            text += f".{key.change}.{key.line}" if key.change else ""
        return text

    @classmethod
    def of(cls, text: str) -> "Mark | None":
        """Return the mark that a text names in the form of `str`; None if it names none."""
        if match := _NUMBERED.fullmatch(text):
            return cls.numbered(match[1], int(match[2]))
        match = _MARK.fullmatch(text)
        if match is None:
            return None
        transaction = int(match[3])
        if transaction > _LAST:
            return None
        key = Key(transaction, *map(int, (match[5], match[6])) if match[5] else (END, END))
        missing: list[Key] = []
        for text in match[7].split("~")[1:]:
            before, *rest = map(int, text.split("."))
            missing.append(Key(transaction - before, *rest))
        return cls(match[1], int(match[2], 16), key, int(match[4], 16), tuple(missing))

    def lacks(self, key: Key) -> bool:
        """Return whether what is at a key, of a missing transaction, is still to come."""
        return any(it.transaction == key.transaction and it < key for it in self.missing)

    def ended(self, horizon: int) -> list[Key]:
        """Return the keys that are missing of transactions before a horizon, in order."""
        return sorted(it for it in self.missing if it.transaction < horizon)

    def without(self, key: Key) -> "Mark":
        """Return the mark with nothing missing up to a key."""
        left = tuple(max(it, key) for it in self.missing if (it.transaction, END, END) > key)
        return replace(self, missing=left)


@dataclass(frozen=True, slots=True)
class OrderedChange:
    """A change of a log, with the lines that it wrote, as they are now."""

    transaction: int
    number: int
    tag: int
    log: str
    kind: str
    action: Action
    start: int
    until: int
    """Bytes of the log before and behind it."""
    time: int
    """Time of the change, in milliseconds, by the clock of the store."""
    channel: str
    """Of a deleted conversation; empty if it is not known, or the log not deleted."""
    lines: list[Line]
    """Empty if the log was deleted since, or is of another kind than was asked for."""
    is_last: bool
    """True for the last change of its transaction."""
    state: Conversation | None = None
    """State of the conversation behind the change or a later one; None: it is not known."""

    @property
    def end(self) -> Key:
        """Return the place behind the change."""
        return Key(self.transaction, END if self.is_last else self.number, END)


@dataclass(frozen=True, slots=True)
class OrderedChanges:
    """Changes that follow each other, at one moment."""

    rows: list[OrderedChange]
    more: bool
    """True if there may be more behind the last of the rows."""
    horizon: int
    """Everything before this transaction has ended."""
    ceiling: int
    """No transaction from this one on had begun."""
    parts: list["Part"] = field(default_factory=list)
    """Parts of drafts that other processes published since."""

    @property
    def complete_before(self) -> int:
        """Return the transaction below which these changes are complete."""
        return self.rows[-1].transaction if self.more else self.horizon


class Part(NamedTuple):
    """A part of a draft: an answer that is still being written."""

    conversation_id: str
    draft_id: str
    channel: str
    offset: int
    text: str
    is_done: bool


Take = Callable[[OrderedChanges], None]
"""Takes the next changes. If it raises, a thread of the store gives them again, later."""


class Following(Protocol):
    """The changes that somebody follows, until it is closed."""

    @property
    def mark(self) -> Mark:
        """Return the position of the last change that was given, or after which it began."""

    def start(self) -> None:
        """Give changes from here on."""

    def collect(self) -> None:
        """Give what waits for it, where no thread of the store gives it."""

    def await_next(self, *, awaited: bool) -> None:
        """Note whether somebody waits for the next change."""

    def close(self) -> None:
        """Give no more changes. Waits for the one who is just given some."""


class Order(Protocol):
    """The order of the changes of one space. Every method raises LogUnavailable."""

    def now(self) -> Mark:
        """Return the position behind everything that is visible now."""

    def reaches(self, mark: Mark, kind: Kind) -> bool:
        """Return whether every change of a kind of log behind a mark is still here, and what is
        before it was never lost.
        """

    def timeline(self) -> int:
        """Return the number of the present history: another one after a copy took over."""

    def after(
        self, key: Key, kind: Kind, limit: int, max_bytes: int, only: Sequence[int] = ()
    ) -> OrderedChanges:
        """Return the oldest changes behind a key and below the horizon, with the lines of one kind
        of log; `only` those of some transactions. Their lines have `max_bytes` together, unless
        those of the first change have more.
        """

    def placed(self, start: Mark, cursor: int) -> tuple[Mark, dict[str, int]]:
        """Return the position of a snapshot of the index, taken after `start`, which took in its
        own changes up to a cursor; and what of it comes behind that position: the byte at which
        that begins, by log. -1: the log was deleted.
        """

    def follow(
        self, kind: Kind, take: Take, lost: Callable[[], None], ready: Callable[[], None]
    ) -> Following:
        """Give the changes from now on, those below the horizon, in their order, once it is
        started: from a thread of the store, or by `collect`, after `ready` was called. None, too,
        where the horizon alone has moved. `lost` is called if a copy of the store took over which
        lacks some of those that were given, or another index.
        """

    def hurry(self) -> None:
        """Look for changes at once: something was written here."""


class SharedOrder(Order, Protocol):
    """The order of a store that several processes share, who have drafts too."""

    def settled(self) -> Mark:
        """Return the position of the newest change below the horizon."""

    def of_line(self, log: str, sequence: int) -> Mark | None:
        """Return the position of the change that wrote a line; None if it is not known any more."""

    def publish(self, part: Part, whole: Callable[[], str], *, begins: bool) -> int:
        """Let other processes have a part of a draft; `begins`: instead of what they have of the
        draft. Return the ceiling: everything that was written before has a lower transaction.

        Parts are not durable, and gone after an hour. `whole` returns the draft with the part,
        which is published where nothing is left of the parts before.
        """

    def parts(self, conversation_id: str = "", draft_id: str = "") -> tuple[list[Part], int]:
        """Return the parts of all drafts, or of one, in their order, and the ceiling."""

    def end(self, conversation_id: str, draft_id: str = "") -> None:
        """Remove the parts of a draft, or of all of a conversation."""
