"""Writes down what the limits and the audit counted, some seconds behind."""

from recollect_server.domain.time import Clock
from recollect_server.jobs.loop import Loop
from recollect_server.services.audit import Audit
from recollect_server.services.limits import Limiter

_SECONDS = 10.0


class Bookkeeper:
    """A thread that saves counts. Started when made."""

    def __init__(self, limiter: Limiter, audit: Audit, clock: Clock) -> None:
        self._limiter = limiter
        self._audit = audit
        self._clock = clock
        self._loop = Loop("bookkeeper", self._save, wait=_SECONDS)
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread, and save what is counted."""
        self._loop.stop()
        self._limiter.save()
        self._audit.close()

    def _save(self) -> float:
        self._limiter.save()
        self._audit.flush(self._clock())
        return _SECONDS
