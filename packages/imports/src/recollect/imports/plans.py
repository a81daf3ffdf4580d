"""Plans of an import: one for each conversation. The formats read them, and `sending` makes their
requests.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from recollect import Message
from recollect.imports.transcript import Beginning, Damaged

TRANSCRIPTS = "conv-*.jsonl"
"""Names of files that hold one conversation each, as a data folder and `export --folder` have them.
"""


@dataclass(frozen=True, slots=True)
class Skip:
    """Something to name: its place, as `FILE:LINE`, and why it is left out, or what was guessed."""

    where: str
    reason: str
    is_lost: bool = True
    """False for a guess, as of a time: nothing of the file is left out."""


def skip_of(where: str, value: Any, otherwise: str) -> Skip:
    """Return the Skip of a value that a reader cannot use: it is damaged, or else `otherwise`."""
    return Skip(where, str(value) if isinstance(value, Damaged) else otherwise)


Repeated = dict[str, tuple[int, str, bool]]
"""Notes by their text: how often each applies, the first detail, and `is_lost` as in Skip."""


def note(notes: Repeated, what: str, detail: str, count: int = 1, *, is_lost: bool = True) -> None:
    """Count a note, of which the first detail is shown."""
    before, first, _ = notes.get(what, (0, detail, is_lost))
    notes[what] = before + count, first, is_lost


def skips_of(notes: Repeated, where: str) -> list[Skip]:
    """Return the notes on a place as they are shown."""
    return [
        Skip(
            where, (f"{count} times: " if count > 1 else "") + what + (first and f": {first}"), lost
        )
        for what, (count, first, lost) in notes.items()
    ]


@dataclass(frozen=True, slots=True)
class Placed:
    """A message and its place."""

    message: Message
    where: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one append. `number` names the batch within its conversation, in every run."""

    number: str
    messages: list[Placed]


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the type `event`, which comes after the batches before it. `number` as in Batch."""

    number: str
    fields: dict[str, Any]
    where: str


@dataclass(slots=True)
class Plan:
    """One conversation to import."""

    key: tuple[str, ...]
    """The name of the conversation in every run, wherever its file lies. Request ids contain it."""
    where: str
    beginning: Beginning
    steps: list[Batch | Event] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    """Lines that cannot be read."""
    grows: bool = False
    """True if a newer file may hold more messages behind those of an earlier import. Each has an
    `importId` in its metadata.
    """
    loses_beginning: bool = False
    """True if a newer file may lack the first messages of an earlier import, and name the
    conversation by another one. Its last message tells which it is.
    """
    branches: int = 0
    """Messages of other branches, which stay out."""
    hidden: int = 0
    """Messages that the product does not show either, which stay out."""
    common: Repeated = field(default_factory=dict)
    """Notes that are shown once for the whole source, however many conversations they apply to."""

    @property
    def message_count(self) -> int:
        """Return the number of messages to send."""
        return sum(len(step.messages) for step in self.steps if isinstance(step, Batch))


@dataclass(slots=True)
class Tally:
    """The counts of an import."""

    conversations_new: int = 0
    conversations_known: int = 0
    messages_new: int = 0
    messages_known: int = 0
    ids_given: int = 0
    """New conversations that have another id than in their file, or had none there."""
    branches: int = 0
    hidden: int = 0
    """Messages of exports that stay out, as in Plan."""
    skips: list[Skip] = field(default_factory=list)
    lost: int = 0
    """Skips that say what is left out, of those that were counted."""
    guessed: int = 0
    """The others of them."""

    def skip(self, where: str, reason: object) -> None:
        """Record something that is left out."""
        self.skips.append(Skip(where, str(reason)))

    def count(self, skip: Skip) -> None:
        """Count a skip without keeping it: a file may have millions of damaged lines."""
        self.lost += skip.is_lost
        self.guessed += not skip.is_lost

    def add(self, other: "Tally") -> None:
        """Add the counts of another conversation. Its skips are left to the caller."""
        self.conversations_new += other.conversations_new
        self.conversations_known += other.conversations_known
        self.messages_new += other.messages_new
        self.messages_known += other.messages_known
        self.ids_given += other.ids_given
        self.branches += other.branches
        self.hidden += other.hidden

    def counts(self) -> dict[str, int]:
        """Return the counts by the names that programs read."""
        return {
            "conversationsNew": self.conversations_new,
            "conversationsKnown": self.conversations_known,
            "messagesNew": self.messages_new,
            "messagesKnown": self.messages_known,
            "idsGiven": self.ids_given,
            "leftOut": self.lost,
            **({"notes": self.guessed} if self.guessed else {}),
            **({"otherBranches": self.branches} if self.branches else {}),
            **({"hidden": self.hidden} if self.hidden else {}),
        }


def fingerprint(parts: Any) -> str:
    """Return the hash of values that JSON can hold.

    Request ids of earlier versions depend on it.
    """
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:40]
