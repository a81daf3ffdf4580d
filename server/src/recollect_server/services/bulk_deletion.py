"""Deletion of the conversations that match a filter, with one receipt."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from recollect_server.domain.errors import (
    AnchorsPresent,
    ConversationNotFound,
    ConversationPinned,
    IndexUnavailable,
    StorageUnavailable,
)
from recollect_server.domain.filters import Filter
from recollect_server.services.space.space import Space

_DELETED_AT_ONCE = 100  # conversations that one query names
_MAX_LEFT = 1000  # conversations that a receipt names as left


@dataclass(frozen=True, slots=True)
class Deleted:
    """Receipt of a delete of many conversations."""

    conversations: list[str]
    """Those that were deleted, or would be."""
    left: list[tuple[str, str]]
    """Those that match and were left, each with the name of the error that refuses it."""
    removed: dict[str, int]
    """Entries removed, by place."""
    has_more: bool
    time: int
    failure: str = ""
    """Conversation at which it ended early, and why; empty if it did not."""

    @property
    def text(self) -> str:
        """The receipt as it is remembered with its request."""
        return orjson.dumps(self).decode()

    @classmethod
    def of(cls, text: str) -> "Deleted":
        """Return the receipt that was remembered."""
        fields = orjson.loads(text)
        return cls(**fields | {"left": [(name, reason) for name, reason in fields["left"]]})


def delete_matching(
    space: Space,
    chosen: Filter,
    anchors: int,
    limit: int,
    *,
    force: bool,
    dry_run: bool,
    deleting: Callable[[str], None],
) -> Deleted:
    """Delete the conversations that match, the longest unchanged first, at most `limit`.

    What was deleted before a failure stays deleted, and the receipt says why it ends there. A
    failure before anything was deleted is raised. The arguments are those of
    `Conversations.delete_many`.
    """
    deleted: list[str] = []
    left: list[tuple[str, str]] = []
    removed: Counter[str] = Counter()
    place: tuple[int, str] | None = None
    failure = ""
    while len(deleted) < limit and not failure:
        rows = space.index.conversations.select(chosen, _DELETED_AT_ONCE, place, newest_first=False)
        for row in rows:
            if len(deleted) == limit:
                break
            name = row.conversation.id
            place = row.conversation.update_time, name
            try:
                if dry_run:
                    space.check_delete(name, anchors, force=force)
                else:
                    receipt = space.delete(name, anchors, force=force, deleting=deleting)
                    removed.update(receipt.removed)
                deleted.append(name)
            except (ConversationPinned, AnchorsPresent) as error:
                if len(left) < _MAX_LEFT:
                    left.append((name, type(error).__name__))
            except ConversationNotFound:
                pass  # somebody else deleted it meanwhile
            except (IndexUnavailable, StorageUnavailable) as error:
                if _is_gone(space, name):
                    deleted.append(name)  # the rest of its delete is finished later
                if not deleted or dry_run:
                    raise
                failure = f"{name}: {error}"
                break
        if len(rows) < _DELETED_AT_ONCE:
            break
    has_more = bool(
        failure or space.index.conversations.select(chosen, 1, place, newest_first=False)
    )
    return Deleted(deleted, left, dict(removed), has_more, space.clock(), failure)


def _is_gone(space: Space, conversation_id: str) -> bool:
    """Return whether a conversation is deleted, though its delete failed half-way."""
    try:
        space.read(conversation_id)
    except ConversationNotFound:
        return True
    except StorageUnavailable:
        return False
    return False
