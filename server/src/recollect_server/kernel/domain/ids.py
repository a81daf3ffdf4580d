"""Ids of conversations, communications, escalations and messages, and the kinds of logs, which
their names tell.

The name of what is kept is a kind and a ULID in Crockford's base 32, as `conv-01J…`, and nothing
else. A message is one whole number: its conversation's number, and the line in the lowest 22 bits.
So the messages of a conversation are one range of ids, in order. A conversation has one number in
the index and another in `vectors.db`.
"""

import re
from enum import StrEnum

from ulid import ULID

# A ULID holds 128 bits in 26 characters of 5, so the first is at most 7. No such name can leave a
# folder.
_ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_LATEST = 253_402_300_800_000  # the year 10000, which no time in a transcript reaches
_CONVERSATION_ID = re.compile(f"conv-{_ULID}", re.ASCII)
_COMMUNICATION_ID = re.compile(f"ext-{_ULID}", re.ASCII)
_THREAD_LOG = re.compile(f"thread-{_ULID}", re.ASCII)
_ESCALATION_ID = re.compile(f"esc-{_ULID}", re.ASCII)

SPACE_NAME = r"^[a-z0-9](?:[a-z0-9_-]{0,63}|[a-z0-9._+-]{0,63}@[a-z0-9][a-z0-9.-]{0,62})$"
"""A name of a space. It is also that of its folder, so there are no capitals, which not every file
system tells apart; the server's own files in the data folder have a point and no @.
"""
SPACE_RULE = (
    "1 to 64 lower case letters, digits, _ and -, beginning with a letter or digit, or an e-mail"
    " address in lower case"
)
"""The same in words."""
_SPACE_NAME = re.compile(SPACE_NAME, re.ASCII)
SEQUENCE_BITS = 22
"""Leaves room for 2,199,023,255,551 conversations."""
MAX_LINES = (1 << SEQUENCE_BITS) - 1
"""4,194,303 lines a conversation, or the highest sequence."""


def new_ulid() -> str:
    """Return a new ULID. It carries the machine's time, or 1970 by a clock that is before it."""
    try:
        return str(ULID())
    except OverflowError:
        return str(ULID.from_timestamp(0))


def is_conversation_id(text: str) -> bool:
    """Return whether the text is the name of a conversation, existing or not."""
    return _CONVERSATION_ID.fullmatch(text) is not None


def time_of(conversation_id: str) -> int:
    """Return the time that a conversation's name carries, in milliseconds; 0 where a clock cannot
    say it.
    """
    time = ULID.from_str(conversation_id.removeprefix("conv-")).milliseconds
    return time if time < _LATEST else 0


def is_communication_id(text: str) -> bool:
    """Return whether the text is the name of an external communication, existing or not."""
    return _COMMUNICATION_ID.fullmatch(text) is not None


def is_thread_log(text: str) -> bool:
    """Return whether the text is the name of a thread's log, existing or not."""
    return _THREAD_LOG.fullmatch(text) is not None


def is_escalation_id(text: str) -> bool:
    """Return whether the text is the name of an escalation, existing or not."""
    return _ESCALATION_ID.fullmatch(text) is not None


def is_space_name(text: str) -> bool:
    """Return whether the text is the name of a space, existing or not."""
    return _SPACE_NAME.fullmatch(text) is not None


def message_id(number: int, sequence: int) -> int:
    """Return the id of the message at this line of the conversation with this number."""
    return number << SEQUENCE_BITS | sequence


def number_of(identity: int) -> int:
    """Return the number of a message's conversation."""
    return identity >> SEQUENCE_BITS


def sequence_of(identity: int) -> int:
    """Return the line of a message."""
    return identity & MAX_LINES


def id_range(number: int) -> tuple[int, int]:
    """Return the first and the last id that messages of this conversation can have."""
    return message_id(number, 0), message_id(number, MAX_LINES)


LEDGER = "ledger"
"""Kind of the logs of which a space has one each."""


class Kind(StrEnum):
    """Kind of log of which a space has many."""

    CONVERSATION = "conversations"
    COMMUNICATION = "external"
    THREAD = "threads"


IS_NAME = {
    Kind.CONVERSATION: is_conversation_id,
    Kind.COMMUNICATION: is_communication_id,
    Kind.THREAD: is_thread_log,
}
"""Functions that tell whether a text is the name of a log of a kind."""


def kind_of(log: str) -> str:
    """Return the kind of a log by its name. Raises ValueError for a text that is not one: it could
    be a path.
    """
    for kind, is_name in IS_NAME.items():
        if is_name(log):
            return kind.value
    if log.isidentifier():
        return LEDGER
    raise ValueError("not the name of a log")


class Action(StrEnum):
    """Kind of change of a log."""

    APPEND = "append"
    """Lines were added behind `start`."""
    REPLACE = "replace"
    """It has other lines."""
    REDACT = "redact"
    """Lines have lost their text, and kept their places; one was added behind `start`."""
    DELETE = "delete"
    """It is gone. Its lines can be read until each process has dropped them, but for one that was
    silent for half a minute.
    """
