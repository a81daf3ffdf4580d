"""Reach of administrators: a token for certain spaces administers those alone."""

from recollect_server.domain.errors import SpaceNotFound
from recollect_server.domain.principal import Principal


def space_of(principal: Principal, name: str) -> str:
    """Return the space that a request names; that of the call if it names none. Raises
    SpaceNotFound for one that the caller does not administer, as if there were none.
    """
    if name and not principal.is_for(name):
        raise SpaceNotFound(name)
    return name or principal.space
