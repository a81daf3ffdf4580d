"""Readers of answers that are no data class as it stands, and the record that a request sends."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from typing import Any, TypeVar

from recollect._shared.read import reading, value_name
from recollect._shared.watching import Element
from recollect._types.channel import CommandReply
from recollect._types.checkpoint import CheckpointRecord
from recollect._types.context import Anchor
from recollect._types.conversation import Conversation, DeletedConversations, RemovedFrom
from recollect._types.recall import RecentConversation
from recollect._types.recent import RecentPage
from recollect.v1 import error_pb2

T = TypeVar("T")

BATCH = 1000
"""Updates in one element of a stream, where so many wait."""


@dataclass(frozen=True, slots=True)
class PutRecord:
    """A record as it is sent."""

    record: CheckpointRecord
    keep_existing: bool


def several(kind: type[T], field: str) -> Callable[[Any], tuple[T, ...]]:
    """Return the reader of answers that hold several of a `kind` in a field."""
    read = reading(kind)
    return lambda it: tuple(map(read, getattr(it, field)))


def updates_of(kind: type[T]) -> Callable[[Any], Element[T]]:
    """Return the reader of the updates of one element of a stream, each with its cursor. None
    stands for one of a kind that only its cursor counts of.
    """
    read: Callable[[Any], Any] = reading(kind)

    def updates(it: Any) -> Element[T]:
        all_of_it = map(read, (it.update, *getattr(it, "following", ())))
        return [(each.cursor, None if each.kind is None else each) for each in all_of_it]

    return updates


def set_only(read: Callable[[Any], T], field: str) -> Callable[[Any], T | None]:
    """Return a reader that gives None where a field of the answer is unset."""
    return lambda it: read(it) if it.HasField(field) else None


def deleted(it: Any) -> DeletedConversations:
    """Return the receipt of a deletion of many."""
    reasons = error_pb2.ErrorReason.DESCRIPTOR.values_by_number
    return DeletedConversations(
        conversation_ids=tuple(it.conversation_ids),
        left=tuple((e.conversation_id, value_name(reasons[e.reason]).upper()) for e in it.left),
        removed=several(RemovedFrom, "removed")(it),
        has_more=it.has_more,
        delete_time=it.delete_time.ToDatetime(tzinfo=UTC),
        failure=it.failure,
    )


def recent(it: Any) -> RecentPage:
    """Return a page of conversations by time."""
    entries = several(RecentConversation, "conversations")(it)
    return RecentPage.of(entries, has_more=it.has_more)


def anchor_page(it: Any) -> tuple[tuple[Anchor, ...], str]:
    """Return some anchors, and the token of the next page."""
    return several(Anchor, "anchors")(it), it.next_page_token


def command_reply(it: Any) -> CommandReply:
    """Return the answer of a command."""
    return CommandReply(text=it.reply, conversation=reading(Conversation, "conversation")(it))
