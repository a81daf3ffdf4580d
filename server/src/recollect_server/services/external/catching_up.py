"""Brings the index up to the transcripts of third parties: at a start, for a rebuild, and after a write that the index refused."""

from dataclasses import dataclass, replace

import structlog

from recollect_server.domain.conversation import Unknown
from recollect_server.domain.errors import CommunicationNotFound, StorageUnavailable
from recollect_server.domain.external import Communication, CommunicationBegan, ExternalMessage, fold
from recollect_server.domain.time import Clock
from recollect_server.services.space.catching_up import Damage, IndexAhead, chunks
from recollect_server.storage.failpoints import hit
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.record import LOST_CHANNEL
from recollect_server.storage.logs.store import START, Kind, LogNotFound, LogStore, Position

log = structlog.get_logger("recollect.recovery")


@dataclass(slots=True)
class CaughtUp:
    """What it came to."""

    communications: int = 0
    """How many there are."""
    messages: int = 0
    """How many were indexed now."""
    damaged: int = 0
    bytes_cut: int = 0


def folded(before: Communication | None, line: Line, communication_id: str) -> Communication | None:
    """What is known after a line. A damaged one changes nothing."""
    content = line.entry.content if line.entry else None
    if isinstance(content, CommunicationBegan):
        content = replace(content, id=communication_id)  # a file that was copied under another name is another communication
    after = fold(before, content)
    if after is None and content is not None and type(content) is not Unknown:
        # The first line is damaged. The file's name says which one it is, the lines that follow say the rest.
        time = content.timestamp if isinstance(content, ExternalMessage) else getattr(content, "time", 0)
        after = fold(Communication(communication_id, LOST_CHANNEL, "", time, time), content)
    return after


def catch_up(logs: LogStore, index: Index, communication_id: str, done: CaughtUp, *, time: int, log_updates: bool) -> None:
    """Mends the tail of a transcript and indexes what the index does not have yet. Hold the communication's lock.

    `time` is now. Raises IndexUnavailable, IndexAhead, StorageUnavailable, and CommunicationNotFound if no whole line is left.
    """
    stored = index.communication(communication_id)
    at = Position(stored.lines, stored.bytes) if stored else START
    known = stored.communication if stored else None
    try:
        if logs.length(communication_id) < at.bytes or not logs.is_boundary(communication_id, at):
            raise IndexAhead(f"{communication_id} is another one than was indexed, up to byte {at.bytes}")
        if torn := logs.recover(communication_id, at):
            log.warning("torn_tail_cut", communication=communication_id, bytes=torn.bytes_cut, reason=torn.reason)
            done.bytes_cut += torn.bytes_cut
        hit("external.mended")
        damage = Damage(communication_id)
        waiting: list[Line] = []  # damaged ones at the top: nothing is known yet
        for chunk in chunks(logs.read(communication_id, at)):
            before = known
            for line in chunk:
                known = folded(known, line, communication_id)
                done.messages += line.entry is not None and isinstance(line.entry.content, ExternalMessage)
                damage.see(line)
            waiting += chunk
            if known is not None:
                index.add_external(before, known, waiting, time=time, log=log_updates)
                waiting = []
                hit("external.part")
        damage.end_run()
        done.damaged += damage.count
    except LogNotFound:
        raise CommunicationNotFound(communication_id) from None
    if known is None:
        raise CommunicationNotFound(communication_id)


def bring_up(logs: LogStore, index: Index, clock: Clock, *, rebuilt: bool) -> CaughtUp:
    """Brings the index up to all of them: a stat for each that it has all of. Nobody may write one.

    `rebuilt`: the index is made anew, and nobody's cursor reaches into it. Raises IndexAhead, IndexUnavailable, OSError.
    """
    done = CaughtUp()
    known = index.external_progress()
    behind: list[str] = []
    for communication_id, size in logs.logs(Kind.COMMUNICATION):
        done.communications += 1
        if known.pop(communication_id, -1) != size:
            behind.append(communication_id)
    if known:
        raise IndexAhead(f"{len(known)} external communications are indexed and have no transcript, as {next(iter(known))}")
    if behind and not rebuilt:
        index.skip_external_cursors()
    for communication_id in sorted(behind):
        try:
            catch_up(logs, index, communication_id, done, time=clock(), log_updates=not rebuilt)
        except CommunicationNotFound:
            if logs.remove_empty(communication_id):
                done.communications -= 1
                log.warning("empty_transcript_removed", communication=communication_id)
            else:
                log.warning("transcript_without_a_line", communication=communication_id)
        except StorageUnavailable as error:
            log.error("transcript_unreadable", communication=communication_id, reason=str(error))
    return done
