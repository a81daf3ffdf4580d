"""The kernel's own part in a space: the jobs that keep its index and its updates in order."""

from functools import partial

from recollect_server.run.jobs.of_space import Bounds, FollowerJob, IndexKeeper, UpdatePruner
from recollect_server.run.parts.opening import Opening


def register(opening: Opening) -> None:
    space, shared = opening.space, opening.shared
    opening.start(IndexKeeper(space, partial(shared.is_leaving, opening.name)))
    bounds = opening.live.view(lambda now: Bounds(now.update_retention, now.max_updates))
    opening.start(UpdatePruner(space, bounds))
    if space.is_shared:
        opening.start(FollowerJob(opening.name, space, shared.note_work))
