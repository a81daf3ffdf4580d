"""A thread: records of an agent's program, each a key with a value, and everything that can happen
to it.

Its log is a list of entries. Neither conversations nor communications know them, so that nothing of
a thread is searched, embedded or listed with what was said (see `kernel.log.entries`).
"""

import hashlib

from ulid import ULID

from recollect_server.kernel.domain.frozen import frozen


@frozen
class ThreadBegan:
    thread_id: str
    """Name that the program gave it."""
    time: int


@frozen
class RecordPut:
    """A record was stored; one of the same key before it does not count any more."""

    key: str
    value: bytes


@frozen
class RecordsRemoved:
    """Records were removed, and the log was written anew without them."""

    time: int
    requests: tuple[str, ...] = ()
    """Requests that had stored some of them: each as its id, a space, and its hash."""


ThreadContent = ThreadBegan | RecordPut | RecordsRemoved


def log_of(thread_id: str) -> str:
    """Return the name of a thread's log. It follows from the thread's name alone, so that no index
    is needed to find it.
    """
    return f"thread-{ULID(hashlib.sha256(thread_id.encode()).digest()[:16])}"
