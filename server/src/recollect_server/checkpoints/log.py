"""Lines of logs of threads, which checkpoints are in."""

from recollect_server.checkpoints.checkpoint import RecordPut, RecordsRemoved, ThreadBegan, log_of
from recollect_server.kernel.domain.ids import is_thread_log
from recollect_server.kernel.log.codec import BYTES, TEXT, TEXTS, TIME, Codec, Field
from recollect_server.kernel.log.entries import Vocabulary

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
