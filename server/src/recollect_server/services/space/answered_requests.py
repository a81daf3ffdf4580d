"""Exactly-once of requests that write no line: deletes, switches, notes to be written anew.

The index keeps their answers. Over a store that processes share, the store keeps them too, so that
a repeat is answered by every process, and it keeps their ids from when they are begun, so that
every process refuses them to other requests.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import orjson

from recollect_server.domain.errors import (
    IndexUnavailable,
    RequestIdReused,
    StorageUnavailable,
)
from recollect_server.services.space.logs import RequestKey
from recollect_server.services.space.projection import Projection
from recollect_server.services.space.requests import Requests, check_same
from recollect_server.storage.index.columns import KnownRequest
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.redaction import ANY_HASH
from recollect_server.storage.logs.store import LogStore


class AnsweredRequests:
    """The requests of a space that write no line. Safe to call from any thread."""

    def __init__(self, store: LogStore, projection: Projection, requests: Requests) -> None:
        self._store = store
        self._projection = projection
        self._requests = requests

    def find(self, request: RequestKey) -> KnownRequest | None:
        """Return the same request, one that writes no line, if it was carried out before by any
        process. Hold its lock. Raises RequestIdReused, DataUnavailable.
        """
        if earlier := self._requests.find(request):
            if earlier.hash == ANY_HASH:  # it wrote a message, which was redacted
                raise RequestIdReused(request.id)
            return earlier
        sharing = self._store.sharing
        if not (answer := sharing.answer(request.id) if sharing else None):
            return None
        earlier = KnownRequest(**orjson.loads(answer))
        check_same(request, earlier)
        return earlier

    @contextmanager
    def carrying_out(self, request: RequestKey | None) -> Iterator[None]:
        """Have the id of such a request in the block, which carries it out and remembers its
        answer, against every process; give it up if the block raises before it has one. Raises
        RequestIdReused if another request has the id, StorageUnavailable.
        """
        sharing = self._store.sharing
        if request is None or sharing is None:
            yield
            return
        if not sharing.begin_request(request.id, request.hash):
            raise RequestIdReused(request.id)
        try:
            yield
        except BaseException:
            self.give_up(request)
            raise

    def give_up(self, request: RequestKey) -> None:
        """Let the id of such a request be free again, unless it has an answer, here or elsewhere.
        Raises nothing.
        """
        sharing = self._store.sharing
        with suppress(IndexUnavailable):
            if self._projection.index.requests.find(request.id):
                return
        if sharing is not None:
            with suppress(StorageUnavailable):
                sharing.end_request(request.id, request.hash, None)

    def is_begun(self, request: RequestKey) -> bool:
        """Return True if a process began such a request and did not remember its answer. Raises
        StorageUnavailable.
        """
        sharing = self._store.sharing
        return sharing is not None and sharing.answer(request.id, request.hash) == ""

    def is_used(self, request_id: str) -> bool:
        """Return True if any process carried out a request of this id, or began one that writes no
        line. Raises DataUnavailable.
        """
        if self._requests.known(request_id) is not None:
            return True
        sharing = self._store.sharing
        return sharing is not None and sharing.answer(request_id) is not None

    def begin_delete(self, request: RequestKey, conversation_id: str) -> None:
        """Note that a request begins to delete a conversation, for the other processes and for the
        one that finishes what a kill interrupts. Raises RequestIdReused, StorageUnavailable.
        """
        note = orjson.dumps([request.id, request.hash]).decode()
        if sharing := self._store.sharing:
            if not sharing.begin_request(request.id, request.hash, conversation_id, note):
                raise RequestIdReused(request.id)
            return
        with suppress(IndexUnavailable):  # its answers are lost too
            self._projection.index.requests.begin_delete(conversation_id, note)

    def end_delete(self, record: KnownRequest) -> KnownRequest:
        """Keep the answer of a request that deleted a conversation, as `remember` does. Raises
        DataUnavailable.
        """
        record = share(self._store, record)
        self._projection.index.requests.end_delete(record)
        return record

    def remember(self, record: KnownRequest) -> KnownRequest:
        """Keep the answer of such a request, for every process, and return the first one. Raises
        DataUnavailable.
        """
        record = share(self._store, record)
        self._projection.index.requests.add(record)
        return record


def share(logs: LogStore, record: KnownRequest) -> KnownRequest:
    """Let other processes have the answer of a request that writes no line. Return the first one,
    which another process may have given. Raises StorageUnavailable.
    """
    if logs.sharing is None:
        return record
    answer = orjson.dumps(record).decode()
    answer = logs.sharing.end_request(record.request_id, record.hash, answer)
    first = KnownRequest(**orjson.loads(answer))
    # A server of the version before took the id for another request at the same moment: this one
    # has an answer of its own.
    return first if first.hash in (record.hash, ANY_HASH) else record


def request_of_delete(logs: LogStore, index: Index, conversation_id: str) -> RequestKey | None:
    """Return the request that began a delete which has not ended; None if none did, or if it has
    its answer. Raises DataUnavailable.
    """
    sharing = logs.sharing
    note = (
        sharing.answer(log=conversation_id)
        if sharing
        else index.requests.delete_note(conversation_id)
    )
    if note is None:
        return None
    request = RequestKey(*orjson.loads(note))
    return None if sharing and sharing.answer(request.id) != "" else request
