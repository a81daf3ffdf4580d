"""Refuses bad input by the field's name, before anything is touched. The limits are those that the
contract states.

What more than one service asks of its fields is here; what is asked of a message is in
`checks_message`, of what comes in over a channel in `checks_channel`. What one call alone asks, its
handler does.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from recollect.v1.conversation_pb2 import Party

from recollect_server.domain.addresses import MAX_DISPLAY_NAME
from recollect_server.domain.errors import InvalidField, Violation
from recollect_server.domain.ids import is_communication_id, is_conversation_id, is_escalation_id
from recollect_server.domain.text import breaks_line
from recollect_server.domain.time import DAY

_LABEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
_KEY = re.compile(r"[a-z0-9_.-]{1,64}", re.ASCII)
_REQUEST_ID = re.compile(r"[!-~]{1,128}", re.ASCII)
_KEBAB = re.compile(r"[^\W_]+(-[^\W_]+)*")
_PARTY = {
    "contact": 320,
    "group_id": 320,
    "thread_id": 998,
    "subject": 998,
    "contact_name": MAX_DISPLAY_NAME,
}
_WRITERS = ("extractive", "anthropic", "openai", "caller", "unknown")
MAX_NAME = 256
"""Characters of a participant's or a person's name."""
MAX_ADDRESS = 320
"""Characters of an address on a channel."""
MAX_FILTER = 64
"""Entries of a filter: of each any may match."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Size limits of messages and batches, in bytes."""

    message_bytes: int = 1 << 20
    batch_bytes: int = 8 << 20


@dataclass(slots=True)
class Checks:
    """Collects what is wrong with a request, so that a caller learns all of it at once."""

    violations: list[Violation] = field(default_factory=list)

    def refuse(self, name: str, description: str) -> None:
        """Record that a field is wrong."""
        self.violations.append(Violation(name, description))

    def done(self) -> None:
        """Raise InvalidField if any field was wrong."""
        if self.violations:
            raise InvalidField(*self.violations)

    # Texts ----------------------------------------------------------------------------------------

    def no_nul(self, name: str, value: str) -> None:
        """Check a text for NUL."""
        if "\0" in value:
            self.refuse(name, "holds the character NUL")

    def text(self, name: str, value: str, *, most: int, least: int = 0) -> None:
        """Check that a text has `least` to `most` characters and no NUL."""
        if not least <= len(value) <= most:
            self.refuse(name, f"has {len(value)} characters; {least} to {most} are allowed")
        else:
            self.no_nul(name, value)

    def one_line(self, name: str, value: str, *, most: int, least: int = 0) -> None:
        """Check that a text is one line of `least` to `most` characters without control
        characters.
        """
        self.text(name, value, most=most, least=least)
        if breaks_line(value.replace("\0", "")):
            self.refuse(name, "has control characters or line ends; a name stands on one line")

    def long_text(self, name: str, value: str, most: int) -> None:
        """Check that a text has at most `most` bytes and no NUL."""
        if (size := len(value.encode())) > most:
            self.refuse(name, f"has {size} bytes; at most {most} are allowed")
        else:
            self.no_nul(name, value)

    def said(self, name: str, value: str, most: int) -> None:
        """Check a text like `long_text`, and that it is more than white space."""
        if not value.strip():
            self.refuse(name, "is empty")
        else:
            self.long_text(name, value, most)

    # Names of things ------------------------------------------------------------------------------

    def conversation_id(self, name: str, value: str, *, required: bool = True) -> None:
        """Check for `conv-` and a ULID."""
        if required or value:
            self._ulid(name, value, "conv-", is_conversation_id)

    def communication_id(self, name: str, value: str, *, required: bool = True) -> None:
        """Check for `ext-` and a ULID."""
        if required or value:
            self._ulid(name, value, "ext-", is_communication_id)

    def escalation_id(self, name: str, value: str) -> None:
        """Check for `esc-` and a ULID."""
        self._ulid(name, value, "esc-", is_escalation_id)

    def _ulid(self, name: str, value: str, prefix: str, is_valid: Callable[[str], bool]) -> None:
        if not value:
            self.refuse(name, "is required")
        elif not is_valid(value):
            self.refuse(name, f"is not {prefix} and a ULID of 26 characters")

    def request_id(self, value: str) -> None:
        """Check for 1 to 128 printable ASCII characters; unset is allowed."""
        if value and not _REQUEST_ID.fullmatch(value):
            self.refuse("request_id", "is not 1 to 128 printable ASCII characters without spaces")

    def label(self, name: str, value: str, *, required: bool = False) -> None:
        """Check the name of a channel: lower-case letters, digits, `_` and `-`."""
        if (required or value) and not _LABEL.fullmatch(value):
            expected = (
                "1 to 32 lower case letters, digits, _ and -, beginning with a letter or digit"
            )
            self.refuse(name, f"{'is not a channel' if value else 'is required'}: {expected}")

    def kebab(self, name: str, value: str) -> None:
        """Check a label in kebab-case."""
        if len(value) > 64 or not _KEBAB.fullmatch(value) or value != value.lower():
            self.refuse(
                name, "is not lower-case words joined by -, as disk-full, of at most 64 characters"
            )

    def anchor_key(self, value: str, *, required: bool = True) -> None:
        """Check the key of an anchor."""
        if (required or value) and not _KEY.fullmatch(value):
            self.refuse(
                "key",
                "is required"
                if not value
                else "is not 1 to 64 lower case letters, digits, _, - and .",
            )

    def party(self, name: str, value: Party) -> None:
        """Check that the texts of a party keep the contract's limits."""
        for part, most in _PARTY.items():
            self.text(f"{name}.{part}", getattr(value, part), most=most)

    # Lists ----------------------------------------------------------------------------------------

    def count(self, name: str, values: Sequence[object], most: int, *, least: int = 0) -> bool:
        """Check that a list has `least` to `most` entries, and return whether it has."""
        if least <= len(values) <= most:
            return True
        allowed = f"{least} to {most}" if least else f"at most {most}"
        self.refuse(name, f"has {len(values)} entries; {allowed} are allowed")
        return False

    def channels(self, name: str, values: Sequence[str]) -> None:
        """Check a filter's channels."""
        self.count(name, values, MAX_FILTER)
        for index, value in enumerate(values[:MAX_FILTER]):
            self.label(f"{name}[{index}]", value, required=True)

    def topics(self, name: str, values: Sequence[str], most: int = 16) -> None:
        """Check for labels in kebab-case."""
        self.count(name, values, most)
        for index, value in enumerate(values[:most]):
            self.kebab(f"{name}[{index}]", value)

    def writer(self, name: str, value: str) -> None:
        """Check a writer of notes."""
        if value not in _WRITERS:
            self.refuse(name, f"is {value[:40]!r}; writers are {', '.join(_WRITERS)}")

    def names(self, name: str, values: Sequence[str]) -> None:
        """Check names of participants, each given once."""
        self.count(name, values, MAX_FILTER)
        for index, value in enumerate(values[:MAX_FILTER]):
            self.one_line(f"{name}[{index}]", value, least=1, most=MAX_NAME)
        if len(set(values)) != len(values):
            self.refuse(name, "names somebody twice")

    # Numbers and times ----------------------------------------------------------------------------

    def not_negative(self, name: str, value: float) -> None:
        """Check that a number is finite and at least 0."""
        if not value >= 0 or math.isinf(value):
            rule = "not be negative" if value < 0 else "be a finite number"
            self.refuse(name, f"is {value}; it must {rule}")

    def share(self, name: str, value: float) -> None:
        """Check that a number is from 0 to 1."""
        if not 0 <= value <= 1:
            self.refuse(name, f"is {value}; it must be from 0 to 1")

    def moment(self, name: str, value: Timestamp, now: int | None = None) -> None:
        """Check that a time lies between 1970 and a day after `now` (None: the year 9999)."""
        if not 0 <= value.nanos < 1_000_000_000 or not 0 <= value.seconds < 253_402_300_800:
            self.refuse(name, "is not a time from 1970 to 9999")
        elif value.seconds == 0 and value.nanos < 1_000_000:
            self.refuse(name, "is 1970-01-01T00:00:00Z: leave it unset if the time is not known")
        elif now is not None and value.seconds * 1000 > now + DAY:
            self.refuse(name, "is more than a day ahead of the server's clock")

    def span(self, owner: Any, first: str, last: str, path: str = "") -> None:
        """Check two optional times of a message: the first must be before the last if both are
        set.
        """
        there = [name for name in (first, last) if owner.HasField(name)]
        for name in there:
            self.moment(f"{path}{name}", getattr(owner, name))
        if len(there) == 2:
            begin, end = getattr(owner, first), getattr(owner, last)
            if (begin.seconds, begin.nanos) >= (end.seconds, end.nanos):
                self.refuse(f"{path}{last}", f"is not after {path}{first}")
