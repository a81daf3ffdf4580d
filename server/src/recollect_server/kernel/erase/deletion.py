"""Deletion of a conversation, or of a communication with a third party: durable from the first step
on, and complete after the last (see `kernel.erase.erasing`).

`Deletions` takes the steps for calls, and again for what was interrupted or begun elsewhere. A
start-up and a new index take them by `erasing.finish_delete`.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from recollect_server.kernel.domain.errors import (
    ConversationNotFound,
    ConversationPinned,
    DataUnavailable,
)
from recollect_server.kernel.erase.erasing import (
    Receipt,
    erase_all,
    finish_delete,
    lines_as_indexed,
)
from recollect_server.kernel.index.stored import Stored
from recollect_server.kernel.log.kinds import Action, Kind
from recollect_server.kernel.log.store import LogNotFound, Version, is_taken
from recollect_server.kernel.space.events import Deleted, LogErased
from recollect_server.kernel.space.logs import RedactedElsewhere, RequestKey
from recollect_server.kernel.space.parts import Parts
from recollect_server.kernel.space.requests import request_of_delete

log = structlog.get_logger("recollect.deletion")

KEEP_ANCHORS, DELETE_ANCHORS = 1, 2  # as the contract numbers them; 0 says neither


def nobody(_conversation_id: str) -> None:
    """Tell nobody that a conversation is deleted."""


class NotConfirmed(Exception):
    """The conversation no longer meets the condition under which it was to be deleted."""


@dataclass(slots=True)
class _Delete:
    """A delete that has begun, here or in another process, and has not ended: whatever interrupts
    its last steps, they are taken again.
    """

    number: int | None = None
    """Number of the log in the index, if that had it."""
    request: RequestKey | None = None
    """Request that began it here: its end keeps the receipt."""
    as_indexed: list[bytes] | None = None
    """Lines by which the words go, where another process redacted some and this one had not
    followed that.
    """
    ended: threading.Event | None = None
    """Set once nobody takes its steps any more; None if nobody does."""


class Deletions:
    """The deletes of a space. Safe to call from any thread."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._deletes: OrderedDict[str, _Delete] = OrderedDict()
        """Changed under the conversation's lock, but by who takes the steps of one. What refused to
        be finished comes last.
        """

    def delete(
        self,
        conversation_id: str,
        anchors: int,
        request: RequestKey | None = None,
        *,
        force: bool = False,
        confirm: Callable[[Any], bool] | None = None,
        deleting: Callable[[str], None] = nobody,
    ) -> Receipt:
        """Remove a conversation for good, its text from every file.

        `anchors` says what becomes of its anchors. `confirm` is asked once more, under the
        conversation's lock: NotConfirmed is raised if it returns False. `deleting` is called with
        the id right before anything goes, when nothing refuses it any more. Raises
        ConversationPinned for a pinned one without `force`; ConversationNotFound, AnchorsPresent,
        DataUnavailable. Hold no lock.
        """
        while True:
            if ended := self._under_way(conversation_id):
                ended.wait()
            with self._parts.locks.exclusive(
                request=request.id if request else "", conversation=conversation_id
            ):
                if self._under_way(conversation_id):
                    continue
                if request and (earlier := self._parts.requests.answered(request)):
                    return Receipt.of(earlier)
                try:
                    number = self._begin(
                        conversation_id, anchors, request, force, confirm, deleting
                    )
                except ConversationNotFound:
                    if request is None:
                        raise
                    if not self._is_begun(conversation_id, request):
                        # Its answer is kept before the log goes: who finds no log finds it.
                        if earlier := self._parts.requests.answered(request):
                            return Receipt.of(earlier)
                        if self._cut_short(conversation_id) == request:
                            return self._end_without_log(conversation_id, request)
                        raise
                    number = self._taken(conversation_id).number
                self._forget(conversation_id)
                delete = self._taken(conversation_id)
                delete.number, delete.request = number, request or delete.request
                delete.ended = threading.Event()
            # Without the locks, which other conversations share: the rest may take seconds.
            if (receipt := self._complete(conversation_id, delete)) is not None:
                return receipt

    def _under_way(self, conversation_id: str) -> threading.Event | None:
        """Return the end of the steps of a delete that somebody takes now."""
        delete = self._deletes.get(conversation_id)
        return delete.ended if delete else None

    def _taken(self, conversation_id: str) -> _Delete:
        return self._deletes.setdefault(conversation_id, _Delete())

    def _forget(self, conversation_id: str) -> None:
        """Drop what is remembered of a deleted conversation. Hold its lock."""
        self._parts.states.forget(conversation_id)
        self._parts.pending.release(conversation_id)
        self._parts.projection.overlay.forget(conversation_id)

    def follow(self, conversation_id: str) -> None:
        """Let nobody find a conversation or a communication that another process deleted.
        `finish_interrupted` removes the rest of it. Raises DataUnavailable. Hold no lock.
        """
        with self._parts.locks.conversations.hold(conversation_id):
            self._parts.doubts.settle((Action.DELETE, conversation_id))
            if self._under_way(conversation_id):
                return
            projection = self._parts.projection
            self._forget(conversation_id)
            delete = self._taken(conversation_id)
            delete.number = None
            logs, index = self._parts.logs_of(conversation_id), projection.index
            stored = logs.find(index, conversation_id)
            if stored is not None:
                delete.number = stored.number
                self._keep_as_indexed(delete, stored)
                if logs.kind is not Kind.CONVERSATION:
                    self._forget_received(conversation_id)
                logs.removal(index).begin(stored.number, conversation_id, self._parts.clock())

    def _forget_received(self, name: str) -> None:
        """Know what providers delivered into a deleted communication before its row goes, by which
        that was known so far: who deletes it may be gone before it wrote that to the ledger.
        """
        index = self._parts.projection.index
        try:
            erase_all(self._parts.participants, index, name)
        except LogNotFound:  # who ended the delete wrote it
            for it in self._parts.participants:
                it.before_logs(index)

    def unfinished(self) -> Iterator[str]:
        """Yield what is deleted and was not removed here, because the store refused a step: until
        it is followed, it is found. Raises DataUnavailable.
        """
        for name in list(self._deletes):
            is_left = name in self._deletes and self._under_way(name) is None
            logs = self._parts.logs_of(name)
            if is_left and logs.find(self._parts.projection.index, name) is not None:
                yield name

    @property
    def is_any_left(self) -> bool:
        """True if a delete was interrupted, or followed, and is not finished."""
        return any(delete.ended is None for delete in list(self._deletes.values()))

    def is_left(self, conversation_id: str) -> bool:
        """Return whether the index may have something of a deleted conversation."""
        return conversation_id in self._deletes

    def free(self, conversation_id: str) -> None:
        """Let an id that no log has begin anew: a repeat of the request that deleted what had it
        before is answered, and does not delete what begins now. Raises DataUnavailable. Hold the
        conversation's lock.
        """
        if (request := self._cut_short(conversation_id)) is not None:
            self._end_without_log(conversation_id, request)

    def revive(self, conversation_id: str) -> None:
        """Let a conversation be there again whose delete was lost with a part of the store. The
        index must not be used any more where something of it is left.
        """
        self._deletes.pop(conversation_id, None)

    def finish_interrupted(self, only: Collection[str] | None = None) -> bool:
        """Finish the deletes that the store or the index interrupted, or another process began; of
        all conversations or of `only` these. Return False if one of them still refuses: the next
        call begins with the others, which one log that cannot be read does not hold up. Hold no
        lock.
        """
        for conversation_id in list(self._deletes):
            if only is not None and conversation_id not in only:
                continue
            with self._parts.locks.conversations.hold(conversation_id):
                delete = self._deletes.get(conversation_id)
                if delete is None or delete.ended:
                    continue
                delete.ended = threading.Event()
            try:
                self._complete(conversation_id, delete)
            except DataUnavailable as error:
                log.warning("delete_not_finished", conversation=conversation_id, reason=str(error))
                with suppress(KeyError):  # it is revived
                    self._deletes.move_to_end(conversation_id)
                return False
            log.warning("interrupted_delete_finished", conversation=conversation_id)
        return True

    def find_interrupted(self) -> None:
        """Look for deletes that a process began and did not end. Raises StorageUnavailable."""
        for logs in self._parts.kinds:
            for conversation_id, size in self._parts.store.logs(logs.kind, Version.DELETED):
                # One without a line was begun, and cancelled: it keeps its begin from being made
                # late.
                if size:
                    self._taken(conversation_id)

    def check(self, conversation_id: str, anchors: int, *, force: bool = False) -> None:
        """Raise what `delete` would refuse a conversation with, and change nothing."""
        with self._parts.locks.conversations.hold(conversation_id):
            state = self._parts.states.get(conversation_id)
            if state.conversation.pinned and not force:
                raise ConversationPinned(conversation_id)
            if anchors not in (KEEP_ANCHORS, DELETE_ANCHORS):
                self._release(conversation_id, state.number, anchors)

    def _begin(
        self,
        conversation_id: str,
        anchors: int,
        request: RequestKey | None,
        force: bool,
        confirm: Callable[[Any], bool] | None,
        deleting: Callable[[str], None],
    ) -> int | None:
        """Take step 1, and return the number in the index. Hold the conversation's lock."""
        number, size = self._admit(conversation_id, anchors, force, confirm)
        if request:
            self._parts.requests.begin_delete(request, conversation_id)
        deleting(conversation_id)
        try:
            with self._parts.doubts.asking(Action.DELETE, conversation_id):
                self._parts.store.swap(conversation_id, None, size if confirm else None)
        except LogNotFound:
            if self._parts.store.sharing is None:
                raise
            # another process deleted it, and this one has not followed that
            raise self._parts.logs_of(conversation_id).not_found(conversation_id) from None
        return number

    def _admit(
        self,
        name: str,
        anchors: int,
        force: bool,
        confirm: Callable[[Any], bool] | None,
    ) -> tuple[int | None, int]:
        """Return the number in the index and the size of what may be deleted. Raises what refuses
        it. Hold its lock.
        """
        if (logs := self._parts.logs_of(name)).kind is not Kind.CONVERSATION:
            stored = logs.find(self._parts.projection.index, name)
            if stored is None or name in self._deletes:
                raise logs.not_found(name)
            # of a shared one the store itself compares the length, when the delete begins
            store = self._parts.store
            has_all = store.sharing is not None or store.length(name) == stored.bytes
            if confirm is not None and not (has_all and confirm(stored.state)):
                raise NotConfirmed
            return stored.number, stored.bytes
        state = self._parts.states.get(name)
        if state.conversation.pinned and not force:
            raise ConversationPinned(name)
        if confirm is not None and not confirm(state.conversation):
            raise NotConfirmed
        self._release(name, state.number, anchors)
        return state.number, state.size

    def _release(self, conversation_id: str, number: int | None, anchors: int) -> None:
        """Keep what is to stay of a conversation, or raise what refuses to delete it. Hold its
        lock, before the first step.
        """
        for it in self._parts.participants:
            it.release(self._parts.projection.index, conversation_id, number, anchors)

    def _is_begun(self, conversation_id: str, request: RequestKey) -> bool:
        """Return whether this very request began to delete a conversation, in another process or in
        one that was killed, and the delete has not ended. Then it is finished here too.
        """
        return self._parts.requests.is_begun(request) and is_taken(
            self._parts.store, conversation_id
        )

    def _cut_short(self, conversation_id: str) -> RequestKey | None:
        """Return the request that deleted a conversation whose log is gone, and whose answer a kill
        or the index kept from being kept. Over a shared store that is kept before the log goes.
        """
        if self._parts.store.sharing is not None:
            return None
        return request_of_delete(self._parts.store, self._parts.projection.index, conversation_id)

    def _end_without_log(self, conversation_id: str, request: RequestKey) -> Receipt:
        """Keep the answer of such a request: nothing is left that it could count."""
        empty = Receipt(conversation_id, {}, self._parts.clock())
        return Receipt.of(self._parts.requests.end_delete(empty.known_as(request)))

    def _keep_as_indexed(self, delete: _Delete, stored: Stored[Any]) -> None:
        """Keep the lines that the index has of a deleted conversation, if the log has others: its
        row, which says how many, goes first. Where nobody has them, the index is made anew.
        """
        index = self._parts.projection.index
        with suppress(RedactedElsewhere):
            old = lines_as_indexed(
                self._parts.store, index, stored.state.id, stored, is_deleted=True
            )
            delete.as_indexed = old or delete.as_indexed

    def _complete(self, conversation_id: str, delete: _Delete) -> Receipt | None:
        """Take the steps behind the first one. Return None if others finished meanwhile. Hold no
        lock, and have it under way.
        """
        receipt: Receipt | None = None
        try:
            try:
                receipt = self._finish(conversation_id, delete)
            except LogNotFound:
                # It was finished with a new index, or by others, who took this process for gone, or
                # its begin was lost with a part of the store.
                index = self._parts.projection.index
                removal = self._parts.logs_of(conversation_id).removal(index)
                if removal.find(conversation_id) is not None:
                    index.condemn(
                        f"it has words of {conversation_id}, which another server deleted"
                    )
            self._deletes.pop(conversation_id, None)
            return receipt
        finally:
            ended, delete.ended = delete.ended, None
            assert ended is not None
            ended.set()

    def _finish(self, conversation_id: str, delete: _Delete) -> Receipt:
        logs, index = self._parts.logs_of(conversation_id), self._parts.projection.index
        event = Deleted(conversation_id, delete.number, {})
        if logs.kind is Kind.CONVERSATION:
            self._parts.publish(event)
        if (stored := logs.find(index, conversation_id)) is not None:
            self._keep_as_indexed(delete, stored)
        receipt = finish_delete(
            *(logs, index, self._parts.participants, conversation_id),
            *(self._parts.clock(), delete.request),
            elsewhere=event.removed,
            old=delete.as_indexed,
        )
        self._parts.publish(LogErased(conversation_id))
        return receipt
