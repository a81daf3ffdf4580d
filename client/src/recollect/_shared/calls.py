"""The methods of the contract, by their services. Called with the fields of its request, a method
gives a `Call`, whose answer is read as said here. Only `_sync` and `_async` import this.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from typing import Any, TypeVar

from recollect._shared.read import reading, value_name
from recollect._shared.rpc import Service
from recollect._shared.watching import Element
from recollect._types import channel, checkpoint, context, external, insight, recall, update
from recollect._types import conversation as conversations
from recollect._types.access import Caller
from recollect._types.admin import jobs, retention, settings, spaces, stats, tokens, verifications
from recollect._types.recent import RecentPage
from recollect.v1 import access_service_pb2 as access_pb
from recollect.v1 import admin_service_pb2 as admin_pb
from recollect.v1 import channel_service_pb2 as channel_pb
from recollect.v1 import checkpoint_service_pb2 as checkpoint_pb
from recollect.v1 import conversation_service_pb2 as conversation_pb
from recollect.v1 import error_pb2
from recollect.v1 import external_communication_service_pb2 as external_pb
from recollect.v1 import insight_service_pb2 as insight_pb
from recollect.v1 import recall_service_pb2 as recall_pb

T = TypeVar("T")

BATCH = 1000
"""Updates in one element of a stream, where so many wait."""


@dataclass(frozen=True, slots=True)
class PutRecord:
    """A record as it is sent."""

    record: checkpoint.CheckpointRecord
    keep_existing: bool


def _several(kind: type[T], field: str) -> Callable[[Any], tuple[T, ...]]:
    read = reading(kind)
    return lambda it: tuple(map(read, getattr(it, field)))


def _updates_of(kind: type[T]) -> Callable[[Any], Element[T]]:
    """Return the reader of the updates of one element of a stream, each with its cursor. None
    stands for one of a kind that only its cursor counts of.
    """
    read: Callable[[Any], Any] = reading(kind)

    def updates(it: Any) -> Element[T]:
        all_of_it = map(read, (it.update, *getattr(it, "following", ())))
        return [(each.cursor, None if each.kind is None else each) for each in all_of_it]

    return updates


def _deleted(it: Any) -> conversations.DeletedConversations:
    reasons = error_pb2.ErrorReason.DESCRIPTOR.values_by_number
    return conversations.DeletedConversations(
        conversation_ids=tuple(it.conversation_ids),
        left=tuple((e.conversation_id, value_name(reasons[e.reason]).upper()) for e in it.left),
        removed=_several(conversations.RemovedFrom, "removed")(it),
        has_more=it.has_more,
        delete_time=it.delete_time.ToDatetime(tzinfo=UTC),
        failure=it.failure,
    )


def _recent(it: Any) -> RecentPage:
    entries = _several(recall.RecentConversation, "conversations")(it)
    return RecentPage.of(entries, has_more=it.has_more)


def _anchor_page(it: Any) -> tuple[tuple[context.Anchor, ...], str]:
    return _several(context.Anchor, "anchors")(it), it.next_page_token


def _command_reply(it: Any) -> channel.CommandReply:
    return channel.CommandReply(text=it.reply, conversation=_conversation(it))


def _newest_verification(it: Any) -> verifications.Verification | None:
    return _verification(it) if it.HasField("verification") else None


_conversation = reading(conversations.Conversation, "conversation")
_communication = reading(external.ExternalCommunication, "communication")
_identity = reading(channel.OwnerIdentity, "identity")
_identities = _several(channel.OwnerIdentity, "identities")
_loaded = reading(conversations.LoadedConversation)
_verification = reading(verifications.Verification, "verification")

_conversations = Service(conversation_pb.DESCRIPTOR, "ConversationService").method
CREATE = _conversations("Create", _conversation)
GET = _conversations("Get", _conversation)
LIST = _conversations("List", reading(conversations.ConversationPage))
LOAD = _conversations("Load", _loaded)
APPEND_TURN = _conversations("AppendTurn", reading(conversations.AppendedTurn))
STREAM_UPDATES = _conversations("StreamUpdates", _updates_of(update.Update))
PUBLISH_DELTA = _conversations("PublishDelta", lambda _: None)
SWITCH = _conversations("Switch", _loaded)
RENAME = _conversations("Rename", _conversation)
SET_MODEL = _conversations("SetModel", _conversation)
FORK = _conversations("Fork", _conversation)
SET_TOPICS = _conversations("SetTopics", _conversation)
ARCHIVE = _conversations("Archive", _conversation)
UPDATE_METADATA = _conversations("UpdateMetadata", _conversation)
RECORD_COMPRESSION = _conversations("RecordCompression", _conversation)
RECORD_ABBREVIATION = _conversations("RecordAbbreviation", _conversation)
REGENERATE_NOTES = _conversations("RegenerateNotes", reading(conversations.RegeneratedNotes))
DELETE = _conversations("Delete", reading(conversations.DeletionReceipt))
REDACT_MESSAGE = _conversations("RedactMessage", reading(conversations.RedactedMessages))
DELETE_MANY = _conversations("DeleteMany", _deleted)

_recall = Service(recall_pb.DESCRIPTOR, "RecallService").method
SEARCH = _recall("Search", reading(recall.SearchAnswer))
FETCH_CONTEXT = _recall("FetchContext", reading(recall.FetchedContext))
RECENT = _recall("Recent", _recent)
BUILD_CONTEXT = _recall("BuildContext", reading(context.BuiltContext))
LIST_TIER_TRANSITIONS = _recall("ListTierTransitions", reading(context.TierTransitionPage))
LIST_ANCHORS = _recall("ListAnchors", _anchor_page)
SET_ANCHOR = _recall("SetAnchor", reading(context.Anchor, "anchor"))
DELETE_ANCHOR = _recall("DeleteAnchor", _several(context.Anchor, "anchors"))

_channels = Service(channel_pb.DESCRIPTOR, "ChannelService").method
RECEIVE = _channels("Receive", reading(channel.Received))
RUN_COMMAND = _channels("RunCommand", _command_reply)
ADD_OWNER_IDENTITY = _channels("AddOwnerIdentity", _identity)
REMOVE_OWNER_IDENTITY = _channels("RemoveOwnerIdentity", _identity)
LIST_OWNER_IDENTITIES = _channels("ListOwnerIdentities", _identities)
LINK_IDENTITIES = _channels("LinkIdentities", _identities)
UNLINK_IDENTITY = _channels("UnlinkIdentity", _identity)

_external = Service(external_pb.DESCRIPTOR, "ExternalCommunicationService").method
LIST_COMMUNICATIONS = _external("ListCommunications", reading(external.CommunicationPage))
GET_COMMUNICATION = _external("GetCommunication", reading(external.LoadedCommunication))
SEARCH_COMMUNICATIONS = _external("SearchCommunications", reading(external.CommunicationSearch))
REGISTER_CONTACT = _external("RegisterContact", _communication)
SET_TRUST = _external("SetTrust", _communication)
RECORD_REPLY = _external("RecordReply", reading(external.RecordedReply))
LIST_ESCALATIONS = _external("ListEscalations", reading(external.EscalationPage))
RESOLVE_ESCALATION = _external("ResolveEscalation", reading(external.Escalation, "escalation"))
STREAM_COMMUNICATION_UPDATES = _external(
    "StreamCommunicationUpdates", _updates_of(external.CommunicationUpdate)
)

_checkpoints = Service(checkpoint_pb.DESCRIPTOR, "CheckpointService").method
PUT_RECORDS = _checkpoints("PutRecords", lambda it: int(it.stored))
GET_RECORDS = _checkpoints("GetRecords", reading(checkpoint.FoundCheckpointRecords))
LIST_RECORDS = _checkpoints("ListRecords", reading(checkpoint.CheckpointRecordPage))
REMOVE_RECORDS = _checkpoints("RemoveRecords", reading(checkpoint.RemovedCheckpointRecords))
LIST_THREADS = _checkpoints("ListThreads", reading(checkpoint.CheckpointThreadPage))
DELETE_THREAD = _checkpoints("DeleteThread", lambda it: int(it.bytes_removed))

_insight = Service(insight_pb.DESCRIPTOR, "InsightService").method
USAGE = _insight("Usage", reading(insight.UsageReport))
TOPICS_OVER_TIME = _insight("TopicsOverTime", reading(insight.TopicReport))
CHANNEL_ACTIVITY = _insight("ChannelActivity", _several(insight.ChannelHours, "channels"))
BUSIEST_CONVERSATIONS = _insight(
    "BusiestConversations", _several(insight.BusyConversation, "conversations")
)
FACETS = _insight("Facets", reading(insight.Facets))
LIST_TOPICS = _insight("ListTopics", reading(insight.TopicPage))

WHO_AM_I = Service(access_pb.DESCRIPTOR, "AccessService").method("WhoAmI", reading(Caller))

_admin = Service(admin_pb.DESCRIPTOR, "AdminService").method
LIST_SETTINGS = _admin("ListSettings", reading(settings.SettingList))
SET_SETTING = _admin("SetSetting", reading(settings.ChangedSetting))
LIST_SPACES = _admin("ListSpaces", reading(spaces.SpacePage))
CREATE_SPACE = _admin("CreateSpace", reading(spaces.CreatedSpace))
DELETE_SPACE = _admin("DeleteSpace", reading(spaces.SpaceReceipt, "receipt"))
LIST_SPACE_RECEIPTS = _admin("ListSpaceReceipts", reading(spaces.SpaceReceiptPage))
VERIFY = _admin("Verify", _verification)
GET_VERIFICATION = _admin("GetVerification", _newest_verification)
LIST_TOKENS = _admin("ListTokens", reading(tokens.TokenPage))
CREATE_TOKEN = _admin("CreateToken", reading(tokens.NewToken))
REVOKE_TOKEN = _admin("RevokeToken", reading(tokens.Token, "token"))
ROTATE_TOKEN = _admin("RotateToken", reading(tokens.RotatedToken))
BACKUP = _admin("Backup", reading(spaces.Backup))
LIST_JOBS = _admin("ListJobs", _several(jobs.Job, "jobs"))
GET_STATS = _admin("GetStats", reading(stats.Stats))
LIST_RETENTION_RULES = _admin("ListRetentionRules", reading(retention.RetentionRuleList))
PREVIEW_RETENTION = _admin("PreviewRetention", reading(retention.RetentionPreview))
LIST_RETENTION_RECEIPTS = _admin("ListRetentionReceipts", reading(retention.RetentionReceiptPage))
