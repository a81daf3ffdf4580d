"""Keeps the logs of updates within their bounds: a little at a time, so that appends never wait for
it.
"""

from datetime import timedelta

import structlog

from recollect_server.domain.errors import IndexUnavailable
from recollect_server.domain.time import milliseconds
from recollect_server.jobs.loop import Loop
from recollect_server.services.space.space import Space
from recollect_server.storage.index.updates import LOGS

log = structlog.get_logger("recollect.updates")

_SECONDS = 60.0
_SLICE = 500  # updates in one transaction, a few milliseconds
_PAUSE = 0.02  # seconds between two, for others


class UpdatePruner:
    """A thread that looks at the logs now and then. Started when made."""

    def __init__(
        self, space: Space, retention: timedelta, most: int, seconds: float = _SECONDS
    ) -> None:
        self._space = space
        self._retention = milliseconds(retention)
        self._most = most
        self._seconds = seconds
        self._loop = Loop("update-pruner", self._look, wait=seconds)
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread, between two slices if it is working."""
        self._loop.stop()

    def _look(self) -> float:
        try:
            if pruned := self.prune():
                log.info("updates_pruned", updates=pruned)
        except IndexUnavailable as error:
            log.warning("updates_not_pruned", reason=str(error))
        return self._seconds

    def prune(self) -> int:
        """Delete updates that are too old or too many, and return their number. Raises
        IndexUnavailable.
        """
        index = self._space.index
        before = self._space.clock() - self._retention
        pruned = 0
        for update_log in LOGS:
            through = index.log.prunable(update_log, before, self._most)
            while through and (taken := index.log.prune(update_log, through, _SLICE)):
                pruned += taken
                if self._loop.stopping.wait(_PAUSE):
                    return pruned
        return pruned
