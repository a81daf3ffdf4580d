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
from recollect._types.context import (
    Anchor,
    AnchorSource,
    BuiltContext,
    ContextBudget,
    ContextFormat,
    ContextMessage,
    ContextTier,
    DroppedMessage,
    TierAllocation,
    TierTransition,
    TierTransitionPage,
)
from recollect._types.conversation import (
    AppendedTurn,
    Conversation,
    ConversationPage,
    DeletionReceipt,
    LoadedConversation,
    Party,
    RemovedFrom,
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
    "Anchor",
    "AnchorSource",
    "AppendedTurn",
    "AsyncClient",
    "Attachment",
    "BuiltContext",
    "Cancelled",
    "Client",
    "ClientClosed",
    "ContextBudget",
    "ContextFormat",
    "ContextMessage",
    "ContextTier",
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
    "DroppedMessage",
    "ErrorReason",
    "FailedPrecondition",
    "FetchedContext",
    "FieldViolation",
    "InternalError",
    "InvalidArgument",
    "LegScore",
    "LoadedConversation",
    "Message",
    "MessageDelta",
    "NotFound",
    "Party",
    "PermissionDenied",
    "RecentConversation",
    "RecentOrder",
    "RecollectError",
    "RemovedFrom",
    "ResourceExhausted",
    "RetryPolicy",
    "Role",
    "SearchAnswer",
    "SearchHit",
    "SearchResult",
    "SplitSuggested",
    "TierAllocation",
    "TierTransition",
    "TierTransitionPage",
    "ToolCall",
    "TurnOutOfDate",
    "TurnRange",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Update",
    "Usage",
]
