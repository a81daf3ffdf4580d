"""The job that carries out the rules of retention of an open space."""

import threading

import structlog

from recollect_server.kernel.domain.errors import DataUnavailable
from recollect_server.retention.service import Retention
from recollect_server.run.jobs.rounds import Job

log = structlog.get_logger("recollect.retention")

_FIRST_SECONDS = 1.0  # until the first look
_SECONDS = 60.0  # between two looks
_SLICE = 20  # conversations of one turn
_PAUSE = 0.05  # seconds between two turns, for others


class RetentionKeeper(Job):
    """Deletes and unindexes what the rules are about, a few conversations at a time."""

    def __init__(self, retention: Retention) -> None:
        super().__init__(_FIRST_SECONDS)
        self._retention = retention
        self._reason = ""

    @property
    def failure(self) -> str:
        """Reason for which the last turn failed; empty if it did not."""
        return self.fault or self._reason

    def turn(self, stopping: threading.Event) -> float:  # noqa: ARG002 - it takes a moment
        """Delete or unindex a slice, and finish a piece of what is left of earlier turns."""
        try:
            is_left = self._retention.settle()
            with self._retention.alone() as may:
                is_left = bool(may and self._retention.carry_out(_SLICE)) or is_left
            wait = _PAUSE if is_left else _SECONDS
        except DataUnavailable as error:
            self._reason = str(error)
            log.warning("retention_not_carried_out", reason=self._reason)
            return _SECONDS
        self._reason = ""
        return wait
