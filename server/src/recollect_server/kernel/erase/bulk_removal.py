"""Removal of text for good: conversations deleted, one or all that match a filter, as third
parties' communications are, and messages redacted.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from recollect_server.kernel.domain.errors import (
    AnchorsPresent,
    CommunicationNotFound,
    ConversationNotFound,
    ConversationPinned,
    DataUnavailable,
    RecollectError,
    StorageUnavailable,
)
from recollect_server.kernel.domain.filters import Filter, PageEnd
from recollect_server.kernel.domain.ids import is_communication_id
from recollect_server.kernel.erase.deletion import nobody
from recollect_server.kernel.erase.erasing import Receipt
from recollect_server.kernel.erase.redaction import RedactionDone
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.space.logs import RequestKey
from recollect_server.kernel.space.requests import key_of
from recollect_server.kernel.space.space import Space

_DELETED_AT_ONCE = 100  # that one query names
_MAX_LEFT = 1000  # conversations that a receipt names as left


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


def deleted_once(
    space: Space, request: RequestKey | None, method: str, delete: Callable[[], BulkReceipt]
) -> BulkReceipt:
    """Return the receipt of a delete of many, carried out unless the request was before. One
    without a request waits for others of its `method`.
    """
    with space.exclusive(request=request.id if request else method):
        if request and (record := space.requests.answered(request)):
            return BulkReceipt.of(record.answer)
        with space.requests.carrying_out(request):
            done = delete()
            if request and not done.failure:
                record = KnownRequest(request.id, request.hash, "", answer=done.text)
                space.requests.remember(record)
        if request and done.failure:
            space.requests.give_up(request)
        return done


def delete_matching(
    space: Space,
    limit: int,
    page: Callable[[PageEnd | None, int], list[PageEnd]],
    begin: Callable[[Sequence[str]], Mapping[str, RecollectError]],
    *,
    dry_run: bool,
) -> BulkReceipt:
    """Delete the logs of one kind that match, at most `limit`.

    `page` returns so many of those that match behind a place, the longest unchanged first. `begin`
    begins to delete logs, or with `dry_run` does nothing, and returns what refuses those that are
    left (see `Deletions.begin_each`).
    """
    deleted: list[str] = []
    left: list[tuple[str, str]] = []
    removed: Counter[str] = Counter()
    place: PageEnd | None = None
    failure: RecollectError | None = None
    failed = ""
    is_last = False
    while len(deleted) < limit and not (failed or is_last):
        count = min(_DELETED_AT_ONCE, limit - len(deleted))
        rows = page(place, count)
        is_last = len(rows) < count
        names = [name for _, name in rows]
        refused = begin(names) if rows else {}
        begun_names: list[str] = []
        for at, name in enumerate(names):
            place = rows[at]
            match refused.get(name):
                case None:
                    begun_names.append(name)
                case ConversationPinned() | AnchorsPresent() as error:
                    if len(left) < _MAX_LEFT:
                        left.append((name, type(error).__name__))
                case ConversationNotFound() | CommunicationNotFound():
                    pass  # somebody else deleted it meanwhile
                case failure:
                    failed = name
                    # the rest of the delete of these is finished later
                    deleted += [it for it in names[at:] if _is_gone(space, it)]
                    break
        deleted += begun_names
        try:
            removed.update({} if dry_run else space.deletions.finish(begun_names))
        except DataUnavailable as error:
            failure, failed = failure or error, failed or begun_names[0]
        if failure and (dry_run or not deleted):
            raise failure
    has_more = bool(failed or page(place, 1))
    reason = f"{failed}: {failure}" if failed else ""
    return BulkReceipt(deleted, left, dict(removed), has_more, space.clock(), reason)


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


_MAX_COPIES = 100  # conversations that a redaction names


class Removals:
    """The removals of a space. Raises the errors of `kernel.domain.errors`; safe to call from any
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
        deleting: Callable[..., None] = nobody,
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
        deleting: Callable[..., None] = nobody,
    ) -> BulkReceipt:
        """Delete the conversations that match, the longest unchanged first, at most `limit`.

        With `dry_run` nothing is deleted, and the answer says what would be. One that `delete`
        would refuse is left, with the reason. `deleting` is called with the ids of some right
        before they go. What was deleted before a failure stays deleted, and the receipt says why it
        ends there: it is not remembered, and a repeat of the request goes on with the rest. A
        failure before anything was deleted is raised.
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
            return [(it.state.update_time, it.state.id) for it in rows]

        def begin(names: Sequence[str]) -> Mapping[str, RecollectError]:
            if dry_run:
                return space.deletions.check(names, anchors, force=force)
            return space.deletions.begin_each(names, anchors, force=force, deleting=deleting)

        request = key_of("DeleteMany", request_id, payload)
        return deleted_once(
            space,
            request,
            "DeleteMany",
            lambda: delete_matching(space, limit, page, begin, dry_run=dry_run),
        )
