"""Exactly-once: a request that was carried out before is answered as it was then, and stores nothing.

The request's id and a hash of its payload stand in the lines that it wrote, so they survive the index. The index finds them
quickly; where it cannot answer, the conversation's transcript is read. The last requests of a conversation are known by its
transcript in any case (see `space.trust`).
"""

import hashlib
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from recollect_server.domain.conversation import Conversation
from recollect_server.domain.errors import ConversationNotFound, IndexUnavailable, RequestIdReused, StorageUnavailable
from recollect_server.domain.message import Message
from recollect_server.services.space.space import Space
from recollect_server.services.space.state import ConversationState, RequestKey
from recollect_server.storage.index.requests import KnownRequest
from recollect_server.storage.logs.lines import Line, messages_of
from recollect_server.storage.logs.store import START, LogNotFound, Position

_MAX_REPLAYS = 1024


def key_of(method: str, request_id: str, payload: dict[str, Any]) -> RequestKey | None:
    """The request's id with the hash of what it asks for; None without an id."""
    if not request_id:
        return None
    text = orjson.dumps([method, payload], option=orjson.OPT_SORT_KEYS)
    return RequestKey(request_id, hashlib.sha256(text).hexdigest()[:32])


def find_known(space: Space, request: RequestKey, conversation_id: str | None) -> KnownRequest | None:
    """The same request, if it was carried out before.

    Raises RequestIdReused if its payload was another, StorageUnavailable if its messages are held and not written yet.
    `conversation_id` is where to look if the index cannot answer; without it that raises IndexUnavailable.
    """
    try:
        known = space.known_request(request.id, conversation_id)
    except IndexUnavailable:
        if conversation_id is None:
            raise
        known = _read_known(space, request.id, conversation_id)
    if known is not None and known.hash != request.hash:
        raise RequestIdReused(request.id)
    if known is not None and space.pending.request(request.id):
        raise StorageUnavailable("the transcript cannot be written yet. The messages are held: repeat with the same request_id")
    return known


@dataclass(frozen=True, slots=True)
class Replayed:
    """How far a transcript was read again, and what it says up to there."""

    place: Position
    conversation: Conversation | None


class Replays:
    """Where the last repeated request of each conversation was found.

    Whoever repeats one request often repeats the following ones too (an import that runs twice): each then reads on from the one
    before, instead of from the first line.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()  # guards `_known`
        self._known: OrderedDict[str, Replayed] = OrderedDict()

    def before(self, conversation_id: str, sequence: int) -> Replayed:
        """The furthest place known before a line; the beginning if none is."""
        with self._guard:
            known = self._known.get(conversation_id)
        return known if known and known.place.lines < sequence else Replayed(START, None)

    def keep(self, conversation_id: str, place: Replayed) -> None:
        """Remembers a place."""
        with self._guard:
            self._known[conversation_id] = place
            self._known.move_to_end(conversation_id)
            while len(self._known) > _MAX_REPLAYS:
                self._known.popitem(last=False)

    def forget(self, conversation_id: str) -> None:
        """Drops what is remembered of a conversation: its file changed or went."""
        with self._guard:
            self._known.pop(conversation_id, None)


def as_it_was(
    space: Space, replays: Replays, known: KnownRequest, head: ConversationState | None
) -> tuple[list[Message], Conversation]:
    """The messages that a request wrote, and what was known of the conversation right after.

    `head` is the conversation's end, if it is at hand: the newest request, the one most often repeated, is answered from it.
    """
    if head and head.number is not None and head.indexed and head.lines == known.last_sequence:
        with suppress(IndexUnavailable):
            return messages_at(space, head.number, known), head.conversation
    wrote, conversation = lines_then(space, replays, known)
    return messages_of(wrote), conversation


def lines_then(space: Space, replays: Replays, known: KnownRequest) -> tuple[list[Line], Conversation]:
    """The lines that a request wrote, and what was known of the conversation right after.

    Raises ConversationNotFound, StorageUnavailable.
    """
    before = replays.before(known.conversation_id, known.first_sequence)
    conversation, end = before.conversation, before.place
    wrote: list[Line] = []
    try:
        for line in space.logs.read(known.conversation_id, end):
            conversation = space.transcripts.folded(conversation, line, known.conversation_id)
            end = Position(line.sequence, line.end)
            if line.sequence >= known.first_sequence:
                wrote.append(line)
            if line.sequence == known.last_sequence:
                break
    except LogNotFound:
        raise ConversationNotFound(known.conversation_id) from None
    if conversation is None:
        raise ConversationNotFound(known.conversation_id)
    replays.keep(known.conversation_id, Replayed(end, conversation))
    return wrote, conversation


def messages_at(space: Space, number: int, known: KnownRequest) -> list[Message]:
    """The messages that a request wrote, by the index. Raises IndexUnavailable, StorageUnavailable."""
    places = space.index.messages.of_lines(number, known.first_sequence, known.last_sequence)
    return messages_of(space.logs.read_at(known.conversation_id, places)) if places else []


def _read_known(space: Space, request_id: str, conversation_id: str) -> KnownRequest | None:
    lines, _ = space.transcripts.read_whole(conversation_id)
    wrote = [line for line in lines if line.entry and line.entry.stamp.request_id == request_id]
    if not wrote:
        return None
    assert wrote[0].entry is not None
    return KnownRequest(request_id, wrote[0].entry.stamp.request_hash, conversation_id, wrote[0].sequence, wrote[-1].sequence)
