"""CheckpointService: check, call, convert, return."""

from collections.abc import Sequence

from recollect.v1 import checkpoint_pb2
from recollect.v1 import checkpoint_service_pb2 as api

from recollect_server.services.checkpoints import Checkpoints, Put
from recollect_server.transport.answers import Answers
from recollect_server.transport.checks import Checks, Limits
from recollect_server.transport.handling import Call
from recollect_server.transport.pages import Seal, page_size

_MAX_ID, _MAX_KEY, _MAX_KEYS = 512, 1024, 10_000
_USUAL_RECORDS = 50


class CheckpointHandlers:
    """The handlers of CheckpointService."""

    def __init__(
        self, checkpoints: Checkpoints, limits: Limits, answers: Answers, seal: Seal
    ) -> None:
        self._checkpoints = checkpoints
        self._limits = limits
        self._answers = answers
        self._seal = seal

    def PutRecords(self, request: api.PutRecordsRequest, call: Call) -> api.PutRecordsResponse:
        """Store records."""
        checks = _checked(request.thread_id)
        checks.request_id(request.request_id)
        if not 1 <= len(request.records) <= _MAX_KEYS:
            checks.refuse(
                "records", f"has {len(request.records)} entries; 1 to {_MAX_KEYS} are allowed"
            )
        for at, it in enumerate(request.records[:_MAX_KEYS]):
            checks.text(f"records[{at}].record.key", it.record.key, least=1, most=_MAX_KEY)
        size, most = request.ByteSize(), self._limits.batch_bytes
        if size > most:
            checks.refuse("records", f"have {size} bytes; at most {most} are allowed")
        checks.done()
        puts = [Put(it.record.key, it.record.value, it.keep_existing) for it in request.records]
        stored = self._checkpoints.put(request.thread_id, puts, request.request_id)
        return api.PutRecordsResponse(stored=stored)

    def GetRecords(self, request: api.GetRecordsRequest, call: Call) -> api.GetRecordsResponse:
        """Return records by their keys."""
        checks = _checked(request.thread_id)
        _check_keys(checks, request.keys)
        checks.done()
        answer = api.GetRecordsResponse()
        with self._answers.room(call.context) as keep:
            page = self._checkpoints.get(request.thread_id, list(request.keys))
            answer.damaged_lines = page.damaged
            size = 0
            for key, value in page.records:
                if value is not None:
                    record = checkpoint_pb2.CheckpointRecord(key=key, value=value)
                    size += record.ByteSize() + 6
                    if answer.keys_answered and size > self._answers.max_bytes:
                        break
                    answer.records.append(record)
                answer.keys_answered += 1
            return keep(answer)

    def ListRecords(self, request: api.ListRecordsRequest, call: Call) -> api.ListRecordsResponse:
        """Return the records below a prefix."""
        checks = _checked(request.thread_id)
        checks.text("prefix", request.prefix, most=_MAX_KEY)
        checks.text("after_key", request.after_key, most=_MAX_KEY)
        checks.not_negative("limit", request.limit)
        checks.done()
        usual = _MAX_KEYS if request.keys_only else _USUAL_RECORDS
        with self._answers.room(call.context) as keep:
            page = self._checkpoints.listed(
                request.thread_id,
                request.prefix,
                request.after_key,
                min(request.limit or usual, _MAX_KEYS),
                descending=request.descending,
                keys_only=request.keys_only,
            )
            records, is_cut = self._answers.fitting(
                checkpoint_pb2.CheckpointRecord(key=key, value=value or b"")
                for key, value in page.records
            )
            return keep(
                api.ListRecordsResponse(
                    records=records,
                    has_more=is_cut or page.has_more,
                    damaged_lines=page.damaged,
                )
            )

    def RemoveRecords(
        self, request: api.RemoveRecordsRequest, call: Call
    ) -> api.RemoveRecordsResponse:
        """Remove records for good."""
        checks = _checked(request.thread_id)
        _check_keys(checks, request.keys)
        checks.done()
        removed, size = self._checkpoints.remove(request.thread_id, request.keys)
        return api.RemoveRecordsResponse(removed=removed, bytes_removed=size)

    def ListThreads(self, request: api.ListThreadsRequest, call: Call) -> api.ListThreadsResponse:
        """Return a page of threads."""
        checks = Checks()
        checks.not_negative("page_size", request.page_size)
        checks.done()
        size = page_size(request.page_size)
        after = self._seal.place(request, request.page_token)
        threads = self._checkpoints.threads(after[1] if after else "", size + 1)
        answer = api.ListThreadsResponse(
            next_page_token=self._seal.page_token(
                request, (0, threads[size - 1][0]) if len(threads) > size else None
            )
        )
        for _, it in threads[:size]:
            if it is not None:
                thread = answer.threads.add(thread_id=it.thread_id, bytes=it.bytes)
                thread.create_time.FromMilliseconds(it.create_time)
        return answer

    def DeleteThread(
        self, request: api.DeleteThreadRequest, call: Call
    ) -> api.DeleteThreadResponse:
        """Delete a thread for good."""
        _checked(request.thread_id).done()
        return api.DeleteThreadResponse(bytes_removed=self._checkpoints.delete(request.thread_id))


def _checked(thread_id: str) -> Checks:
    """Return checks that have looked at the name of a thread."""
    checks = Checks()
    checks.text("thread_id", thread_id, least=1, most=_MAX_ID)
    return checks


def _check_keys(checks: Checks, keys: Sequence[str]) -> None:
    """Check the keys of a request."""
    if not 1 <= len(keys) <= _MAX_KEYS:
        checks.refuse("keys", f"has {len(keys)} entries; 1 to {_MAX_KEYS} are allowed")
    for at, key in enumerate(keys[:_MAX_KEYS]):
        checks.text(f"keys[{at}]", key, least=1, most=_MAX_KEY)
