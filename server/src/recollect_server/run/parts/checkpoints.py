"""The part of checkpoints in a space."""

from recollect_server.checkpoints.service import Checkpoints
from recollect_server.contract.checkpoint_service import CheckpointHandlers
from recollect_server.kernel.space.events import ChangedElsewhere
from recollect_server.run.parts.opening import Opening


def register(opening: Opening) -> None:
    space, shared = opening.space, opening.shared
    checkpoints = Checkpoints(
        space.store, lambda name: space.exclusive(conversation=name), shared.clock
    )
    checkpoints.finish_deletes()
    space.subscribe(ChangedElsewhere, lambda event: checkpoints.changed(event.name))
    opening.stored.append(checkpoints.stored_bytes)
    opening.handlers["CheckpointService"] = CheckpointHandlers(
        checkpoints, shared.answers, opening.seal
    )
