# Generated from proto and scripts/client_methods.toml by scripts/client_methods.py.
"""The methods of the contract, by their services. Called with the fields of its request, a method
gives a `Call`, whose answer is read as said here. Only `_sync` and `_async` import this.
"""

from recollect._shared import answers
from recollect._shared.read import reading
from recollect._shared.rpc import Service
from recollect._types.access import Caller
from recollect._types.admin.jobs import Job
from recollect._types.admin.retention import (
    RetentionPreview,
    RetentionReceiptPage,
    RetentionRuleList,
)
from recollect._types.admin.settings import (
    ChangedSetting,
    SettingList,
)
from recollect._types.admin.spaces import (
    Backup,
    BackupPage,
    CreatedSpace,
    SpacePage,
    SpaceReceipt,
    SpaceReceiptPage,
)
from recollect._types.admin.stats import (
    Stats,
)
from recollect._types.admin.tokens import (
    NewToken,
    RotatedToken,
    Token,
    TokenPage,
    TokenUsePage,
)
from recollect._types.admin.verifications import (
    Verification,
)
from recollect._types.channel import (
    OwnerIdentity,
    Received,
)
from recollect._types.checkpoint import (
    CheckpointRecordPage,
    CheckpointThreadPage,
    FoundCheckpointRecords,
    RemovedCheckpointRecords,
)
from recollect._types.context import (
    Anchor,
    BuiltContext,
    TierTransitionPage,
    TurnMemoryPage,
    UserProfile,
)
from recollect._types.conversation import (
    AppendedTurn,
    Conversation,
    ConversationPage,
    DeletionReceipt,
    LoadedConversation,
    RedactedMessages,
    RegeneratedNotes,
)
from recollect._types.external import (
    CommunicationPage,
    CommunicationSearch,
    CommunicationUpdate,
    DeletedCommunications,
    Escalation,
    EscalationPage,
    ExternalCommunication,
    LoadedCommunication,
    RecordedReply,
    RedactedExternalMessage,
)
from recollect._types.insight import (
    BusyConversation,
    ChannelHours,
    Facets,
    TopicPage,
    TopicReport,
    UsageReport,
)
from recollect._types.recall import (
    FetchedContext,
    SearchAnswer,
)
from recollect._types.update import (
    Update,
)
from recollect.v1 import access_service_pb2 as access_pb
from recollect.v1 import admin_service_pb2 as admin_pb
from recollect.v1 import channel_service_pb2 as channels_pb
from recollect.v1 import checkpoint_service_pb2 as checkpoints_pb
from recollect.v1 import conversation_service_pb2 as conversations_pb
from recollect.v1 import external_communication_service_pb2 as external_pb
from recollect.v1 import insight_service_pb2 as insight_pb
from recollect.v1 import recall_service_pb2 as recall_pb

_access = Service(access_pb.DESCRIPTOR, "AccessService").method
WHO_AM_I = _access("WhoAmI", reading(Caller))

_admin = Service(admin_pb.DESCRIPTOR, "AdminService").method
LIST_SETTINGS = _admin("ListSettings", reading(SettingList))
SET_SETTING = _admin("SetSetting", reading(ChangedSetting))
LIST_SPACES = _admin("ListSpaces", reading(SpacePage))
CREATE_SPACE = _admin("CreateSpace", reading(CreatedSpace))
DELETE_SPACE = _admin("DeleteSpace", reading(SpaceReceipt, "receipt"))
LIST_SPACE_RECEIPTS = _admin("ListSpaceReceipts", reading(SpaceReceiptPage))
VERIFY = _admin("Verify", reading(Verification, "verification"))
GET_VERIFICATION = _admin(
    "GetVerification", answers.set_only(reading(Verification, "verification"), "verification")
)
LIST_TOKENS = _admin("ListTokens", reading(TokenPage))
CREATE_TOKEN = _admin("CreateToken", reading(NewToken))
REVOKE_TOKEN = _admin("RevokeToken", reading(Token, "token"))
ROTATE_TOKEN = _admin("RotateToken", reading(RotatedToken))
LIST_TOKEN_USES = _admin("ListTokenUses", reading(TokenUsePage))
BACKUP = _admin("Backup", reading(Backup))
LIST_BACKUPS = _admin("ListBackups", reading(BackupPage))
LIST_JOBS = _admin("ListJobs", answers.several(Job, "jobs"))
GET_STATS = _admin("GetStats", reading(Stats))
LIST_RETENTION_RULES = _admin("ListRetentionRules", reading(RetentionRuleList))
PREVIEW_RETENTION = _admin("PreviewRetention", reading(RetentionPreview))
LIST_RETENTION_RECEIPTS = _admin("ListRetentionReceipts", reading(RetentionReceiptPage))

_channels = Service(channels_pb.DESCRIPTOR, "ChannelService").method
RECEIVE = _channels("Receive", reading(Received))
RUN_COMMAND = _channels("RunCommand", answers.command_reply)
ADD_OWNER_IDENTITY = _channels("AddOwnerIdentity", reading(OwnerIdentity, "identity"))
REMOVE_OWNER_IDENTITY = _channels("RemoveOwnerIdentity", reading(OwnerIdentity, "identity"))
LIST_OWNER_IDENTITIES = _channels(
    "ListOwnerIdentities", answers.several(OwnerIdentity, "identities")
)
LINK_IDENTITIES = _channels("LinkIdentities", answers.several(OwnerIdentity, "identities"))
UNLINK_IDENTITY = _channels("UnlinkIdentity", reading(OwnerIdentity, "identity"))

_checkpoints = Service(checkpoints_pb.DESCRIPTOR, "CheckpointService").method
PUT_RECORDS = _checkpoints("PutRecords", lambda it: int(it.stored))
GET_RECORDS = _checkpoints("GetRecords", reading(FoundCheckpointRecords))
LIST_RECORDS = _checkpoints("ListRecords", reading(CheckpointRecordPage))
REMOVE_RECORDS = _checkpoints("RemoveRecords", reading(RemovedCheckpointRecords))
LIST_THREADS = _checkpoints("ListThreads", reading(CheckpointThreadPage))
DELETE_THREAD = _checkpoints("DeleteThread", lambda it: int(it.bytes_removed))

_conversations = Service(conversations_pb.DESCRIPTOR, "ConversationService").method
CREATE = _conversations("Create", reading(Conversation, "conversation"))
GET = _conversations("Get", reading(Conversation, "conversation"))
LIST = _conversations("List", reading(ConversationPage))
LOAD = _conversations("Load", reading(LoadedConversation))
APPEND_TURN = _conversations("AppendTurn", reading(AppendedTurn))
STREAM_UPDATES = _conversations("StreamUpdates", answers.updates_of(Update))
PUBLISH_DELTA = _conversations("PublishDelta", lambda _: None)
SWITCH = _conversations("Switch", reading(LoadedConversation))
RENAME = _conversations("Rename", reading(Conversation, "conversation"))
SET_MODEL = _conversations("SetModel", reading(Conversation, "conversation"))
FORK = _conversations("Fork", reading(Conversation, "conversation"))
SET_TOPICS = _conversations("SetTopics", reading(Conversation, "conversation"))
ARCHIVE = _conversations("Archive", reading(Conversation, "conversation"))
UPDATE_METADATA = _conversations("UpdateMetadata", reading(Conversation, "conversation"))
RECORD_COMPRESSION = _conversations("RecordCompression", reading(Conversation, "conversation"))
RECORD_ABBREVIATION = _conversations("RecordAbbreviation", reading(Conversation, "conversation"))
SET_TURN_MEMORY = _conversations("SetTurnMemory", reading(Conversation, "conversation"))
LIST_TURN_MEMORY = _conversations("ListTurnMemory", reading(TurnMemoryPage))
REGENERATE_NOTES = _conversations("RegenerateNotes", reading(RegeneratedNotes))
DELETE = _conversations("Delete", reading(DeletionReceipt))
REDACT_MESSAGE = _conversations("RedactMessage", reading(RedactedMessages))
DELETE_MANY = _conversations("DeleteMany", answers.deleted)

_external = Service(external_pb.DESCRIPTOR, "ExternalCommunicationService").method
LIST_COMMUNICATIONS = _external("ListCommunications", reading(CommunicationPage))
GET_COMMUNICATION = _external("GetCommunication", reading(LoadedCommunication))
SEARCH_COMMUNICATIONS = _external("SearchCommunications", reading(CommunicationSearch))
REGISTER_CONTACT = _external("RegisterContact", reading(ExternalCommunication, "communication"))
SET_TRUST = _external("SetTrust", reading(ExternalCommunication, "communication"))
RECORD_REPLY = _external("RecordReply", reading(RecordedReply))
LIST_ESCALATIONS = _external("ListEscalations", reading(EscalationPage))
RESOLVE_ESCALATION = _external("ResolveEscalation", reading(Escalation, "escalation"))
DELETE_COMMUNICATIONS = _external("DeleteCommunications", reading(DeletedCommunications))
REDACT_EXTERNAL_MESSAGE = _external("RedactExternalMessage", reading(RedactedExternalMessage))
STREAM_COMMUNICATION_UPDATES = _external(
    "StreamCommunicationUpdates", answers.updates_of(CommunicationUpdate)
)

_insight = Service(insight_pb.DESCRIPTOR, "InsightService").method
USAGE = _insight("Usage", reading(UsageReport))
TOPICS_OVER_TIME = _insight("TopicsOverTime", reading(TopicReport))
CHANNEL_ACTIVITY = _insight("ChannelActivity", answers.several(ChannelHours, "channels"))
BUSIEST_CONVERSATIONS = _insight(
    "BusiestConversations", answers.several(BusyConversation, "conversations")
)
FACETS = _insight("Facets", reading(Facets))
LIST_TOPICS = _insight("ListTopics", reading(TopicPage))

_recall = Service(recall_pb.DESCRIPTOR, "RecallService").method
SEARCH = _recall("Search", reading(SearchAnswer))
FETCH_CONTEXT = _recall("FetchContext", reading(FetchedContext))
RECENT = _recall("Recent", answers.recent)
BUILD_CONTEXT = _recall("BuildContext", reading(BuiltContext))
LIST_ANCHORS = _recall("ListAnchors", answers.anchor_page)
SET_ANCHOR = _recall("SetAnchor", reading(Anchor, "anchor"))
DELETE_ANCHOR = _recall("DeleteAnchor", answers.several(Anchor, "anchors"))
GET_PROFILE = _recall("GetProfile", reading(UserProfile))
REMOVE_PROFILE_STATEMENT = _recall("RemoveProfileStatement", lambda _: None)
LIST_TIER_TRANSITIONS = _recall("ListTierTransitions", reading(TierTransitionPage))
