"""Deletion of a conversation, or of a communication with a third party: durable from the first step
on, and complete after the last (see `kernel.erase.erasing`).

`Deletions` takes the steps for calls, and again for what was interrupted or begun elsewhere. A
start-up and a new index take them by `erasing.finish_deletes`.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from recollect_server.kernel.domain.errors import (
    ConversationNotFound,
    ConversationPinned,
    DataUnavailable,
    RecollectError,
)
from recollect_server.kernel.domain.ids import Action, Kind
from recollect_server.kernel.erase.erasing import (
    DeletedLog,
    Receipt,
    finish_deletes,
    lines_as_indexed,
)
from recollect_server.kernel.index.derived import Removed, Stored
from recollect_server.kernel.log.store import LogNotFound, Version, has_version
from recollect_server.kernel.space.events import Deleted, LogsErased
from recollect_server.kernel.space.logs import RedactedElsewhere, RequestKey
from recollect_server.kernel.space.parts import Parts
from recollect_server.kernel.space.requests import request_of_delete

log = structlog.get_logger("recollect.deletion")

KEEP_ANCHORS, DELETE_ANCHORS = 1, 2  # as the contract numbers them; 0 says neither


def nobody(*_conversation_ids: str) -> None:
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
                        raise
                    number = self._taken(conversation_id).number
                self._take(conversation_id, number, threading.Event(), request)
            # Without the locks, which other conversations share: the rest may take seconds.
            if (receipt := self._complete([conversation_id])) is not None:
                return receipt

    def begin_each(
        self,
        names: Sequence[str],
        anchors: int,
        *,
        force: bool = False,
        deleting: Callable[..., None] = nobody,
    ) -> dict[str, RecollectError]:
        """Take step 1 of deletes of logs of one kind, which no request of their own begins:
        `finish` must follow. Return those that are left, each with what refuses it; behind the
        first one that cannot be read all are, and have no entry. Hold no lock.
        """
        left: dict[str, RecollectError] = {}
        # one after the other over a shared store: no lock waits for more than one question
        count = 1 if self._parts.store.sharing else len(names)
        for at in range(0, len(names), count):
            left |= self._begin_each(names[at : at + count], anchors, force, deleting)
            if any(isinstance(it, DataUnavailable) for it in left.values()):
                break
        return left

    def _begin_each(
        self, names: Sequence[str], anchors: int, force: bool, deleting: Callable[..., None]
    ) -> dict[str, RecollectError]:
        left: dict[str, RecollectError] = {}
        numbers: dict[str, int | None] = {}
        with self._parts.locks.conversations.hold_each(names):
            for name in names:
                try:
                    if self.is_left(name):
                        raise self._parts.logs_of(name).not_found(name)
                    numbers[name] = self._admit(name, anchors, force, None)[0]
                except RecollectError as error:
                    left[name] = error
                    if isinstance(error, DataUnavailable):
                        break
            if not numbers:
                return left
            deleting(*numbers)
            if self._parts.store.sharing is None:
                left |= self._parts.store.delete_each([*numbers])
            else:
                (name,) = numbers
                try:
                    self._swap(name, None)
                except RecollectError as error:
                    left[name] = error
            ended = threading.Event()
            for name in numbers.keys() - left.keys():
                self._take(name, numbers[name], ended)
        return left

    def _take(
        self,
        name: str,
        number: int | None,
        ended: threading.Event,
        request: RequestKey | None = None,
    ) -> None:
        """Have the other steps of a delete under way. Hold its lock."""
        self._forget(name)
        delete = self._taken(name)
        delete.number, delete.request = number, request or delete.request
        delete.ended = ended

    def finish(self, names: Sequence[str]) -> Removed:
        """Take the other steps of deletes that `begin_each` began, and return what was removed.
        Raises DataUnavailable: then those that are left are finished later. Hold no lock.
        """
        removed: Counter[str] = Counter()
        # over a shared store another process may end any of them
        count = 1 if self._parts.store.sharing else len(names)
        for at in range(0, len(names), count or 1):
            if receipt := self._complete(names[at : at + count]):
                removed.update(receipt.removed)
        return dict(removed)

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
            if stored is None:
                return
            delete.number = stored.number
            self._keep_as_indexed(delete, stored)
            if logs.kind is not Kind.CONVERSATION:
                self._forget_received(conversation_id)
            logs.removal(index).remove({conversation_id: True}, (), (), self._parts.clock())
        self._parts.publish(LogsErased((conversation_id,)))

    def _forget_received(self, name: str) -> None:
        """Know what providers delivered into a deleted communication before its row goes, by which
        that was known so far: who deletes it may be gone before it wrote that to the ledger.
        """
        store, index = self._parts.store, self._parts.projection.index
        for it in self._parts.participants:
            try:
                it.erase(index, [DeletedLog(store, name)])
            except LogNotFound:  # who ended the delete wrote it
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
                self._complete([conversation_id])
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

    def check(
        self, names: Sequence[str], anchors: int, *, force: bool = False
    ) -> dict[str, RecollectError]:
        """Return what `begin_each` would, and change nothing."""
        left: dict[str, RecollectError] = {}
        for name in names:
            with self._parts.locks.conversations.hold(name):
                try:
                    state = self._parts.states.get(name)
                    if state.conversation.pinned and not force:
                        raise ConversationPinned(name)
                    if anchors not in (KEEP_ANCHORS, DELETE_ANCHORS):
                        self._release(name, state.number, anchors)
                except RecollectError as error:
                    left[name] = error
                    if isinstance(error, DataUnavailable):
                        break
        return left

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
        note = self._parts.requests.begin_delete(request, conversation_id) if request else ""
        deleting(conversation_id)
        self._swap(conversation_id, size if confirm else None, note)
        return number

    def _swap(self, name: str, before: int | None, note: str = "") -> None:
        """Take step 1 of the delete of one log, which had so many bytes, if that is given."""
        try:
            with self._parts.doubts.asking(Action.DELETE, name):
                self._parts.store.swap(name, None, before, note=note)
        except LogNotFound:
            if self._parts.store.sharing is None:
                raise
            # another process deleted it, and this one has not followed that
            raise self._parts.logs_of(name).not_found(name) from None

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

    def _is_begun(self, name: str, request: RequestKey) -> bool:
        """Return whether this very request began a delete, here, in another process or in one that
        was killed, and the delete has not ended. Then it is finished here too.
        """
        store = self._parts.store
        return has_version(store, name, Version.DELETED) and (
            request_of_delete(store, name) == request
        )

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

    def _complete(self, names: Sequence[str]) -> Receipt | None:
        """Take the steps behind the first one of deletes of one kind of log. Return None if others
        finished meanwhile. Hold no lock, and have them under way.
        """
        deletes = {name: self._deletes[name] for name in names}
        try:
            try:
                return self._finish(deletes)
            except LogNotFound:
                if len(names) > 1:  # each alone: one of them is finished
                    return Receipt(names[0], self.finish(names), self._parts.clock())
                # It was finished with a new index, or by others, who took this process for gone, or
                # its begin was lost with a part of the store.
                index = self._parts.projection.index
                removal = self._parts.logs_of(names[0]).removal(index)
                if removal.find(names[0]) is not None:
                    index.condemn(f"it has words of {names[0]}, which another server deleted")
                self._deletes.pop(names[0], None)
                return None
        finally:
            for delete in deletes.values():
                if (ended := delete.ended) is not None:
                    delete.ended = None
                    ended.set()

    def _finish(self, deletes: Mapping[str, _Delete]) -> Receipt:
        first = next(iter(deletes))
        logs, index = self._parts.logs_of(first), self._parts.projection.index
        event = Deleted({name: it.number for name, it in deletes.items()}, {})
        if logs.kind is Kind.CONVERSATION:
            self._parts.publish(event)
        if self._parts.store.sharing:
            for name, delete in deletes.items():
                if (stored := logs.find(index, name)) is not None:
                    self._keep_as_indexed(delete, stored)
        receipt = finish_deletes(
            *(logs, index, self._parts.participants),
            {name: it.as_indexed for name, it in deletes.items()},
            *(self._parts.clock(), deletes[first].request),
            elsewhere=event.removed,
        )
        for name in deletes:
            self._deletes.pop(name, None)
        self._parts.publish(LogsErased(tuple(deletes)))
        return receipt
