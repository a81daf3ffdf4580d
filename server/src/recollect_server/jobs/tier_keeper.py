"""Writes the moves of conversations between tiers behind the calls that caused them."""

import structlog

from recollect_server.domain.errors import IndexUnavailable
from recollect_server.jobs.loop import Loop
from recollect_server.services.tiers import Tiers

log = structlog.get_logger("recollect.tiers")

_SECONDS = 1.0


class TierKeeper:
    """A thread that writes what waits, every second. Started when made."""

    def __init__(self, tiers: Tiers, seconds: float = _SECONDS) -> None:
        self._tiers = tiers
        self._seconds = seconds
        self._loop = Loop("tier-keeper", self._write, wait=seconds)
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread, and write what is pending."""
        self._loop.stop()
        self._write()

    def _write(self) -> float:
        try:
            self._tiers.flush()
        except IndexUnavailable as error:
            log.warning("tiers_not_written", reason=str(error))
        return self._seconds
