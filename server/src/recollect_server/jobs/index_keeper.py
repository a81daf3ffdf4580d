"""Brings the index up to the transcripts while the server runs, whenever it fell behind or was lost."""

import threading

from recollect_server.services.repairing import repair
from recollect_server.services.space import Space

_SECONDS = 1.0
_MOST_SECONDS = 30.0  # between two tries of an index that still refuses


class IndexKeeper:
    """A thread that looks at the index now and then. Started when made."""

    def __init__(self, space: Space, seconds: float = _SECONDS) -> None:
        self._space = space
        self._seconds = seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_until_stopped, name="index-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, between two conversations if it is at work."""
        self._stopping.set()
        self._thread.join()

    def _look_until_stopped(self) -> None:
        wait = self._seconds
        while not self._stopping.wait(wait):
            well = repair(self._space, self._stopping.is_set)
            wait = self._seconds if well else min(2 * wait, _MOST_SECONDS)
