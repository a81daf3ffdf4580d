"""Exactly-once: a request that was carried out before is answered as it was then, and stores nothing.

The request's id and a hash of its payload stand in the lines that it wrote, so they survive the index. The index finds them
quickly; where it cannot answer, the conversation's transcript is read.
"""

import hashlib
from typing import Any

import orjson

from recollect_server.domain.conversation import Conversation
from recollect_server.domain.errors import ConversationNotFound, IndexUnavailable, RequestIdReused, StorageUnavailable
from recollect_server.domain.message import Message
from recollect_server.services.catching_up import read_unindexed
from recollect_server.services.space import RequestKey, Space
from recollect_server.storage.index.requests import KnownRequest
from recollect_server.storage.transcript.reader import Line


def key_of(method: str, request_id: str, payload: dict[str, Any]) -> RequestKey | None:
    """The request's id with the hash of what it asks for; None without an id."""
    if not request_id:
        return None
    text = orjson.dumps([method, payload], option=orjson.OPT_SORT_KEYS)
    return RequestKey(request_id, hashlib.sha256(text).hexdigest()[:32])


def find_known(space: Space, request: RequestKey, conversation_id: str | None) -> KnownRequest | None:
    """The same request, if it was carried out before. Raises RequestIdReused if its payload was another.

    `conversation_id` is where to look if the index cannot answer; without it that raises IndexUnavailable.
    """
    try:
        known = space.known_request(request.id)
    except IndexUnavailable:
        if conversation_id is None:
            raise
        known = _read_known(space, request.id, conversation_id)
    if known is not None and known.hash != request.hash:
        raise RequestIdReused(request.id)
    return known


def as_it_was(space: Space, known: KnownRequest) -> tuple[list[Line], Conversation]:
    """The lines that a request wrote, and what was known of the conversation right after."""
    try:
        lines, conversation = read_unindexed(space.folder, known.conversation_id, known.last_sequence)
    except FileNotFoundError:
        raise ConversationNotFound(known.conversation_id) from None
    except OSError as error:
        raise StorageUnavailable(f"the transcript cannot be read: {error.strerror}") from error
    if conversation is None:
        raise ConversationNotFound(known.conversation_id)
    return lines[known.first_sequence - 1 :], conversation


def messages_of(lines: list[Line]) -> list[Message]:
    """The messages among the lines."""
    return [line.entry.content for line in lines if line.entry and isinstance(line.entry.content, Message)]


def _read_known(space: Space, request_id: str, conversation_id: str) -> KnownRequest | None:
    try:
        lines, _ = read_unindexed(space.folder, conversation_id, None)
    except OSError as error:
        raise StorageUnavailable(f"the transcript cannot be read: {error.strerror}") from error
    wrote = [line for line in lines if line.entry and line.entry.stamp.request_id == request_id]
    if not wrote:
        return None
    assert wrote[0].entry is not None
    return KnownRequest(request_id, wrote[0].entry.stamp.request_hash, conversation_id, wrote[0].sequence, wrote[-1].sequence)
