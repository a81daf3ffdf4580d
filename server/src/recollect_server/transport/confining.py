"""Confinement of callers: a token for one conversation names no other, a token of a channel speaks
from there, and one for certain spaces does not deal with the whole server.

All are decided by the request alone, before its handler runs. A token for one conversation may
make the calls of `OWN` and no others, whatever its scopes: all that they name is that conversation,
and where they name none (`List`, `StreamUpdates`) it is filled in.
"""

from typing import Any

from google.protobuf.descriptor import MethodDescriptor

from recollect_server.domain.errors import PermissionDenied
from recollect_server.domain.principal import Principal

OWN: dict[str, tuple[str, ...]] = {
    "ConversationService/Create": ("conversation_id",),
    "ConversationService/Get": ("conversation_id",),
    "ConversationService/List": (),
    "ConversationService/Load": ("conversation_id",),
    "ConversationService/AppendTurn": ("conversation_id",),
    "ConversationService/StreamUpdates": ("conversation_ids", "load_conversation_id"),
    "ConversationService/PublishDelta": ("conversation_id",),
    "ConversationService/Switch": ("from_conversation_id", "to_conversation_id"),
    "ConversationService/Rename": ("conversation_id",),
    "ConversationService/SetModel": ("conversation_id",),
    "ConversationService/SetTopics": ("conversation_id",),
    "ConversationService/Archive": ("conversation_id",),
    "ConversationService/UpdateMetadata": ("conversation_id",),
    "ConversationService/RecordCompression": ("conversation_id",),
    "ConversationService/RecordAbbreviation": ("conversation_id",),
    "ConversationService/SetTurnMemory": ("conversation_id",),
    "ConversationService/ListTurnMemory": ("conversation_id",),
    "ConversationService/RegenerateNotes": ("conversation_id",),
    "ConversationService/Delete": ("conversation_id",),
    "AccessService/WhoAmI": (),
}
"""Calls that a token for one conversation may make, and their fields that name conversations."""

_FILLED_IN = {
    "ConversationService/Load": "conversation_id",
    "ConversationService/StreamUpdates": "conversation_ids",
}
"""Calls that mean any conversation where this field is unset."""
_WHOLE = ("AdminService/ListSettings", "AdminService/SetSetting")
"""Calls about the whole server."""
_MAY_BE_UNSET = ("from_conversation_id", "to_conversation_id", "load_conversation_id")


def confine(method: MethodDescriptor, request: Any, principal: Principal) -> None:
    """Refuse a request that goes beyond the conversation, the channel or the spaces of its caller,
    and fill in what the caller means by naming none. Raises PermissionDenied.
    """
    name = f"{method.containing_service.name}/{method.name}"
    if principal.conversation_id:
        _to_conversation(name, request, principal.conversation_id)
    if principal.channel:
        _to_channel(name, request, principal.channel)
    is_new = name == "AdminService/CreateSpace" and not principal.is_for(request.name)
    if (name in _WHOLE and not principal.is_for_every_space) or is_new:
        raise PermissionDenied(
            name,
            "it is about the whole server, and the token is for certain spaces: use an admin token"
            " for every space (recollect-server token create --kind admin --space '*')",
        )


def _to_conversation(name: str, request: Any, own: str) -> None:
    if name not in OWN:
        raise PermissionDenied(name, "the token is for one conversation")
    for field in OWN[name]:
        value = getattr(request, field)
        if field == _FILLED_IN.get(name) and not value:
            if isinstance(value, str):
                setattr(request, field, own)
            else:
                value.append(own)
            continue
        named = [value] if isinstance(value, str) else value
        if any(it != own for it in named) and not (field in _MAY_BE_UNSET and not value):
            raise PermissionDenied(
                name, f"the token is for one conversation, and {field} is not it"
            )
    if name == "ConversationService/Create" and request.pinned:
        raise PermissionDenied(
            name, "the token is for one conversation, and pinning takes another one's place"
        )


def _to_channel(name: str, request: Any, own: str) -> None:
    match name:
        case "ConversationService/AppendTurn":
            # from its own channel, whatever it says: into a conversation that is pinned on another
            # one it is refused
            for message in request.messages:
                message.channel = own
        case "ConversationService/Create" | "ChannelService/Receive" if request.channel != own:
            raise PermissionDenied(name, f"the token speaks from {own}, and channel is not it")
        case "ConversationService/Create":
            for message in request.messages:
                message.ClearField("channel")  # the conversation's own
