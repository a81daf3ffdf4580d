"""Repair of the index of a space that is open (`services.space.upkeep`)."""

from collections.abc import Callable

from recollect_server.services.space.space import Space


def repair(space: Space, stopping: Callable[[], bool]) -> bool:
    """Repair what can be repaired now. Return False if something is left to do. Raises nothing."""
    return space.repair(stopping)
