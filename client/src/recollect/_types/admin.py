"""Administration of a server: settings, spaces, tokens, and the state of what it keeps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum


class SettingSource(StrEnum):
    """Source of a setting's value. A later one goes before an earlier one."""

    DEFAULT = "default"
    """Nobody set it."""
    FILE = "file"
    """The YAML file."""
    ENVIRONMENT = "environment"
    """A variable of the server's environment."""
    FLAG = "flag"
    """A flag of the server's command line."""
    UNKNOWN = "unknown"
    """One that this client does not know."""


class SettingType(StrEnum):
    """Type of a setting's value, which is always text."""

    TEXT = "text"
    """One line."""
    BOOLEAN = "boolean"
    """`true` or `false`."""
    INTEGER = "integer"
    """A whole number."""
    NUMBER = "number"
    """A number."""
    DURATION = "duration"
    """A number and its unit, as `10m`."""
    CHOICE = "choice"
    """One of `choices`."""
    PATH = "path"
    """A path of the server's machine; empty: none."""
    UNKNOWN = "unknown"
    """One that this client does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting of a server."""

    key: str
    """Name, as in the YAML file."""
    value: str
    """The value in force."""
    default_value: str
    """The value that it has when nobody sets it."""
    source: SettingSource
    """Source of the value in force."""
    group: str
    """Group that it is listed in."""
    group_label: str
    """Name of the group for people."""
    label: str
    """Name of the setting for people."""
    help: str
    """Its effect, in a sentence or two."""
    type: SettingType
    """Type of its value."""
    choices: tuple[str, ...]
    """The values of a choice."""
    minimum: str
    """Smallest value; empty: none."""
    maximum: str
    """Largest value; empty: none."""
    minimum_excluded: bool
    """`minimum` itself is too small."""
    masked: bool
    """A part of `value` is replaced by `…`, because it may be a secret."""
    restart_needed: bool
    """A change counts from the next start of the server on."""
    pending: bool
    """The file has another value, which counts from the next start on."""
    pending_value: str
    """That value."""
    locked: str
    """The reason for which no call changes it. Empty: one may."""
    environment_name: str
    """The variable that sets it in the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingList:
    """All settings of a server."""

    settings: tuple[Setting, ...]
    """The settings, ordered by group."""
    file: str
    """Path of the file that keeps what is set, on the server's machine."""
    locked: str
    """The reason for which none can be set. Empty: they can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSetting:
    """A setting that was set."""

    setting: Setting
    """The setting as it is now."""
    restart_needed: bool
    """The new value counts from the next start of the server on."""


class SpaceState(StrEnum):
    """State of a space in the server."""

    OPEN = "open"
    """Its files are open."""
    SUSPENDED = "suspended"
    """It is in memory without open files."""
    CLOSED = "closed"
    """It is opened with the next call to it."""
    UNKNOWN = "unknown"
    """One that this client does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """One owner's data."""

    name: str
    """Its name."""
    state: SpaceState
    """Its state in the server."""
    is_default: bool
    """It is the space of calls that name none."""
    conversations: int
    """Conversations."""
    messages: int
    """Messages of conversations."""
    bytes: int
    """Bytes of the transcripts."""
    external_communications: int
    """External communications."""
    index_problem: str
    """Problem of its index. Empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpacePage:
    """A page of spaces."""

    spaces: tuple[Space, ...]
    """The spaces, by name."""
    next_page_token: str
    """Asks for the page that follows. Empty: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSpace:
    """A space that was made, or was there."""

    space: Space
    """The space."""
    created: bool
    """This call made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceReceipt:
    """Receipt of a deleted space."""

    name: str
    """Name that it had."""
    delete_time: datetime
    """Time of its deletion."""
    conversations: int
    """Conversations that it had."""
    external_communications: int
    """External communications that it had."""
    bytes: int
    """Bytes of its transcripts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedSpace:
    """A deleted space."""

    receipt: SpaceReceipt
    """Its receipt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup that the server made."""

    path: str
    """Its folder, on the server's machine."""
    spaces: tuple[str, ...]
    """Spaces in it."""
    conversations: int
    """Conversations in it."""
    external_communications: int
    """External communications in it."""
    bytes: int
    """Bytes of the copied transcripts."""
    problem_count: int
    """Damaged lines that were met."""
    problems: tuple[str, ...]
    """The first of them."""


class TokenState(StrEnum):
    """State of a token."""

    VALID = "valid"
    """It may be used."""
    EXPIRED = "expired"
    """Its time is over."""
    REVOKED = "revoked"
    """It was revoked."""
    UNKNOWN = "unknown"
    """One that this client does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token, without its secret."""

    id: str
    """Id, which is no secret."""
    kind: str
    """`brain`, `project`, `gateway`, `panel`, `reader`, `admin` or `custom`."""
    scopes: frozenset[str]
    """Permissions, such as `recall` or `conversations.read`."""
    spaces: tuple[str, ...]
    """Spaces that it is for; `*`: every space."""
    conversation_id: str
    """The only conversation that it may name. Empty: any."""
    channel: str
    """The channel that its holder speaks from. Empty: any."""
    state: TokenState
    """Its state."""
    create_time: datetime
    """Time of its creation."""
    expire_time: datetime | None
    """Its end. `None`: never."""
    replaces: str
    """Id of the token that it was made to replace. Empty: none."""
    limits: Mapping[str, float]
    """Limits of its own, by name."""
    note: str
    """Note of whoever made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPage:
    """A page of tokens."""

    tokens: tuple[Token, ...]
    """The tokens, the newest first."""
    next_page_token: str
    """Asks for the page that follows. Empty: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailure:
    """A conversation that a job could not deal with."""

    conversation_id: str
    """The conversation. Empty: the failure is of the job as a whole."""
    reason: str
    """The reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A new token with its secret, which nobody can learn again."""

    token: Token
    """The token."""
    secret: str = field(repr=False)
    """The text that its holder presents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RotatedToken:
    """A new token in place of another one."""

    token: Token
    """The new token."""
    secret: str = field(repr=False)
    """The text that its holder presents."""
    replaced: Token
    """The old token as it is now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedToken:
    """A revoked token."""

    token: Token
    """The token as it is now."""


class JobState(StrEnum):
    """State of a background job."""

    IDLE = "idle"
    """Nothing is due."""
    WORKING = "working"
    """Work is due, and is being done or waits for its turn."""
    FAILING = "failing"
    """The last try failed. It is tried again."""
    OFF = "off"
    """Settings turn it off."""
    ASLEEP = "asleep"
    """The space is not open: the job goes on when work is due there."""
    UNKNOWN = "unknown"
    """One that this client does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A background job in one space."""

    name: str
    """Its name."""
    help: str
    """Its purpose."""
    space: str
    """The space."""
    state: JobState
    """Its state."""
    due: int
    """Conversations that have work due, or will have once they are idle."""
    failed: int
    """Conversations whose last try failed."""
    failures: tuple[JobFailure, ...]
    """Some of them, and first the failure of the job as a whole, if there is one."""
    last_run_time: datetime | None
    """Time of its last turn. `None`: it had none since the space was opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """The jobs of a space."""

    jobs: tuple[Job, ...]
    """The jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingStats:
    """State of the embedding of a space's texts."""

    problem: str
    """Problem of the vectors' file. Empty: none."""
    vectors: int
    """Vectors that are kept."""
    other_language_vectors: int
    """Those of the model of other languages."""
    bytes: int
    """Bytes of the file."""
    waiting_conversations: int
    """Conversations with texts that have no vectors yet."""
    share: float
    """Share of the text that has its vectors, from 0 to 1."""
    time_left: timedelta | None
    """Time that the rest takes. `None`: nothing is left, or the pace is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteStats:
    """State of the notes of a space's conversations."""

    waiting_conversations: int
    """Conversations with turns that no notes have yet."""
    failed_conversations: int
    """Conversations whose notes could not be written."""
    failures: tuple[JobFailure, ...]
    """Some of them, those with the newest messages first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextStats:
    """Contexts of a space, by their sources."""

    contexts: int
    """Contexts that were built."""
    hot_in_memory: int
    """Those whose newest turns came from memory."""
    cold_asked: int
    """Those that asked other conversations."""
    hot_messages: int
    """Messages of newest turns in them."""
    warm_messages: int
    """Messages of earlier turns in them."""
    cold_messages: int
    """Messages of other conversations in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalStats:
    """Third parties of a space."""

    communications: int
    """External communications."""
    messages: int
    """Their messages."""
    bytes: int
    """Bytes of their transcripts."""
    not_indexed_yet: int
    """Communications whose newest lines are not indexed yet."""
    open_escalations: int
    """Escalations that wait for the owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedSender:
    """A sender who wrote faster than allowed."""

    channel: str
    """Channel."""
    sender: str
    """Address on the channel."""
    refused: int
    """Messages that were refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceStats:
    """Contents of a space, and what is left to do there."""

    space: str
    """The space."""
    conversations: int
    """Conversations."""
    messages: int
    """Messages, as the index knows them."""
    transcript_bytes: int
    """Bytes of the transcripts of conversations."""
    index_problem: str
    """Problem of the index. Empty: none."""
    index_bytes: int
    """Bytes of the index."""
    not_indexed_yet: int
    """Conversations whose newest lines are not indexed yet."""
    embedding: EmbeddingStats
    """Embedding of texts."""
    notes: NoteStats
    """Notes of conversations."""
    contexts: ContextStats
    """Contexts that were built."""
    torn_transcripts: int
    """Transcripts of which a crash left an incomplete line."""
    torn_bytes: int
    """Bytes of those lines."""
    unfinished_deletes: int
    """Deletes that have begun and are not finished."""
    external: ExternalStats
    """Third parties."""
    limited_senders: int
    """Senders who were refused for writing too fast."""
    most_limited: tuple[LimitedSender, ...]
    """The ones with the most refusals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpending:
    """Cost of the models of the server's own notes on the last day that one was called."""

    day: str
    """The day (UTC). Empty: none was ever called."""
    calls: int
    """Calls."""
    tokens: int
    """Tokens read and written."""
    cost: float
    """US dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached:
    """A token or a space that reached a limit today."""

    of: str
    """`token` or `space`."""
    name: str
    """Id of the token, or name of the space."""
    limit: str
    """Name of the limit."""
    refused: int
    """Calls that were refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStats:
    """The server as a whole."""

    version: str
    """Its version."""
    start_time: datetime
    """Time of its start."""
    spaces: int
    """Spaces on its disk."""
    open_spaces: int
    """Those that are open."""
    suspended_spaces: int
    """Those that are suspended."""
    model_spending: ModelSpending
    """Cost of its own notes."""
    limited: int
    """Number of tokens and spaces that reached a limit today."""
    most_limited: tuple[LimitReached, ...]
    """The ones with the most refusals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """State of a space, and of the server."""

    space: SpaceStats
    """The space."""
    server: ServerStats | None
    """The server. `None`: the token is for certain spaces."""


class VerificationState(StrEnum):
    """State of a verification."""

    WAITING = "waiting"
    """It waits for the verification of another space."""
    RUNNING = "running"
    """It goes on."""
    DONE = "done"
    """It looked at everything."""
    FAILED = "failed"
    """It ended before it looked at everything."""
    UNKNOWN = "unknown"
    """A newer server's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationProblem:
    """A difference between what is kept and what is derived from it, or damage of either."""

    id: str
    """The conversation, external communication or thread. Empty: the space as a whole."""
    problem: str
    """The problem, in a sentence without text of anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A comparison of the logs of a space with its index and vectors."""

    space: str
    """The space."""
    state: VerificationState
    """Its state."""
    create_time: datetime
    """The time at which it was asked for."""
    end_time: datetime | None
    """The time of its end. `None`: it goes on."""
    logs: int
    """Logs that it looked at: of conversations, external communications and threads."""
    total_logs: int
    """Logs that there were when it began."""
    conversations: int
    """Conversations that it looked at."""
    messages: int
    """Their messages."""
    external_communications: int
    """External communications that it looked at."""
    threads: int
    """Threads of checkpoints that it looked at."""
    problem_count: int
    """Problems that it found."""
    problems: tuple[VerificationProblem, ...]
    """The first of them."""
    failure: str
    """Reason why it ended early. Empty: it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedVerification:
    """Answer of Verify."""

    verification: Verification
    """The verification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestVerification:
    """Answer of GetVerification."""

    verification: Verification | None
    """The newest verification. `None`: there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceReceiptPage:
    """A page of the receipts of deleted spaces, the newest first."""

    receipts: tuple[SpaceReceipt, ...]
    """The receipts."""
    next_page_token: str
    """Asks for the page that follows. Empty: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRule:
    """A rule of retention: it deletes conversations by themselves."""

    rule: str
    """The rule as the setting `retention` has it."""
    space: str
    """The space it is about. Empty: every space."""
    channel: str
    """The channel it is about. Empty: every channel."""
    idle_seconds: int
    """Seconds without a message after which the rule is about a conversation. 0: no bound."""
    conversations: int
    """Conversations that may be there. 0: no bound."""
    bytes: int
    """Bytes that their transcripts may have together. 0: no bound."""
    keeps_anchors: bool
    """True if anchors that came from a conversation stay."""
    unindexes: bool
    """True if it unindexes conversations, which stay, and deletes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRuleList:
    """The rules of retention about a space."""

    rules: tuple[RetentionRule, ...]
    """The rules, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredConversation:
    """A conversation that a rule deletes."""

    conversation_id: str
    """The conversation."""
    channel: str
    """Its channel."""
    update_time: datetime
    """The time of its last change."""
    bytes: int
    """Bytes of its transcript."""
    rule: str
    """The rule."""
    reason: str
    """The reason, in a sentence without text of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPreview:
    """Conversations that rules would delete now."""

    conversations: tuple[RetiredConversation, ...]
    """The conversations, rule by rule, those that are idle for longest first."""
    has_more: bool
    """True if there are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReceipt:
    """The record of a conversation that a rule deleted."""

    conversation: RetiredConversation
    """The conversation, and the reason."""
    time: datetime
    """The time of the deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReceiptPage:
    """A page of receipts, the newest first."""

    receipts: tuple[RetentionReceipt, ...]
    """The receipts."""
    next_page_token: str
    """Asks for the page that follows. Empty: there is none."""
