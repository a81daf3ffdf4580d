"""Writes the moves of conversations between tiers behind the calls that caused them."""

import threading

import structlog

from recollect_server.domain.errors import IndexUnavailable
from recollect_server.services.tiers import Tiers

log = structlog.get_logger("recollect.tiers")

_SECONDS = 1.0


class TierKeeper:
    """A thread that writes what waits, every second. Started when made."""

    def __init__(self, tiers: Tiers, seconds: float = _SECONDS) -> None:
        self._tiers = tiers
        self._seconds = seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write_until_stopped, name="tier-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Writes what waits, and ends the thread."""
        self._stopping.set()
        self._thread.join()

    def _write_until_stopped(self) -> None:
        stopping = False
        while not stopping:
            stopping = self._stopping.wait(self._seconds)
            try:
                self._tiers.flush()
            except IndexUnavailable as error:
                log.warning("tiers_not_written", reason=str(error))
