"""Length of the vectors, and the marks kept beside each: one number that tells the ranking who
spoke, and more.
"""

import re
import zlib

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.domain.message import Message, Role
from recollect_server.text.text import asks

DIMENSIONS = 384
"""Length of every vector: that of all-MiniLM-L6-v2. A model with another length is refused."""

USER, ASSISTANT, TOOL = 1, 2, 3
_ROLES = {Role.USER: USER, Role.ASSISTANT: ASSISTANT, Role.TOOL: TOOL}
_WORD = re.compile(r"\w+")
ASKS = 4
"""Mark of a message that asks something."""
_NAME = 3  # bits before that of the name


def marks_of(message: Message) -> int:
    """Return the role (`USER`, `ASSISTANT`, `TOOL`), `ASKS` if it asks something, and a hash of
    the sender's first name.
    """
    name = _WORD.search(message.sender.lower())
    return (
        _ROLES[message.role]
        | ASKS * asks(message.content)
        | (name_hash(name.group()) if name else 0) << _NAME
    )


def roles(marks: NDArray[np.int64]) -> NDArray[np.int64]:
    return marks & 3


def senders(marks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for each sender: of the role and the first name."""
    return marks & ~ASKS


def names(marks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the hash of each sender's first name (`name_hash`); 0 for none."""
    return marks >> _NAME


def name_hash(name: str) -> int:
    """Return the hash of a lower-cased name; never 0."""
    return zlib.crc32(name.encode()) | 1 << 32
