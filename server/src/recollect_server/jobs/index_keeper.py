"""Brings the index up to the transcripts while the server runs, whenever it fell behind or was
lost.
"""

from recollect_server.jobs.loop import Loop
from recollect_server.services.space.space import Space
from recollect_server.services.upkeep.repairing import repair

_SECONDS = 1.0
_MOST_SECONDS = 30.0  # between two tries of an index that still refuses


class IndexKeeper:
    """A thread that looks at the index now and then. Started when made."""

    def __init__(self, space: Space, seconds: float = _SECONDS) -> None:
        self._space = space
        self._seconds = seconds
        self._wait = seconds
        self._loop = Loop("index-keeper", self._look, wait=seconds if space.is_verified else 0.0)
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread, between two conversations if it is working."""
        self._loop.stop()

    def _look(self) -> float:
        well = repair(self._space, self._loop.stopping.is_set)
        self._wait = self._seconds if well else min(2 * self._wait, _MOST_SECONDS)
        return self._wait
