"""The projection of a space's logs: the index that is used now, and how far it can be believed.

An index may be replaced by one that was made anew. It may lack lines that it refused (the overlay
knows which conversations those are of). One that no server closed is believed: it has what was
committed, and its start caught it up. It is compared with the logs all the same, for damage that is
nobody's crash, and is sealed once it was.
"""

from contextlib import suppress

import structlog

from recollect_server.domain.errors import IndexUnavailable
from recollect_server.domain.telemetry import UNMEASURED, Telemetry
from recollect_server.domain.text import counted
from recollect_server.services.space.overlay import Overlay
from recollect_server.storage.index.index import Index

log = structlog.get_logger("recollect.space")


class Projection:
    """The index of a space, with what it lacks. Safe to call from any thread."""

    def __init__(
        self,
        index: Index,
        telemetry: Telemetry = UNMEASURED,
        *,
        is_compared: bool = True,
    ) -> None:
        self.index = index
        """The index that is used now."""
        self.is_compared = is_compared
        """True if a server closed it, if it was made from the logs, or once it was compared with
        all of them.
        """
        self.overlay = Overlay()
        self._telemetry = telemetry
        index.writer.telemetry = telemetry
        self._retired: list[Index] = []  # closed at the end: somebody may still read them

    @property
    def doubt(self) -> str:
        """Return why the index may lack something of what is stored; empty if it has everything."""
        if not (count := len(self.overlay.lagging())):
            return ""
        return f"the newest messages of {counted(count, 'conversation')} are not indexed yet"

    def replace(self, index: Index) -> None:
        """Use another index, which was made from the logs. Nobody may write meanwhile."""
        self._retired.append(self.index)
        index.writer.telemetry = self._telemetry
        self.index = index
        self.is_compared = True

    def give_up(self, reason: str) -> None:
        """Stop using the index at once: it contradicts the logs and is to be made anew."""
        index = self.index
        with suppress(IndexUnavailable):
            index.want_rebuild(reason)
        if index.give_up(reason):
            log.error("index_damaged", reason=reason)

    @property
    def may_rest(self) -> bool:
        """Return whether the index has everything and is known to be right."""
        return self.is_compared and not (self.doubt or self._retired or self.index.lost())

    def close(self) -> None:
        """Close the index, and those used before it. No call may be under way. The next start
        compares one that this server did not compare to the end.
        """
        is_sound = self.is_compared and not self.index.lost()
        for index in self._retired:
            index.close()
        self.index.close(sound=is_sound)
