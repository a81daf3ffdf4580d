"""Reach of administrators: a token for certain spaces administers those alone."""

from recollect_server.domain.errors import PermissionDenied, SpaceNotFound
from recollect_server.domain.principal import Principal
from recollect_server.transport.handling import Call


def check_whole_server(call: Call, method: str) -> None:
    """Check that the caller may deal with the server as a whole. Raises PermissionDenied."""
    if not call.principal.is_for_every_space:
        denied = PermissionDenied(
            f"AdminService/{method}",
            "it is about the whole server, and the token is for certain spaces: use an admin token"
            " for every space (recollect-server token create --kind admin --space '*')",
        )
        denied.principal = call.principal
        raise denied


def space_of(principal: Principal, name: str) -> str:
    """Return the space that a request names; that of the call if it names none. Raises
    SpaceNotFound for one that the caller does not administer, as if there were none.
    """
    if name and not principal.is_for(name):
        raise SpaceNotFound(name)
    return name or principal.space
