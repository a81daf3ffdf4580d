"""A delete of many logs of one kind: conversations, or communications."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from recollect_server.kernel.domain.errors import (
    AnchorsPresent,
    CommunicationNotFound,
    ConversationNotFound,
    ConversationPinned,
    DataUnavailable,
    StorageUnavailable,
)
from recollect_server.kernel.domain.ids import is_communication_id
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.index.derived import Removed
from recollect_server.kernel.space.logs import RequestKey
from recollect_server.kernel.space.space import Space

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
    remove: Callable[[str], Removed],
    *,
    dry_run: bool,
) -> BulkReceipt:
    """Delete the logs of one kind that match, at most `limit`.

    `page` returns so many of those that match behind a place, the longest unchanged first. `remove`
    deletes one and returns what was removed from where, or with `dry_run` raises what refuses it.
    """
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
