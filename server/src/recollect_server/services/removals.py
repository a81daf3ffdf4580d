"""Removal of text for good: conversations and communications deleted, one or all that match a
filter, and messages redacted.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from recollect_server.domain.errors import (
    AnchorsPresent,
    CommunicationNotFound,
    ConversationNotFound,
    ConversationPinned,
    DataUnavailable,
    StorageUnavailable,
)
from recollect_server.domain.filters import Filter
from recollect_server.domain.ids import is_communication_id
from recollect_server.services.space.deletion import nobody
from recollect_server.services.space.erasing import Receipt
from recollect_server.services.space.logs import RequestKey
from recollect_server.services.space.redaction import RedactionDone
from recollect_server.services.space.requests import key_of
from recollect_server.services.space.space import Space
from recollect_server.storage.index.columns import KnownRequest
from recollect_server.storage.index.removal import Removed

_MAX_COPIES = 100  # conversations that a redaction names
_DELETED_AT_ONCE = 100  # that one query names
_MAX_LEFT = 1000  # conversations that a receipt names as left

PageEnd = tuple[int, str]
"""Place of a log among those that match: when it changed last, and its name."""


@dataclass(frozen=True, slots=True)
class BulkReceipt:
    """Receipt of a delete of many conversations, or communications."""

    conversations: list[str]
    """Those that were deleted, or would be."""
    left: list[tuple[str, str]]
    """Those that match and were left, each with the name of the error that refuses it."""
    removed: dict[str, int]
    """Entries removed, by place."""
    has_more: bool
    time: int
    failure: str = ""
    """Name of the one at which it ended early, and why; empty if it did not."""

    @property
    def text(self) -> str:
        return orjson.dumps(self).decode()

    @classmethod
    def of(cls, text: str) -> "BulkReceipt":
        fields = orjson.loads(text)
        return cls(**fields | {"left": [(name, reason) for name, reason in fields["left"]]})


def delete_matching(
    space: Space,
    request: RequestKey | None,
    method: str,
    limit: int,
    page: Callable[[PageEnd | None, int], list[PageEnd]],
    remove: Callable[[str], Removed],
    *,
    dry_run: bool,
) -> BulkReceipt:
    """Delete the logs of one kind that match, at most `limit`, unless the request was carried out
    before.

    `page` returns so many of those that match behind a place, the longest unchanged first. `remove`
    deletes one and returns what was removed from where, or with `dry_run` raises what refuses it.
    """
    with space.exclusive(request=request.id if request else method):
        if request and (record := space.requests.answered(request)):
            return BulkReceipt.of(record.answer)
        with space.requests.carrying_out(request):
            done = _delete_matching(space, limit, page, remove, dry_run=dry_run)
            if request and not done.failure:
                record = KnownRequest(request.id, request.hash, "", answer=done.text)
                space.requests.remember(record)
        if request and done.failure:
            space.requests.give_up(request)
        return done


def _delete_matching(
    space: Space,
    limit: int,
    page: Callable[[PageEnd | None, int], list[PageEnd]],
    remove: Callable[[str], Removed],
    *,
    dry_run: bool,
) -> BulkReceipt:
    deleted: list[str] = []
    left: list[tuple[str, str]] = []
    removed: Counter[str] = Counter()
    place: PageEnd | None = None
    failure = ""
    while len(deleted) < limit and not failure:
        rows = page(place, _DELETED_AT_ONCE)
        for row in rows:
            if len(deleted) == limit:
                break
            place, name = row, row[1]
            try:
                removed.update(remove(name))
                deleted.append(name)
            except (ConversationPinned, AnchorsPresent) as error:
                if len(left) < _MAX_LEFT:
                    left.append((name, type(error).__name__))
            except (ConversationNotFound, CommunicationNotFound):
                pass  # somebody else deleted it meanwhile
            except DataUnavailable as error:
                if _is_gone(space, name):
                    deleted.append(name)  # the rest of its delete is finished later
                if not deleted or dry_run:
                    raise
                failure = f"{name}: {error}"
                break
        if len(rows) < _DELETED_AT_ONCE:
            break
    has_more = bool(failure or page(place, 1))
    return BulkReceipt(deleted, left, dict(removed), has_more, space.clock(), failure)


def _is_gone(space: Space, name: str) -> bool:
    """Return whether one is deleted, though its delete failed half-way."""
    if is_communication_id(name):
        return space.deletions.is_left(name)
    try:
        space.read(name)
    except ConversationNotFound:
        return True
    except StorageUnavailable:
        return False
    return False


class Removals:
    """The removals of a space. Raises the errors of `domain.errors`; safe to call from any
    thread.
    """

    def __init__(self, space: Space) -> None:
        self._space = space

    def delete(
        self,
        conversation_id: str,
        anchors: int,
        request_id: str,
        *,
        force: bool = False,
        deleting: Callable[[str], None] = nobody,
    ) -> Receipt:
        """Delete a conversation permanently, with its text in every file. `anchors` decides about
        its anchors; `deleting` is called with its id right before it goes.

        Raises ConversationPinned for a pinned one without `force`.
        """
        payload: dict[str, Any] = {"id": conversation_id, "anchors": anchors}
        request = key_of("Delete", request_id, payload | ({"force": True} if force else {}))
        return self._space.deletions.delete(
            conversation_id, anchors, request, force=force, deleting=deleting
        )

    def redact(
        self, conversation_id: str, sequence: int, turn: int, by: str, request_id: str
    ) -> tuple[RedactionDone, list[str]]:
        """Remove the text of the message of a line, or, where that is 0, of all messages of a turn.
        Return also the conversations that may have copies of them.
        """
        payload = {"id": conversation_id, "sequence": sequence, "turn": turn}
        done = self._space.redactions.redact(
            conversation_id,
            sequence=sequence,
            turn=turn,
            by=by,
            request=key_of("RedactMessage", request_id, payload),
        )
        self._space.end_copies(conversation_id)
        first = min(message.turn_number for message in done.messages)
        copies = self._space.index.conversations.copies(conversation_id, first, _MAX_COPIES)
        return done, copies

    def delete_many(
        self,
        chosen: Filter,
        anchors: int,
        limit: int,
        request_id: str,
        *,
        force: bool,
        dry_run: bool,
        deleting: Callable[[str], None] = nobody,
    ) -> BulkReceipt:
        """Delete the conversations that match, the longest unchanged first, at most `limit`.

        With `dry_run` nothing is deleted, and the answer says what would be. One that `delete`
        would refuse is left, with the reason. `deleting` is called with the id of each right before
        it goes. What was deleted before a failure stays deleted, and the receipt says why it ends
        there: it is not remembered, and a repeat of the request goes on with the rest. A failure
        before anything was deleted is raised.
        """
        payload = {
            "chosen": asdict(chosen),
            "anchors": anchors,
            "limit": limit,
            "force": force,
            "dry_run": dry_run,
        }
        space = self._space

        def page(place: PageEnd | None, size: int) -> list[PageEnd]:
            rows = space.index.conversations.select(chosen, size, place, newest_first=False)
            return [(it.conversation.update_time, it.conversation.id) for it in rows]

        def remove(name: str) -> Removed:
            if not dry_run:
                return space.deletions.delete(name, anchors, force=force, deleting=deleting).removed
            space.deletions.check(name, anchors, force=force)
            return {}

        request = key_of("DeleteMany", request_id, payload)
        return delete_matching(space, request, "DeleteMany", limit, page, remove, dry_run=dry_run)
