"""AccessService, which tells a caller what it may do: of the server as a whole, and of no space."""

from collections.abc import Collection

from recollect.v1 import access_service_pb2 as api
from recollect.v1 import scope_pb2

from recollect_server.access.principal import Scope
from recollect_server.contract.convert import optional_timestamp
from recollect_server.contract.handling import Call


class AccessHandlers:
    def WhoAmI(self, request: api.WhoAmIRequest, call: Call) -> api.WhoAmIResponse:
        caller = call.principal
        return api.WhoAmIResponse(
            token_id=caller.token_id,
            kind=caller.kind,
            scopes=scope_numbers(caller.scopes),
            spaces=caller.spaces,
            space=caller.space,
            conversation_id=caller.conversation_id,
            channel=caller.channel,
            expire_time=optional_timestamp(caller.expires or None),
        )


def scope_numbers(scopes: Collection[Scope]) -> list["scope_pb2.Scope.ValueType"]:
    """Return scopes as the contract has them, in the order of the enum."""
    return [_NUMBERS[scope] for scope in Scope if scope in scopes]


_NUMBERS = {
    scope: scope_pb2.Scope.Value(f"SCOPE_{scope.replace('.', '_').upper()}") for scope in Scope
}
SCOPES = {number: scope for scope, number in _NUMBERS.items() if scope is not Scope.ANY}
"""Scopes that a token may name, by their numbers in the contract."""
