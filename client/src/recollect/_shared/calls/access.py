"""The calls of AccessService."""

from recollect._shared.read import moment
from recollect._shared.rpc import Call, Method
from recollect._types.access import Caller
from recollect.v1 import access_service_pb2 as pb
from recollect.v1 import scope_pb2

_SERVICE = pb.DESCRIPTOR.services_by_name["AccessService"]
_WHO_AM_I = Method(_SERVICE, "WhoAmI", pb.WhoAmIRequest, pb.WhoAmIResponse)


def who_am_i() -> Call[pb.WhoAmIRequest, pb.WhoAmIResponse, Caller]:
    """Return the call of WhoAmI."""
    return Call(_WHO_AM_I, pb.WhoAmIRequest(), _caller)


def _caller(answer: pb.WhoAmIResponse) -> Caller:
    return Caller(
        token_id=answer.token_id,
        kind=answer.kind,
        scopes=frozenset(map(scope_name, answer.scopes)),
        spaces=tuple(answer.spaces),
        space=answer.space,
        conversation_id=answer.conversation_id,
        channel=answer.channel,
        expire_time=moment(answer.expire_time) if answer.HasField("expire_time") else None,
    )


def scope_name(number: int) -> str:
    """Return the name of a scope; its number if the server is newer than this client."""
    value = scope_pb2.Scope.DESCRIPTOR.values_by_number.get(number)
    if value is None:
        return str(number)
    return value.name.removeprefix("SCOPE_").lower().replace("_", ".", 1)
