"""The calls of CheckpointService."""

from collections.abc import Iterable

from recollect._shared import read_checkpoint as read
from recollect._shared.calls import parts
from recollect._shared.fill import fill
from recollect._shared.rpc import Call, Method
from recollect._types.checkpoint import (
    CheckpointRecord,
    CheckpointRecordPage,
    CheckpointThreadPage,
    FoundCheckpointRecords,
    RemovedCheckpointRecords,
)
from recollect.v1 import checkpoint_pb2
from recollect.v1 import checkpoint_service_pb2 as pb

_SERVICE = pb.DESCRIPTOR.services_by_name["CheckpointService"]
_PUT = Method(_SERVICE, "PutRecords", pb.PutRecordsRequest, pb.PutRecordsResponse)
_GET = Method(_SERVICE, "GetRecords", pb.GetRecordsRequest, pb.GetRecordsResponse)
_LIST = Method(_SERVICE, "ListRecords", pb.ListRecordsRequest, pb.ListRecordsResponse)
_REMOVE = Method(_SERVICE, "RemoveRecords", pb.RemoveRecordsRequest, pb.RemoveRecordsResponse)
_LIST_THREADS = Method(_SERVICE, "ListThreads", pb.ListThreadsRequest, pb.ListThreadsResponse)
_DELETE_THREAD = Method(_SERVICE, "DeleteThread", pb.DeleteThreadRequest, pb.DeleteThreadResponse)


def put_records(
    thread_id: str, records: Iterable[CheckpointRecord], request_id: str | None
) -> Call[pb.PutRecordsRequest, pb.PutRecordsResponse, int]:
    """Return the call of PutRecords."""
    sent = [
        fill(
            pb.PutRecord(),
            f"records[{at}].",
            record=fill(
                checkpoint_pb2.CheckpointRecord(),
                f"records[{at}].record.",
                key=it.key,
                value=it.value,
            ),
            keep_existing=it.keep_existing,
        )
        for at, it in enumerate(records)
    ]
    request = fill(
        pb.PutRecordsRequest(),
        thread_id=thread_id,
        records=sent,
        request_id=parts.request_id(request_id),
    )
    return Call(_PUT, request, lambda response: response.stored)


def get_records(
    thread_id: str, keys: Iterable[str]
) -> Call[pb.GetRecordsRequest, pb.GetRecordsResponse, FoundCheckpointRecords]:
    """Return the call of GetRecords."""
    return Call(_GET, fill(pb.GetRecordsRequest(), thread_id=thread_id, keys=keys), read.found)


def list_records(
    thread_id: str,
    prefix: str | None,
    after_key: str | None,
    descending: bool,
    keys_only: bool,
    limit: int | None,
) -> Call[pb.ListRecordsRequest, pb.ListRecordsResponse, CheckpointRecordPage]:
    """Return the call of ListRecords."""
    request = fill(
        pb.ListRecordsRequest(),
        thread_id=thread_id,
        prefix=prefix,
        after_key=after_key,
        descending=descending,
        keys_only=keys_only,
        limit=limit,
    )
    return Call(_LIST, request, read.page)


def remove_records(
    thread_id: str, keys: Iterable[str]
) -> Call[pb.RemoveRecordsRequest, pb.RemoveRecordsResponse, RemovedCheckpointRecords]:
    """Return the call of RemoveRecords."""
    request = fill(pb.RemoveRecordsRequest(), thread_id=thread_id, keys=keys)
    return Call(_REMOVE, request, read.removed)


def list_threads(
    page_size: int | None, page_token: str | None
) -> Call[pb.ListThreadsRequest, pb.ListThreadsResponse, CheckpointThreadPage]:
    """Return the call of ListThreads."""
    request = fill(pb.ListThreadsRequest(), page_size=page_size, page_token=page_token)
    return Call(_LIST_THREADS, request, read.threads)


def delete_thread(
    thread_id: str,
) -> Call[pb.DeleteThreadRequest, pb.DeleteThreadResponse, int]:
    """Return the call of DeleteThread."""
    request = fill(pb.DeleteThreadRequest(), thread_id=thread_id)
    return Call(_DELETE_THREAD, request, lambda response: response.bytes_removed)
