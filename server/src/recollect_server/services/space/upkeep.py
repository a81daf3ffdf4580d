"""Upkeep of a space that is open: its index is compared with the logs, caught up and made anew, and
what was interrupted is finished.

Calls go on meanwhile. Until the index is whole again the service answers from the transcripts what
it can, and searches say that they are degraded.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog

from recollect_server.domain.errors import (
    CallerGone,
    ConversationNotFound,
    DataUnavailable,
    NothingNamed,
    StorageUnavailable,
)
from recollect_server.domain.external import Communication
from recollect_server.domain.ids import is_conversation_id
from recollect_server.services.space.communication_logs import CommunicationLogs
from recollect_server.services.space.comparison import Comparison
from recollect_server.services.space.conversation_logs import ConversationLogs
from recollect_server.services.space.deletion import Deletions
from recollect_server.services.space.deletion_steps import (
    catch_up_forgotten,
    finish_delete,
    forget_anchors_again,
)
from recollect_server.services.space.events import IndexReplaced
from recollect_server.services.space.logs import Logs
from recollect_server.services.space.parts import Parts
from recollect_server.services.space.redaction import Redactions, finish_interrupted
from recollect_server.storage.index.checking import Contents
from recollect_server.storage.index.file import remove_files
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.store import LogNotFound, Version, timeline_of

log = structlog.get_logger("recollect.index")

_READ_AT_ONCE = 256  # transcripts whose requests are compared by one query
_LOOK = 10.0  # seconds between two looks for what another process left half removed


class Upkeep:
    """Upkeep of a space. Hold no lock."""

    def __init__(self, parts: Parts, deletions: Deletions, redactions: Redactions) -> None:
        self._deletions = deletions
        self._redactions = redactions
        self._looked = time.monotonic()
        self._store = parts.store
        self._kinds = parts.kinds
        self._anchors = parts.anchors
        self._projection = parts.projection
        self._pending = parts.pending
        self._states = parts.states
        self._writes = parts.writes
        self._locks = parts.locks
        self._clock = parts.clock
        self._publish = parts.publish

    def repair(self, stopping: Callable[[], bool]) -> bool:
        """Finish what was interrupted, and repair what can be repaired of the index now. Return
        False if something is left to do.

        Raises nothing.
        """
        if self._store.sharing:
            self._find_interrupted()
        finished = self._deletions.finish_interrupted()
        return self._repair_index(stopping) and finished

    def _find_interrupted(self) -> None:
        """Look at times for what another process began to remove and did not end."""
        if (now := time.monotonic()) > self._looked + _LOOK:
            self._looked = now
            with suppress(DataUnavailable):
                self._deletions.find_interrupted()
                self._redactions.find_interrupted()

    def _repair_index(self, stopping: Callable[[], bool]) -> bool:
        """Repair the index. Return False if something is left to do. Raises nothing."""
        projection = self._projection
        try:
            if (reason := projection.index.lost()) and not self._renew(reason, stopping):
                return False
            if projection.suspects.reason and not self._compare(stopping):
                return False
            for conversation_id in projection.overlay.lagging():
                if stopping() or not self._catch_up(conversation_id):
                    return False
        except (DataUnavailable, OSError) as error:
            log.warning("index_not_repaired", reason=str(error))
            return False
        return not projection.overlay.lagging()

    def _catch_up(self, conversation_id: str) -> bool:
        """Index what the index lacks of a conversation. Return False if it still refuses.

        Pending writes are left to the conversation's next write, unless the log is shared: what
        another process wrote is indexed behind them. Raises StorageUnavailable.
        """
        with self._locks.conversations.hold(conversation_id):
            if self._pending.of(conversation_id) and not (
                self._store.sharing and self._writes.settle(conversation_id)
            ):
                return True
            with suppress(ConversationNotFound):
                if not self._states.get(conversation_id).indexed:
                    return False
            self._projection.overlay.caught_up(conversation_id)
            return True

    # Compare -------------------------------------------------------------------------------------

    def _compare(self, stopping: Callable[[], bool]) -> bool:
        """Compare an index that no server closed with the transcripts. Return False if it is
        damaged, or something is left to compare.

        Raises DataUnavailable.
        """
        suspects, index = self._projection.suspects, self._projection.index
        contents = Contents(index)
        comparison = Comparison(ConversationLogs(self._store), contents)
        # first: what names no conversation and may be a repeat is refused until then
        unread = [name for name, has_requests in suspects.waiting().items() if not has_requests]
        for first in range(0, len(unread), _READ_AT_ONCE):
            if stopping():
                return False
            names = unread[first : first + _READ_AT_ONCE]
            doubtful = comparison.doubtful(names)
            suspects.note_requests(set(names) - doubtful)
            for conversation_id in filter(is_conversation_id, doubtful):
                self._verify(conversation_id)
        third_parties = Comparison(CommunicationLogs(self._store), contents)
        failed: list[tuple[str, str]] = []
        for conversation_id in suspects.waiting():
            if stopping() or index.lost():
                return False
            reason = (
                self._verify(conversation_id)
                if is_conversation_id(conversation_id)
                else self._verify_communication(third_parties, conversation_id)
            )
            if reason:
                failed.append((conversation_id, reason))
        if failed:
            name, reason = failed[0]
            log.warning(
                "index_not_compared", conversation=name, reason=reason, others=len(failed) - 1
            )
        if suspects.waiting():
            return False

        def check() -> None:
            if stopping():
                raise CallerGone

        try:
            problems = contents.problems(check)
        except CallerGone:
            return False
        if problem := problems[0] if problems else index.miscount():
            self._states.distrust(problem)
            return False
        suspects.end()
        log.info("index_compared")
        return True

    def _verify(self, conversation_id: str) -> str:
        """Compare the index with a conversation, unless that has pending writes. Return why it
        cannot be read, if so: the index may lack its requests, and it is compared once it can.

        Raises nothing.
        """
        with self._locks.conversations.hold(conversation_id):
            if self._pending.of(conversation_id):
                return ""  # its end may never have reached the disk
            try:
                self._states.load(conversation_id)  # which compares it, and keeps nothing
            except (ConversationNotFound, LogNotFound):
                self._projection.suspects.clear(conversation_id)
            except StorageUnavailable as error:
                return str(error)
        return ""

    def _verify_communication(self, comparison: Comparison[Communication], name: str) -> str:
        """Compare the index with what a third party said, as `_verify` does a conversation, all but
        the words: nobody writes it meanwhile.
        """
        with self._locks.conversations.hold(name):
            try:
                stored = self._projection.index.external.find(name)
                if stored is not None:
                    # to read the words of all takes minutes, which calls and a stop would wait for
                    reading = comparison.read(name, stored, words=False)
                    problem = next(comparison.differences(name, stored, reading, words=False), "")
                    if problem:
                        self._states.distrust(f"{name}: {problem}")
                        return problem
                self._projection.suspects.clear(name)
            except LogNotFound:
                self._projection.suspects.clear(name)
            except StorageUnavailable as error:
                return str(error)
        return ""

    # Make anew -----------------------------------------------------------------------------------

    def _renew(self, reason: str, stopping: Callable[[], bool]) -> bool:
        """Make the index anew beside the calls that go on. Return False if the server stops
        meanwhile: the next start makes it.
        """
        store, old = self._store, self._projection.index
        store.create()  # raises OSError if the folder is no longer this server's
        if old.give_up(reason):
            log.error("index_lost", reason=reason)
        remove_files(store.root)
        # Its numbers begin behind those of the old one: a call that still has an old number gets
        # nothing, and nothing wrong.
        new = Index(store.root, numbers_after=old.last_number())
        try:
            new.log.claim_file(copied=False)
            new.note_timeline(timeline_of(store))
            catch_up_forgotten(store, new)
            for logs in self._kinds:
                for name, _ in store.logs(logs.kind):
                    if stopping():
                        new.want_rebuild("the server stopped while it was made")
                        new.close()
                        return False
                    self._build(new, logs, name)
            forget_anchors_again(store, new)
            new.settle()  # what is routed asks it for what it has, and does not wait
            self._replace(new)
        except BaseException:
            new.close()
            raise
        progress = new.conversations.progress()
        log.warning("index_made_anew", conversations=len(progress))
        for conversation_id, size in store.logs(Kind.CONVERSATION):
            # written to meanwhile, or the new index refused its lines
            if progress.get(conversation_id, (0, 0))[0] != size:
                self._projection.overlay.note_lag(
                    conversation_id, "the new index does not have all of it"
                )
        for logs in self._kinds:  # those that are redacted or deleted met no index
            for name, _ in store.logs(logs.kind, Version.REPLACED):
                with self._locks.conversations.hold(name):
                    finish_interrupted(
                        *(store, new, self._anchors, name, self._clock(), self._publish),
                        is_rebuilt=True,
                    )
            for name, _ in store.logs(logs.kind, Version.DELETED):
                with self._locks.conversations.hold(name):
                    finish_delete(store, new, name, self._clock())
        return True

    def _build(self, index: Index, logs: Logs[Any], name: str) -> None:
        """Index a log in a new index.

        A communication that is written meanwhile finds no index: its next reader indexes it.
        """
        with self._locks.conversations.hold(name):
            if self._pending.of(name):
                # The end of its file may be nothing: it is caught up when it is written to.
                self._projection.overlay.note_lag(name, "its transcript refuses to be written")
                return
            try:
                logs.catch_up(
                    index,
                    name,
                    logs.find(index, name),
                    time=self._clock(),
                    log_updates=False,
                    wait=False,
                )
            except (ConversationNotFound, NothingNamed, StorageUnavailable) as error:
                log.warning("transcript_passed_over", **{logs.noun: name}, reason=str(error))

    def _replace(self, index: Index) -> None:
        """Use another index from here on."""
        with self._locks.conversations.hold_all():
            self._projection.replace(index)
            self._states.clear()
            self._publish(IndexReplaced(index))
