"""Writes down what the limits, the audit and the use of tokens counted, some seconds behind."""

from recollect_server.access.audit import Audit
from recollect_server.access.limits import Limiter
from recollect_server.access.token_uses import TokenUses
from recollect_server.kernel.domain.time import Clock
from recollect_server.run.jobs.loop import Loop

_SECONDS = 10.0


class Bookkeeper:
    """A thread that saves counts. Started when made."""

    def __init__(self, limiter: Limiter, audit: Audit, uses: TokenUses, clock: Clock) -> None:
        self._limiter = limiter
        self._audit = audit
        self._uses = uses
        self._clock = clock
        self._loop = Loop("bookkeeper", self._save, wait=_SECONDS)
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread, and save what is counted."""
        self._loop.stop()
        self._limiter.save()
        self._audit.close()
        self._uses.save()

    def _save(self) -> float:
        self._limiter.save()
        self._audit.flush(self._clock())
        self._uses.save()
        return _SECONDS
