"""Answers of CheckpointService into what a user holds."""

from collections.abc import Iterable

from recollect._shared.read import moment
from recollect._types import checkpoint
from recollect.v1 import checkpoint_pb2
from recollect.v1 import checkpoint_service_pb2 as pb


def found(it: pb.GetRecordsResponse) -> checkpoint.FoundCheckpointRecords:
    """Return records by their keys."""
    return checkpoint.FoundCheckpointRecords(
        records=_records(it.records),
        keys_answered=it.keys_answered,
        damaged_lines=it.damaged_lines,
    )


def page(it: pb.ListRecordsResponse) -> checkpoint.CheckpointRecordPage:
    """Return a page of records."""
    return checkpoint.CheckpointRecordPage(
        records=_records(it.records), has_more=it.has_more, damaged_lines=it.damaged_lines
    )


def removed(it: pb.RemoveRecordsResponse) -> checkpoint.RemovedCheckpointRecords:
    """Return a receipt of removed records."""
    return checkpoint.RemovedCheckpointRecords(removed=it.removed, bytes_removed=it.bytes_removed)


def threads(it: pb.ListThreadsResponse) -> checkpoint.CheckpointThreadPage:
    """Return a page of threads."""
    return checkpoint.CheckpointThreadPage(
        threads=tuple(
            checkpoint.CheckpointThread(
                thread_id=thread.thread_id,
                create_time=moment(thread.create_time),
                bytes=thread.bytes,
            )
            for thread in it.threads
        ),
        next_page_token=it.next_page_token,
    )


def _records(
    them: Iterable[checkpoint_pb2.CheckpointRecord],
) -> tuple[checkpoint.CheckpointRecord, ...]:
    return tuple(checkpoint.CheckpointRecord(it.key, it.value) for it in them)
