"""Names of what is kept: a kind and a ULID in Crockford's base 32, as `conv-01J…`, and nothing
else.
"""

import re

from ulid import ULID

# A ULID holds 128 bits in 26 characters of 5, so the first is at most 7. No such name can leave a
# folder.
_ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_LATEST = 253_402_300_800_000  # the year 10000, which no time in a transcript reaches
_CONVERSATION_ID = re.compile(f"conv-{_ULID}", re.ASCII)
_COMMUNICATION_ID = re.compile(f"ext-{_ULID}", re.ASCII)
_ESCALATION_ID = re.compile(f"esc-{_ULID}", re.ASCII)


def is_conversation_id(text: str) -> bool:
    """Whether the text is the name of a conversation, existing or not."""
    return _CONVERSATION_ID.fullmatch(text) is not None


def time_of(conversation_id: str) -> int:
    """Return the time that a conversation's name carries, in milliseconds; 0 where a clock cannot
    say it.
    """
    time = ULID.from_str(conversation_id.removeprefix("conv-")).milliseconds
    return time if time < _LATEST else 0


def is_communication_id(text: str) -> bool:
    """Whether the text is the name of an external communication, existing or not."""
    return _COMMUNICATION_ID.fullmatch(text) is not None


def is_escalation_id(text: str) -> bool:
    """Whether the text is the name of an escalation, existing or not."""
    return _ESCALATION_ID.fullmatch(text) is not None
