"""CheckpointService: threads of an agent framework's checkpoints."""

from recollect.v1 import checkpoint_pb2
from recollect.v1 import checkpoint_service_pb2 as api

from recollect_server.checkpoints.service import Checkpoints, Put
from recollect_server.contract.answers import Answers
from recollect_server.contract.convert import CursorSeal, page_size
from recollect_server.contract.handling import Call
from recollect_server.kernel.domain.filters import Page

_MAX_KEYS = 10_000
_USUAL_RECORDS = 50


class CheckpointHandlers:
    def __init__(self, checkpoints: Checkpoints, answers: Answers, seal: CursorSeal) -> None:
        self._checkpoints = checkpoints
        self._answers = answers
        self._seal = seal

    def PutRecords(self, request: api.PutRecordsRequest, call: Call) -> api.PutRecordsResponse:
        puts = [Put(it.record.key, it.record.value, it.keep_existing) for it in request.records]
        stored = self._checkpoints.put(request.thread_id, puts, request.request_id)
        return api.PutRecordsResponse(stored=stored)

    def GetRecords(self, request: api.GetRecordsRequest, call: Call) -> api.GetRecordsResponse:
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
        removed, size = self._checkpoints.remove(request.thread_id, request.keys)
        return api.RemoveRecordsResponse(removed=removed, bytes_removed=size)

    def ListThreads(self, request: api.ListThreadsRequest, call: Call) -> api.ListThreadsResponse:
        size = page_size(request.page_size)
        after = self._seal.place(request, request.page_token)
        threads = self._checkpoints.threads(after[1] if after else "", size + 1)
        page = Page.of(threads, size, lambda it: (0, it[0]))
        answer = api.ListThreadsResponse(next_page_token=self._seal.page_token(request, page.end()))
        for _, it in page.entries:
            if it is not None:
                thread = answer.threads.add(thread_id=it.thread_id, bytes=it.bytes)
                thread.create_time.FromMilliseconds(it.create_time)
        return answer

    def DeleteThread(
        self, request: api.DeleteThreadRequest, call: Call
    ) -> api.DeleteThreadResponse:
        return api.DeleteThreadResponse(bytes_removed=self._checkpoints.delete(request.thread_id))
