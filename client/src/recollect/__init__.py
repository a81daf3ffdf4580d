"""The typed Python client of Recollect, the service that keeps an agent's conversations and finds them again.

    from recollect import Client, Message

    with Client("127.0.0.1:50051") as client:
        conversation = client.conversations.create("web")
        client.conversations.append_turn(conversation.id, [Message.user("Hi"), Message.assistant("Hello!")])
        for hit in client.recall.search("hello").hits:
            print(hit.snippet)

`AsyncClient` is its twin for asyncio. All that is public is in this module and in `recollect.errors`; `recollect.v1` is
the generated code of the contract, for those who need it.
"""

from recollect._async.client import AsyncClient
from recollect._shared.retry import RetryPolicy
from recollect._sync.client import Client
from recollect._types.conversation import (
    AppendedTurn,
    Conversation,
    ConversationPage,
    DeletionReceipt,
    LoadedConversation,
    Party,
    RemovedFrom,
)
from recollect._types.external import (
    CommunicationChanged,
    CommunicationEscalated,
    CommunicationList,
    CommunicationMessage,
    CommunicationPage,
    CommunicationUpdate,
    Direction,
    Escalation,
    EscalationPage,
    ExternalCommunication,
    ExternalMessage,
    LoadedCommunication,
    RecordedReply,
    Trust,
)
from recollect._types.message import Attachment, Message, Role, ToolCall, Usage
from recollect._types.recall import (
    MATCH_END,
    MATCH_START,
    DateRange,
    DegradedLeg,
    FetchedContext,
    LegScore,
    RecentConversation,
    RecentOrder,
    SearchAnswer,
    SearchHit,
    SearchResult,
    TurnRange,
)
from recollect._types.update import (
    ConversationAbbreviated,
    ConversationCreated,
    ConversationDeleted,
    ConversationList,
    ConversationRenamed,
    ConversationUpdated,
    MessageDelta,
    SplitSuggested,
    Update,
)
from recollect.errors import (
    AlreadyExists,
    Cancelled,
    ClientClosed,
    DataDamaged,
    DeadlineExceeded,
    ErrorReason,
    FailedPrecondition,
    FieldViolation,
    InternalError,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    RecollectError,
    ResourceExhausted,
    TurnOutOfDate,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)

__all__ = [
    "MATCH_END",
    "MATCH_START",
    "AlreadyExists",
    "AppendedTurn",
    "AsyncClient",
    "Attachment",
    "Cancelled",
    "Client",
    "ClientClosed",
    "CommunicationChanged",
    "CommunicationEscalated",
    "CommunicationList",
    "CommunicationMessage",
    "CommunicationPage",
    "CommunicationUpdate",
    "Conversation",
    "ConversationAbbreviated",
    "ConversationCreated",
    "ConversationDeleted",
    "ConversationList",
    "ConversationPage",
    "ConversationRenamed",
    "ConversationUpdated",
    "DataDamaged",
    "DateRange",
    "DeadlineExceeded",
    "DegradedLeg",
    "DeletionReceipt",
    "Direction",
    "ErrorReason",
    "Escalation",
    "EscalationPage",
    "ExternalCommunication",
    "ExternalMessage",
    "FailedPrecondition",
    "FetchedContext",
    "FieldViolation",
    "InternalError",
    "InvalidArgument",
    "LegScore",
    "LoadedCommunication",
    "LoadedConversation",
    "Message",
    "MessageDelta",
    "NotFound",
    "Party",
    "PermissionDenied",
    "RecentConversation",
    "RecentOrder",
    "RecollectError",
    "RecordedReply",
    "RemovedFrom",
    "ResourceExhausted",
    "RetryPolicy",
    "Role",
    "SearchAnswer",
    "SearchHit",
    "SearchResult",
    "SplitSuggested",
    "ToolCall",
    "Trust",
    "TurnOutOfDate",
    "TurnRange",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Update",
    "Usage",
]
