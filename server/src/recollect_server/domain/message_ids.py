"""How a message is one whole number: its conversation's number, and behind that the line in 22
bits.

So the messages of a conversation are one range of ids, in order. Conversations have a number
wherever they are kept: one in the index, another in `vectors.db`.
"""

SEQUENCE_BITS = 22
"""Leaves room for 2,199,023,255,551 conversations."""
MAX_LINES = (1 << SEQUENCE_BITS) - 1
"""4,194,303 lines a conversation, or the highest sequence."""


def message_id(number: int, sequence: int) -> int:
    """The id of a message: of a line of the conversation of this number."""
    return number << SEQUENCE_BITS | sequence


def number_of(identity: int) -> int:
    """The number of the conversation that a message is of."""
    return identity >> SEQUENCE_BITS


def sequence_of(identity: int) -> int:
    """The line that a message is."""
    return identity & MAX_LINES


def id_range(number: int) -> tuple[int, int]:
    """The first and the last id that messages of this conversation can have."""
    return message_id(number, 0), message_id(number, MAX_LINES)
