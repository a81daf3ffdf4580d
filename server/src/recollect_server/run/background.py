"""The background work of a server: a thread or a few for each kind, over all open spaces."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import structlog

from recollect_server.contract.streams import Streams
from recollect_server.kernel.domain.errors import SpaceBeingDeleted, Stopping, StorageUnavailable
from recollect_server.kernel.space.spaces import Spaces
from recollect_server.run.jobs.due_work import Awaited, DueKeeper, StreamKeeper
from recollect_server.run.jobs.loop import Loop
from recollect_server.run.jobs.notes import Abbreviator
from recollect_server.run.jobs.of_space import JOBS, EmbedderJob, FollowerJob, RetentionKeeper
from recollect_server.run.jobs.rounds import Rounds
from recollect_server.run.parts.opening import Shared
from recollect_server.run.settings.values import FOLDER
from recollect_server.run.space import OpenSpace
from recollect_server.run.stores import Stores

log = structlog.get_logger("recollect.app")

_REMOVALS_EVERY = 1.0  # seconds between two looks for spaces that other servers deleted
_PATIENCE = 2.0  # seconds that such a space may be used on


def start_jobs(shared: Shared, spaces: Spaces[OpenSpace], stops: list[Callable[[], None]]) -> None:
    settings, stores, due, writer = shared.live.now, shared.stores, shared.due, shared.writer
    jobs = [
        it
        for it in JOBS
        if not (it is FollowerJob and settings.store == FOLDER)
        and not (it is EmbedderJob and shared.workers is None)
    ]
    # what rules delete is bounded for all spaces together, which two at once could exceed
    stops += [Rounds(job, spaces, one_at_a_time=job is RetentionKeeper).stop for job in jobs]
    if settings.store != FOLDER:
        removals = Loop("space-removals", partial(_follow_removals, stores, spaces, shared.streams))
        removals.start()
        stops.append(lambda: removals.stop(spaces.patience()))
    if writer is not None:
        slow = settings.abbreviation_timeout.total_seconds() / 2
        threads = settings.abbreviation_threads
        stops.append(
            Abbreviator(spaces, writer.model, shared.clock, threads, slow, shared.telemetry).stop
        )
        if writer.condenser is not None:
            stops.append(writer.condenser.close)  # before the one that waits for its calls
        log.info("notes_are_taken", by=writer.model.name)
    keeper = StreamKeeper(shared.streams.awaited, spaces)
    shared.streams.wake_by(keeper.wake)
    stops.append(keeper.stop)
    stops += (DueKeeper(spaces, due, shared.clock).stop, shared.stopping.set)
    if settings.store != FOLDER:
        stops.append(Awaited(stores.awaited, spaces, due, shared.clock).stop)


def _follow_removals(stores: Stores, spaces: Spaces[OpenSpace], streams: Streams) -> float:
    """Remove what other servers deleted; return the seconds until the next look."""

    def close(name: str, remove: Callable[[], None]) -> None:
        with streams.ended_in(name):
            spaces.remove(name, _PATIENCE, remove)

    # What cannot be closed or asked for now is tried again.
    with suppress(StorageUnavailable, SpaceBeingDeleted, Stopping):
        stores.follow_removals(close)
    return _REMOVALS_EVERY
