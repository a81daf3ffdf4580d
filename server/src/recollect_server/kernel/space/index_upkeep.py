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

from recollect_server.kernel.compare.comparison import Comparison
from recollect_server.kernel.domain.errors import (
    CallerGone,
    ConversationNotFound,
    DataUnavailable,
    NothingNamed,
    StorageUnavailable,
)
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.erase.deletion import Deletions
from recollect_server.kernel.erase.erasing import finish_deletes, finish_interrupted
from recollect_server.kernel.erase.redaction import Redactions
from recollect_server.kernel.index.file import drop_ends, keep_ends, remove_files
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.store import Version, timeline_of
from recollect_server.kernel.space.events import IndexReplaced, LogsErased
from recollect_server.kernel.space.logs import Logs
from recollect_server.kernel.space.parts import Parts

log = structlog.get_logger("recollect.index")

_LOOK = 10.0  # seconds between two looks for what another process left half removed


class Upkeep:
    """Upkeep of a space. Hold no lock."""

    def __init__(
        self,
        parts: Parts,
        deletions: Deletions,
        redactions: Redactions,
        follow: Callable[[], None],
    ) -> None:
        """`follow` takes in what other processes wrote."""
        self._follow = follow
        self._has_compared = False
        self._deletions = deletions
        self._redactions = redactions
        self._looked = time.monotonic()
        self._parts = parts

    def repair(self, stopping: Callable[[], bool]) -> bool:
        """Finish what was interrupted, and repair what can be repaired of the index now. Return
        False if something is left to do.

        Raises nothing.
        """
        if self._parts.store.sharing:
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
        projection = self._parts.projection
        try:
            if (reason := projection.index.lost()) and not self._renew(reason, stopping):
                return False
            for conversation_id in projection.overlay.lagging():
                if stopping() or not self._catch_up(conversation_id):
                    return False
            if self.is_comparing and not self._compare(stopping):
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
        with self._parts.locks.conversations.hold(conversation_id):
            if self._parts.pending.of(conversation_id) and not (
                self._parts.store.sharing and self._parts.writes.settle(conversation_id)
            ):
                return True
            with suppress(ConversationNotFound):
                if not self._parts.states.get(conversation_id).indexed:
                    return False
            self._parts.projection.overlay.caught_up(conversation_id)
            return True

    # Compare -------------------------------------------------------------------------------------

    @property
    def is_comparing(self) -> bool:
        """True if the index is still to be compared with the logs."""
        return not (self._parts.projection.is_compared or self._has_compared)

    def comparison(self, check: Callable[[], None]) -> Comparison:
        """Return a comparison of the logs with the index that goes on beside calls. What `check`
        raises, which is called often, ends it.
        """
        return Comparison(
            self._parts.store,
            self._parts.projection.index,
            self._parts.kinds,
            hold=self._parts.locks.conversations.hold,
            follow=self._follow,
            check=check,
        )

    def _compare(self, stopping: Callable[[], bool]) -> bool:
        """Compare an index that no server closed with the logs. Return False if it is damaged, or
        something is left to compare. Raises DataUnavailable.
        """
        index = self._parts.projection.index

        def check() -> None:
            if stopping() or index.lost():
                raise CallerGone

        comparison = self.comparison(check)
        try:
            problem = next(comparison.contradictions(), "")
        except CallerGone:
            return False
        if problem:
            self._parts.states.distrust(problem)
            return False
        self._has_compared = True
        if unread := comparison.unread:  # the next start tries once more
            name, reason = next(iter(unread.items()))
            others = len(unread) - 1
            log.warning("index_not_compared", conversation=name, reason=reason, others=others)
        else:
            self._parts.projection.is_compared = True
            log.info("index_compared")
        return True

    # Make anew -----------------------------------------------------------------------------------

    def _renew(self, reason: str, stopping: Callable[[], bool]) -> bool:
        """Make the index anew beside the calls that go on. Return False if the server stops
        meanwhile: the next start makes it.
        """
        store, old = self._parts.store, self._parts.projection.index
        store.create()  # raises OSError if the folder is no longer this server's
        if old.give_up(reason):
            log.error("index_lost", reason=reason)
        ends = keep_ends(store.root)
        remove_files(store.root)
        # Its numbers begin behind those of the old one: a call that still has an old number gets
        # nothing, and nothing wrong.
        new = Index(store.root, old.tables, numbers_after=old.last_number())
        try:
            new.log.claim_file(copied=False)
            new.note_timeline(timeline_of(store))
            for it in self._parts.participants:
                it.before_logs(new)
            for logs in self._parts.kinds:
                for name, _ in store.logs(logs.kind):
                    if stopping():
                        new.want_rebuild("the server stopped while it was made")
                        new.close()
                        return False
                    self._build(new, logs, name, ends.get(name, 0))
            for it in self._parts.participants:
                it.behind_logs(new)
            new.settle()  # what is routed asks it for what it has, and does not wait
            drop_ends(store.root)
            self._replace(new)
        except BaseException:
            new.close()
            raise
        progress = new.conversations.progress()
        log.warning("index_made_anew", conversations=len(progress))
        for conversation_id, size in store.logs(Kind.CONVERSATION):
            # written to meanwhile, or the new index refused its lines
            if progress.get(conversation_id, (0, 0))[0] != size:
                self._parts.projection.overlay.note_lag(
                    conversation_id, "the new index does not have all of it"
                )
        for logs in self._parts.kinds:  # those that are redacted or deleted met no index
            for name, _ in store.logs(logs.kind, Version.REPLACED):
                with self._parts.locks.conversations.hold(name):
                    finish_interrupted(
                        *(
                            logs,
                            new,
                            self._parts.participants,
                            name,
                            self._parts.clock(),
                            self._parts.publish,
                        ),
                        is_rebuilt=True,
                    )
            for name, _ in store.logs(logs.kind, Version.DELETED):
                with self._parts.locks.conversations.hold(name):
                    of = (logs, new, self._parts.participants)
                    finish_deletes(*of, {name: None}, self._parts.clock())
                self._parts.publish(LogsErased((name,)))
        return True

    def _build(self, index: Index, logs: Logs[Any], name: str, acknowledged: int) -> None:
        """Index a log in a new index; the old one had it up to byte `acknowledged`.

        A communication that is written meanwhile finds no index: its next reader indexes it.
        """
        with self._parts.locks.conversations.hold(name):
            if self._parts.pending.of(name):
                # The end of its file may be nothing: it is caught up when it is written to.
                self._parts.projection.overlay.note_lag(
                    name, "its transcript refuses to be written"
                )
                return
            try:
                logs.catch_up(
                    index,
                    name,
                    logs.find(index, name),
                    time=self._parts.clock(),
                    log_updates=False,
                    wait=False,
                    acknowledged=acknowledged,
                )
            except (ConversationNotFound, NothingNamed, StorageUnavailable) as error:
                log.warning("transcript_passed_over", **{logs.noun: name}, reason=str(error))

    def _replace(self, index: Index) -> None:
        """Use another index from here on."""
        with self._parts.locks.conversations.hold_all():
            self._parts.projection.replace(index)
            self._parts.states.clear()
            self._parts.publish(IndexReplaced(index))
