"""The typed Python client of Recollect, the service that keeps an agent's conversations and finds
them again.

    from recollect import Client, Message

    with Client("127.0.0.1:50051") as client:
        conversation = client.conversations.create("web")
        messages = [Message.user("Hi"), Message.assistant("Hello!")]
        client.conversations.append_turn(conversation.id, messages)
        for hit in client.recall.search("hello").hits:
            print(hit.snippet)

`AsyncClient` is its twin for asyncio. All that is public is in this module and in
`recollect.errors`; `recollect.v1` is the generated code of the contract, for those who need it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recollect._async.client import AsyncClient
    from recollect._shared.retry import RetryPolicy
    from recollect._sync.client import Client
    from recollect._types.access import Caller
    from recollect._types.channel import (
        CliOrigin,
        CommandReply,
        DiscordOrigin,
        EmailOrigin,
        OwnerIdentity,
        Received,
        ReceivedExternal,
        StoredInConversation,
        WebOrigin,
        WhatsappOrigin,
    )
    from recollect._types.context import (
        Anchor,
        AnchorSource,
        BuiltContext,
        ContextBudget,
        ContextFormat,
        ContextMessage,
        ContextTier,
        DroppedMessage,
        GroupMessage,
        RecalledSource,
        TierAllocation,
        TierTransition,
        TierTransitionPage,
    )
    from recollect._types.conversation import (
        AnchorDisposition,
        AppendedTurn,
        ArchiveFilter,
        Conversation,
        ConversationPage,
        DeletedConversations,
        DeletionReceipt,
        ForkOrigin,
        LoadedConversation,
        NoteRecord,
        Notes,
        Party,
        RedactedMessages,
        RegeneratedNotes,
        RemovedFrom,
    )
    from recollect._types.external import (
        CommunicationChanged,
        CommunicationEscalated,
        CommunicationList,
        CommunicationMatch,
        CommunicationMessage,
        CommunicationPage,
        CommunicationSearch,
        CommunicationUpdate,
        Direction,
        EmailHeaders,
        Escalation,
        EscalationPage,
        ExternalCommunication,
        ExternalMessage,
        LoadedCommunication,
        RecordedReply,
        Trust,
    )
    from recollect._types.insight import (
        Activity,
        BusyConversation,
        ChannelHours,
        Facet,
        FacetList,
        Facets,
        HourActivity,
        NoteActivity,
        TimeBucket,
        Topic,
        TopicPage,
        TopicReport,
        TopicSeries,
        UsageGroup,
        UsageReport,
        UsageRow,
        UsageTotal,
    )
    from recollect._types.message import Attachment, Message, Redaction, Role, ToolCall, Usage
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
        MessagesRedacted,
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
        LimitExceeded,
        NotFound,
        PermissionDenied,
        RecollectError,
        ResourceExhausted,
        TlsMismatch,
        TurnOutOfDate,
        Unauthenticated,
        Unavailable,
        Unimplemented,
    )

__all__ = [
    "MATCH_END",
    "MATCH_START",
    "Activity",
    "AlreadyExists",
    "Anchor",
    "AnchorDisposition",
    "AnchorSource",
    "AppendedTurn",
    "ArchiveFilter",
    "AsyncClient",
    "Attachment",
    "BuiltContext",
    "BusyConversation",
    "Caller",
    "Cancelled",
    "ChannelHours",
    "CliOrigin",
    "Client",
    "ClientClosed",
    "CommandReply",
    "CommunicationChanged",
    "CommunicationEscalated",
    "CommunicationList",
    "CommunicationMatch",
    "CommunicationMessage",
    "CommunicationPage",
    "CommunicationSearch",
    "CommunicationUpdate",
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
    "DeletedConversations",
    "DeletionReceipt",
    "Direction",
    "DiscordOrigin",
    "DroppedMessage",
    "EmailHeaders",
    "EmailOrigin",
    "ErrorReason",
    "Escalation",
    "EscalationPage",
    "ExternalCommunication",
    "ExternalMessage",
    "Facet",
    "FacetList",
    "Facets",
    "FailedPrecondition",
    "FetchedContext",
    "FieldViolation",
    "ForkOrigin",
    "GroupMessage",
    "HourActivity",
    "InternalError",
    "InvalidArgument",
    "LegScore",
    "LimitExceeded",
    "LoadedCommunication",
    "LoadedConversation",
    "Message",
    "MessageDelta",
    "MessagesRedacted",
    "NotFound",
    "NoteActivity",
    "NoteRecord",
    "Notes",
    "OwnerIdentity",
    "Party",
    "PermissionDenied",
    "RecalledSource",
    "Received",
    "ReceivedExternal",
    "RecentConversation",
    "RecentOrder",
    "RecollectError",
    "RecordedReply",
    "RedactedMessages",
    "Redaction",
    "RegeneratedNotes",
    "RemovedFrom",
    "ResourceExhausted",
    "RetryPolicy",
    "Role",
    "SearchAnswer",
    "SearchHit",
    "SearchResult",
    "SplitSuggested",
    "StoredInConversation",
    "TierAllocation",
    "TierTransition",
    "TierTransitionPage",
    "TimeBucket",
    "TlsMismatch",
    "ToolCall",
    "Topic",
    "TopicPage",
    "TopicReport",
    "TopicSeries",
    "Trust",
    "TurnOutOfDate",
    "TurnRange",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Update",
    "Usage",
    "UsageGroup",
    "UsageReport",
    "UsageRow",
    "UsageTotal",
    "WebOrigin",
    "WhatsappOrigin",
]

_HOMES = (
    "_async.client",
    "_shared.retry",
    "_sync.client",
    "_types.access",
    "_types.channel",
    "_types.context",
    "_types.conversation",
    "_types.external",
    "_types.insight",
    "_types.message",
    "_types.recall",
    "_types.update",
    "errors",
)
"""Modules with the public names, in the order in which a name is looked for."""

if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used: a server that needs only `recollect.v1`
        starts a fifth sooner.
        """
        for home in _HOMES if name in __all__ else ():
            if (value := getattr(import_module(f"recollect.{home}"), name, None)) is not None:
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
