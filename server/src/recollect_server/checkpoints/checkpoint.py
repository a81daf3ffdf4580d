"""A thread: records of an agent's program, each a key with a value, everything that can happen to
it, and its lines.

Its log is a list of entries. Neither conversations nor communications know them, so that nothing of
a thread is searched, embedded or listed with what was said (see `kernel.log.entries`).
"""

import hashlib

from ulid import ULID

from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import is_thread_log
from recollect_server.kernel.log.codec import BYTES, TEXT, TEXTS, TIME, Codec, Field
from recollect_server.kernel.log.entries import Vocabulary


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


THREADS = Vocabulary(
    is_thread_log,
    ThreadBegan,
    lambda it: log_of(it.thread_id),
    (
        Codec(
            ThreadBegan,
            Field("id", TEXT, "thread_id"),
            Field("created", TIME, "time"),
            head={"type": "thread"},
        ),
        Codec(
            RecordPut,
            Field("key", TEXT),
            Field("value", BYTES),
            head={"type": "record"},
        ),
        Codec(
            RecordsRemoved,
            Field("timestamp", TIME, "time"),
            Field("requests", TEXTS, default=()),
            head={"type": "records_removed"},
        ),
    ),
)
