"""Exactly-once: a request that was carried out before is answered as it was then, and stores
nothing.

The request's id and a hash of its payload stand in the lines that it wrote, so they survive the
index. The index finds them quickly; where it cannot answer, the conversation's transcript is read.
The last requests of a conversation are known by its transcript in any case (`space.trust`).
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from recollect_server.domain.conversation import Conversation
from recollect_server.domain.errors import ConversationNotFound
from recollect_server.services.space.conversation_logs import ConversationLogs
from recollect_server.services.space.state import RequestKey
from recollect_server.storage.index.requests import KnownRequest
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.store import START, LogNotFound, Position

_MAX_REPLAYS = 1024


def key_of(method: str, request_id: str, payload: dict[str, Any]) -> RequestKey | None:
    """Return the request's id with the hash of its payload; None without an id."""
    if not request_id:
        return None
    text = orjson.dumps([method, payload], option=orjson.OPT_SORT_KEYS)
    return RequestKey(request_id, hashlib.sha256(text).hexdigest()[:32])


def request_among(
    lines: Iterable[Line], request_id: str, conversation_id: str
) -> KnownRequest | None:
    """Return the request of this id by the lines that it wrote; None if it wrote none of these."""
    wrote = [line for line in lines if line.entry and line.entry.stamp.request_id == request_id]
    if not wrote:
        return None
    assert wrote[0].entry is not None
    stamp = wrote[0].entry.stamp
    return KnownRequest(
        request_id, stamp.request_hash, conversation_id, wrote[0].sequence, wrote[-1].sequence
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a transcript that was read again, with the conversation as it was there."""

    position: Position
    conversation: Conversation | None


class Replays:
    """The lines of repeated requests, read again from their transcripts.

    A caller that repeats one request often repeats the following ones too (an import that runs
    twice), so each is read on from the one before and not from the first line. Safe to call from
    any thread.
    """

    def __init__(self, transcripts: ConversationLogs) -> None:
        self._transcripts = transcripts
        self._guard = threading.Lock()  # guards `_places`
        self._places: OrderedDict[str, _Place] = OrderedDict()

    def lines(self, known: KnownRequest) -> tuple[list[Line], Conversation]:
        """Return the lines that a request wrote, and the conversation as it was right after.

        Raises ConversationNotFound, StorageUnavailable.
        """
        conversation_id = known.conversation_id
        with self._guard:
            place = self._places.get(conversation_id)
        if place is None or place.position.lines >= known.first_sequence:
            place = _Place(START, None)
        conversation, position = place.conversation, place.position
        wrote: list[Line] = []
        try:
            for line in self._transcripts.store.read(conversation_id, position):
                conversation = self._transcripts.folded(conversation, line, conversation_id)
                position = Position(line.sequence, line.end)
                if line.sequence >= known.first_sequence:
                    wrote.append(line)
                if line.sequence == known.last_sequence:
                    break
        except LogNotFound:
            raise ConversationNotFound(conversation_id) from None
        if conversation is None:
            raise ConversationNotFound(conversation_id)
        with self._guard:
            self._places[conversation_id] = _Place(position, conversation)
            self._places.move_to_end(conversation_id)
            while len(self._places) > _MAX_REPLAYS:
                self._places.popitem(last=False)
        return wrote, conversation

    def forget(self, conversation_id: str) -> None:
        """Drop a conversation, whose file changed or is gone."""
        with self._guard:
            self._places.pop(conversation_id, None)
