"""Handlers that run in the space of their caller, which is open meanwhile."""

from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message as ProtoMessage

from recollect_server.domain.errors import IndexSuspended
from recollect_server.services.spaces.spaces import Spaces
from recollect_server.transport.handling import Call, Handler, Send, StreamHandler, is_read

_STORING = frozenset(
    {
        "ConversationService.Create",
        "ConversationService.AppendTurn",
        "ConversationService.UpdateMetadata",
        "ConversationService.Fork",
        "ConversationService.RecordCompression",
        "ConversationService.RecordAbbreviation",
        "ConversationService.SetTurnMemory",
        "RecallService.SetAnchor",
        "ChannelService.Receive",
        "ExternalCommunicationService.RecordReply",
        "ExternalCommunicationService.RegisterContact",
        "CheckpointService.PutRecords",
    }
)
"""Calls that add text to a space: a space that is full refuses them."""

_APPEND = "ConversationService.AppendTurn"
"""The call that a suspended space takes without being resumed."""

_PARTLY = frozenset(
    {"RecallService.Search", "RecallService.BuildContext", "RecallService.FetchContext"}
)
"""Calls that a space which takes long to open answers by what is read of it, and that say so."""


def in_space(method: MethodDescriptor, spaces: Spaces[Any]) -> Handler:
    """Return a handler of a unary method that runs the one of its caller's space."""
    service, name = method.containing_service.name, method.name
    reads, stores = is_read(method), f"{service}.{name}" in _STORING
    appends = f"{service}.{name}" == _APPEND
    partly = f"{service}.{name}" in _PARTLY

    def handle(space: Any, request: Any, call: Call) -> ProtoMessage | None:
        if stores:
            space.quota.admit(size=call.size)
        handler: Handler = getattr(space.handlers[service], name)
        answer: ProtoMessage | None = space.carry_out(handler, request, call, appends=appends)
        return answer

    def run(request: Any, call: Call) -> ProtoMessage | None:
        space_name = call.principal.space
        try:
            with spaces.use(space_name, reads=reads, appends=appends, partly=partly) as space:
                return handle(space, request, call)
        except IndexSuspended:
            # Work that needs the index of a suspended space says so before it has changed anything.
            pass
        with spaces.use(space_name, reads=reads) as space:
            return handle(space, request, call)

    return run


def in_space_for_long(method: MethodDescriptor, spaces: Spaces[Any]) -> StreamHandler:
    """Return a handler of a streaming method that runs the one of its caller's space, which stays
    open as long as the stream does. A space that does not exist is not made: the stream is one of
    an empty space, and ends once there is one (`Streams.end_of_made`).
    """
    service, name = method.containing_service.name, method.name

    def run(request: Any, call: Call, send: Send) -> None:
        lease = spaces.use(call.principal.space, reads=True, holds=True)
        try:
            handler: StreamHandler = getattr(lease.space.handlers[service], name)
            lease.space.follow()
            handler(request, call, send)
        except BaseException:
            lease.end()
            raise
        # The callback runs on the thread that serves all calls; ending a lease waits for nothing.
        if not call.context.add_callback(lease.end):
            lease.end()

    return run
