"""Removal of text for good: conversations and communications deleted, one or all that match a
filter, and messages redacted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from recollect_server.kernel.domain.errors import RecollectError
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.erase.bulk_removal import (
    BulkReceipt,
    PageEnd,
    delete_matching,
    deleted_once,
)
from recollect_server.kernel.erase.deletion import nobody
from recollect_server.kernel.erase.erasing import Receipt
from recollect_server.kernel.erase.redaction import RedactionDone
from recollect_server.kernel.space.requests import key_of
from recollect_server.kernel.space.space import Space

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
