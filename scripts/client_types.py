"""Generate the client's data classes, `recollect._types`, from the contract and its comments.

    python scripts/client_types.py           # writes the modules
    python scripts/client_types.py --check   # fails if one of them is not what this would write

A class has the fields of the message of its name, with their comments. What the contract cannot say
is in the tables here: the modules, the names of answers, examples. `RecentPage`, and the
constructors of `Message`, are written by hand.
"""

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from recollect.v1 import rule_pb2

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "client/src/recollect/_types"
HEADER = "# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.\n"

MODULES = {
    "access": "Caller",
    "admin/jobs": "JobFailure JobState Job",
    "admin/retention": (
        "RetentionRule RetentionRuleList RetiredConversation RetentionPreview RetentionReceipt "
        "RetentionReceiptPage"
    ),
    "admin/settings": "SettingSource SettingType Setting SettingList ChangedSetting",
    "admin/spaces": (
        "SpaceState Space SpacePage CreatedSpace SpaceReceipt Backup StoredBackup BackupPage "
        "SpaceReceiptPage"
    ),
    "admin/stats": (
        "EmbeddingStats NoteStats ContextStats ExternalStats LimitedSender SpaceStats "
        "ModelSpending LimitReached ServerStats Stats"
    ),
    "admin/tokens": "TokenState Token TokenPage NewToken RotatedToken TokenUse TokenUsePage",
    "admin/verifications": "VerificationState VerificationProblem Verification",
    "channel": (
        "WhatsappOrigin EmailOrigin DiscordOrigin CliOrigin WebOrigin StoredInConversation "
        "CommandReply ReceivedExternal Received OwnerIdentity"
    ),
    "checkpoint": (
        "CheckpointRecord CheckpointRecordPage FoundCheckpointRecords RemovedCheckpointRecords "
        "CheckpointThread CheckpointThreadPage"
    ),
    "context": (
        "ContextTier ContextFormat RecallDial StatementKind ProfileStatement UserProfile "
        "ContextBudget "
        "ConversationPart AnchorSource Anchor TurnMemory "
        "TurnMemoryPage ContextMessage "
        "RecalledSource TierAllocation DroppedMessage GroupMessage BuiltContext TierTransition "
        "TierTransitionPage"
    ),
    "conversation": (
        "Party NoteRecord Notes RegeneratedNotes ForkOrigin SplitSuggestion MessagePreview "
        "Conversation ArchiveFilter ConversationPage LoadedConversation AppendedTurn AnchorDisposition "
        "RemovedFrom DeletionReceipt RedactedMessages DeletedConversations"
    ),
    "external": (
        "Trust Direction ExternalCommunication EmailHeaders ExternalMessage Escalation "
        "CommunicationPage EscalationPage LoadedCommunication CommunicationMatch "
        "CommunicationSearch RecordedReply CommunicationList CommunicationMessage "
        "CommunicationChanged CommunicationEscalated CommunicationDeleted "
        "ExternalMessageRedacted CommunicationUpdate DeletedCommunications RedactedExternalMessage"
    ),
    "insight": (
        "TimeBucket UsageGroup NoteActivity Activity UsageRow UsageTotal UsageReport "
        "TopicSeries TopicReport HourActivity ChannelHours BusyConversation Facet FacetList "
        "Facets Topic TopicPage"
    ),
    "message": "Message",
    "message_parts": "Role Usage ToolCall Attachment Redaction",
    "recall": (
        "RecentOrder DateRange TurnRange TextRange LegScore DegradedLeg SearchResult "
        "BesideMessage SearchHit SearchAnswer FetchedContext RecentConversation"
    ),
    "update": (
        "ConversationList ConversationCreated ConversationUpdated ConversationRenamed "
        "ConversationAbbreviated ConversationDeleted MessagesRedacted SplitSuggested "
        "MessageDelta Update"
    ),
}
"""Modules of `_types`, each with its classes in their order."""
ANSWERS = {
    "Caller": (
        "WhoAmIResponse",
        "The caller: its token and what that allows. Without a token, where the server asks for none, it has every scope.",
    ),
    "RetentionRuleList": ("ListRetentionRulesResponse", "The rules of retention about a space."),
    "RetentionPreview": ("PreviewRetentionResponse", "Conversations that rules would delete now."),
    "RetentionReceiptPage": (
        "ListRetentionReceiptsResponse",
        "A page of receipts, the newest first. Iterating over it gives the receipts.",
    ),
    "SettingList": ("ListSettingsResponse", "All settings of a server."),
    "ChangedSetting": ("SetSettingResponse", "A setting that was set."),
    "SpacePage": ("ListSpacesResponse", "A page of spaces. Iterating over it gives the spaces."),
    "CreatedSpace": ("CreateSpaceResponse", "A space that was made, or was there."),
    "Backup": ("BackupResponse", "A backup that the server made."),
    "BackupPage": (
        "ListBackupsResponse",
        "A page of backups, the newest first. Iterating over it gives the backups.",
    ),
    "SpaceReceiptPage": (
        "ListSpaceReceiptsResponse",
        "A page of the receipts of deleted spaces, the newest first. Iterating over it gives the receipts.",
    ),
    "Stats": ("GetStatsResponse", "State of a space, and of the server."),
    "TokenPage": ("ListTokensResponse", "A page of tokens. Iterating over it gives the tokens."),
    "TokenUsePage": (
        "ListTokenUsesResponse",
        "A page of the use of a token. Iterating over it gives its entries.",
    ),
    "NewToken": (
        "CreateTokenResponse",
        "A new token with its secret, which nobody can learn again.",
    ),
    "RotatedToken": ("RotateTokenResponse", "A new token in place of another one."),
    "Received": ("ReceiveResponse", "The outcome of an inbound message."),
    "CheckpointRecordPage": ("ListRecordsResponse", "Some of a thread's records."),
    "FoundCheckpointRecords": ("GetRecordsResponse", "Records by their keys."),
    "RemovedCheckpointRecords": ("RemoveRecordsResponse", "Receipt of removed records."),
    "CheckpointThreadPage": (
        "ListThreadsResponse",
        "A page of threads. Iterating over it gives the threads.",
    ),
    "UserProfile": (
        "GetProfileResponse",
        "Statements of users about themselves, and about how they want to be answered.",
    ),
    "BuiltContext": (
        "BuildContextResponse",
        "The input of an agent's model for its answer to a message.",
    ),
    "TurnMemoryPage": (
        "ListTurnMemoryResponse",
        "A page of what was recorded of turns. Iterating over it gives the turns.",
    ),
    "TierTransitionPage": ("ListTierTransitionsResponse", "A page of moves."),
    "RegeneratedNotes": ("RegenerateNotesResponse", "The answer of `regenerate_notes`."),
    "ConversationPage": (
        "ListResponse",
        "One page of a list of conversations. Iterating over it gives the conversations.",
    ),
    "LoadedConversation": (
        "LoadResponse",
        "The working context of a conversation, or a page of its history.",
    ),
    "AppendedTurn": (
        "AppendTurnResponse",
        "The messages that an append stored. A repeated request is answered with what the first one stored.",
    ),
    "DeletionReceipt": (
        "DeleteResponse",
        "The receipt of a deletion: the number of entries removed from each part of the service.",
    ),
    "RedactedMessages": ("RedactMessageResponse", "The result of `redact_message`."),
    "DeletedConversations": ("DeleteManyResponse", "The receipt of `delete_many`."),
    "DeletedCommunications": (
        "DeleteCommunicationsResponse",
        "The receipt of `delete_communications`.",
    ),
    "RedactedExternalMessage": (
        "RedactExternalMessageResponse",
        "The receipt of `redact_external_message`.",
    ),
    "CommunicationPage": (
        "ListCommunicationsResponse",
        "One page of a list of communications. Iterating over it gives the communications.",
    ),
    "EscalationPage": (
        "ListEscalationsResponse",
        "One page of a list of escalations. Iterating over it gives the escalations.",
    ),
    "LoadedCommunication": (
        "GetCommunicationResponse",
        "A communication with a page of its messages.",
    ),
    "CommunicationSearch": (
        "SearchCommunicationsResponse",
        "The matches of a search over external communications. Iterating over it gives the matches.",
    ),
    "RecordedReply": (
        "RecordReplyResponse",
        "The reply that `record_reply` stored. A repeated request is answered with what the first one stored.",
    ),
    "UsageReport": ("UsageResponse", "Activity by time and group."),
    "TopicReport": ("TopicsOverTimeResponse", "Topics over time."),
    "Facets": ("FacetsResponse", "Conversations by their properties."),
    "TopicPage": ("ListTopicsResponse", "A page of topics."),
    "SearchAnswer": ("SearchResponse", "The answer of a search."),
    "FetchedContext": (
        "FetchContextResponse",
        "Turns of a conversation, around something that was found.",
    ),
}
"""Classes of answers, with their message and what they are to a user."""
EXAMPLES = {
    "Message": (
        "Build one to append with `Message.user`, `Message.assistant` or `Message.tool`.\n\n"
        '>>> Message.user("Is the disk full again?", sender="Caroline")'
    ),
    "WhatsappOrigin": '>>> WhatsappOrigin(group_id="120363@g.us")',
    "EmailOrigin": '>>> EmailOrigin(message_id="<2@mail>", in_reply_to="<1@mail>", subject="Re: The invoice")',
    "DiscordOrigin": '>>> DiscordOrigin(thread_id="1187")',
    "CliOrigin": '>>> CliOrigin(session_name="work")',
    "WebOrigin": ">>> WebOrigin(conversation_id=conversation.id)",
    "ContextBudget": ">>> ContextBudget(total=2000)",
    "Party": '>>> Party(contact="alex@example.org", subject="The invoice")',
    "DateRange": ">>> DateRange(start=datetime(2026, 2, 1, tzinfo=UTC))",
}
"""Examples of classes that users make."""
POSITIONAL = {
    "Caller",
    "OwnerIdentity",
    "CheckpointRecord",
    "ContextBudget",
    "ConversationPart",
    "AnchorSource",
    "SplitSuggestion",
    "RemovedFrom",
    "Usage",
    "ToolCall",
    "Attachment",
    "Redaction",
    "DateRange",
    "TurnRange",
    "TextRange",
    "ConversationDeleted",
    "CommunicationDeleted",
}
"""Classes that are made without the names of their fields."""
OTHER_NAMES = {"ConversationLoaded": "LoadedConversation"}
"""Classes that stand for another message too."""
TYPES = {
    "DeletedConversations.left": "tuple[tuple[str, str], ...]",
    "ContextBudget.hot": "int | None",
    "ContextBudget.warm": "int | None",
    "ContextBudget.cold": "int | None",
    "ContextBudget.total": "int | None",
    "RetentionRule.conversations": "int",
    "RetentionRule.bytes": "int",
    "Redaction.time": "datetime | None",
    "Redaction.redaction": "Redaction | None",
    "Message.redaction": "Redaction | None",
    "ExternalMessage.redaction": "Redaction | None",
    "DateRange.start": "datetime | None",
    "DateRange.end": "datetime | None",
    "BuiltContext.split_suggestion": "SplitSuggestion | None",
    "Conversation.metadata": "dict[str, Any]",
    "Received.outcome": "StoredInConversation | CommandReply | ReceivedExternal | None",
}
"""Types that are not those of the contract's fields."""
ALSO = {"CheckpointRecord": ("PutRecord", "keep_existing")}
"""Fields of another message that a class has too."""
UNIONS = {"channel": ("Origin", "ReceiveRequest", "origin")}
"""Names of the members of a oneof, by the module that has them."""
FORMS = {"Message": "MessageForms"}
"""Bases of classes that users build, by hand. What only the server sets comes last in these."""
METHODS = {
    "Activity": """
    @property
    def messages(self) -> int:
        \"""Return the messages of all roles.\"""
        return self.user_messages + self.assistant_messages + self.tool_messages
""",
}
"""Methods of classes that are no pages."""
UNKNOWN = {
    "JobState",
    "SettingSource",
    "SettingType",
    "SpaceState",
    "TokenState",
    "VerificationState",
}
"""Enumerations that may grow: a client that is older reads what it does not know as `unknown`."""

_SCALARS = {
    FieldDescriptorProto.TYPE_STRING: "str",
    FieldDescriptorProto.TYPE_BOOL: "bool",
    FieldDescriptorProto.TYPE_BYTES: "bytes",
    FieldDescriptorProto.TYPE_DOUBLE: "float",
    FieldDescriptorProto.TYPE_FLOAT: "float",
}
WELL_KNOWN = {"Timestamp": "datetime", "Duration": "timedelta", "Struct": "dict[str, Any]"}
_DEFAULTS = {"str": '""', "bool": "False", "bytes": 'b""', "float": "0.0", "int": "0"}
HOMES = {name: module for module, names in MODULES.items() for name in names.split()}
_CLASSES = {message: name for name, (message, _) in ANSWERS.items()} | OTHER_NAMES


class Contract:
    """The messages and enumerations of the contract, with their comments."""

    def __init__(self) -> None:
        buf = Path(sys.executable).parent / "buf"
        image = subprocess.run(
            [buf, "build", "--output", "-"], cwd=ROOT, check=True, capture_output=True
        ).stdout
        self.messages: dict[str, DescriptorProto] = {}
        self.enums: dict[str, EnumDescriptorProto] = {}
        self.comments: dict[str, str] = {}
        self.services: dict[str, ServiceDescriptorProto] = {}
        for file in FileDescriptorSet.FromString(image).file:
            if file.package != "recollect.v1":
                continue
            self.services |= {it.name: it for it in file.service}
            comments = {
                tuple(it.path): it.leading_comments for it in file.source_code_info.location
            }
            for i, message in enumerate(file.message_type):
                self.messages[message.name] = message
                self.comments[message.name] = comments.get((4, i), "")
                named: tuple[tuple[int, Any], ...] = ((2, message.field), (8, message.oneof_decl))
                for kind, parts in named:
                    for j, part in enumerate(parts):
                        text = comments.get((4, i, kind, j), "")
                        self.comments[f"{message.name}.{part.name}"] = text
            for i, enum in enumerate(file.enum_type):
                self.enums[enum.name] = enum
                self.comments[enum.name] = comments.get((5, i), "")
                for j, value in enumerate(enum.value):
                    self.comments[f"{enum.name}.{value.name}"] = comments.get((5, i, 2, j), "")
        self._values = {
            value.name: f"{enum.name}.{_member(enum, value.name).upper()}"
            for enum in self.enums.values()
            for value in enum.value[1:]
            if enum.name in HOMES
        }

    def module(self, name: str) -> str:
        """Return the text of a module."""
        parts = [
            self._enum(it) if it in self.enums else self._class(it) for it in MODULES[name].split()
        ]
        if name in UNIONS:
            alias, message, oneof = UNIONS[name]
            members = " | ".join(self._members(self.messages[message], oneof))
            parts.append(
                f"{alias} = {members}\n{self._doc(self.comments[f'{message}.{oneof}'], '')}"
            )
        imports = "".join(
            f"from recollect._types.{module.replace('/', '.')} import {it}\n"
            for it, module in [*HOMES.items(), ("MessageForms", "message_forms")]
            if module != name
        )
        text = (
            f'{HEADER}"""Data classes of the contract: {name.replace("/", ", ").replace("_", " ")}."""\n\n'
            "from collections.abc import Iterator, Mapping\n"
            "from dataclasses import dataclass, field\n"
            "from datetime import datetime, timedelta\n"
            "from enum import StrEnum\n"
            f"from typing import Any\n\n{imports}\n\n" + "\n\n".join(parts)
        )
        return formatted(text, f"{TARGET}/x.py")

    def class_of(self, message: str) -> str:
        """Return the data class that a message is; empty if it is none."""
        return _CLASSES.get(message, message if message in HOMES else "")

    def _enum(self, name: str) -> str:
        enum = self.enums[name]
        lines = [f"class {name}(StrEnum):", self._doc(self.comments[name]), ""]
        for value in enum.value[1:]:
            member = _member(enum, value.name)
            lines += [
                f'    {member.upper()} = "{member}"',
                self._doc(self.comments[f"{name}.{value.name}"]),
            ]
        if name in UNKNOWN:
            lines += [
                '    UNKNOWN = "unknown"',
                self._doc("One that this client is too old to know."),
            ]
        return "\n".join(lines) + "\n"

    def _class(self, name: str) -> str:
        described, summary = ANSWERS.get(name, (name, self.comments.get(name, "")))
        message = self.messages[described]
        keywords = "" if name in POSITIONAL else ", kw_only=True"
        lines = [
            f"@dataclass(frozen=True, slots=True{keywords})",
            f"class {name}({FORMS[name]}):" if name in FORMS else f"class {name}:",
            self._doc(summary, example=EXAMPLES.get(name, "")),
            "",
        ]
        oneofs = set()
        for field in sorted(message.field, key=lambda it: self._is_last(name, it.name)):
            oneof = (
                message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else ""
            )
            if members := self._members(message, oneof):
                if oneof not in oneofs:
                    kind = TYPES.get(f"{name}.{oneof}") or " | ".join(members)
                    text = self._doc(self.comments[f"{described}.{oneof}"])
                    lines += [f"    {oneof}: {kind}", text]
                oneofs.add(oneof)
            else:
                lines += self._field(name, described, field)
        if name in ALSO:
            other, extra = ALSO[name]
            (field,) = (it for it in self.messages[other].field if it.name == extra)
            lines += self._field(name, other, field)
        first = message.field[0] if message.field else None
        is_page = any(it.name == "next_page_token" for it in message.field) and name.endswith(
            "Page"
        )
        if first is not None and (is_page or name == "CommunicationSearch"):
            lines.append(
                f"\n    def __iter__(self) -> Iterator[{self.type_of(first)}]:\n        return iter(self.{first.name})\n\n"
                f"    def __len__(self) -> int:\n        return len(self.{first.name})"
            )
        return "\n".join(lines) + "\n" + METHODS.get(name, "")

    def _is_last(self, name: str, field: str) -> bool:
        """Return whether only the server sets a field of a class that users build."""
        return name in FORMS and "Output only." in self.comments[f"{name}.{field}"]

    def _field(self, name: str, message: str, field: FieldDescriptorProto) -> list[str]:
        comment = self.comments[f"{message}.{field.name}"]
        kind = TYPES.get(f"{name}.{field.name}") or self._type(field, comment)
        rule = field.options.Extensions[rule_pb2.rule]
        is_needed = rule.required or rule.min_chars or rule.minimum > 0
        is_choice = field.HasField("oneof_index")
        default = "" if is_needed and not is_choice else _default(kind)
        if field.name == "secret":
            default = 'field(default="", repr=False)'
        return [f"    {field.name}: {kind}{f' = {default}' if default else ''}", self._doc(comment)]

    def _members(self, message: DescriptorProto, oneof: str) -> list[str]:
        """Return the classes of the members of a oneof."""
        members = (
            self.type_of(it)
            for it in message.field
            if it.HasField("oneof_index")
            and not it.proto3_optional
            and message.oneof_decl[it.oneof_index].name == oneof
        )
        return [it for it in members if it in HOMES]

    def _type(self, field: FieldDescriptorProto, comment: str) -> str:
        """Return the type of a field; a message that may be unset may be None."""
        one = self.type_of(field)
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            if one.endswith("Entry"):
                return "Mapping[str, float]"
            return "frozenset[str]" if one == "Scope" else f"tuple[{one}, ...]"
        may_be_unset = field.type == FieldDescriptorProto.TYPE_MESSAGE and "nset" in comment
        return f"{one} | None" if field.proto3_optional or may_be_unset else one

    def type_of(self, field: FieldDescriptorProto) -> str:
        """Return the type of one value of a field."""
        name = field.type_name.rpartition(".")[2]
        if field.type_name.startswith(".google."):
            return WELL_KNOWN[name]
        return _CLASSES.get(name, name) or _SCALARS.get(field.type, "int")

    def _doc(self, comment: str, indent: str = "    ", example: str = "") -> str:
        """Return a docstring with the text of a comment."""
        text = comment.strip().removeprefix("Output only. ")
        text = re.sub(r"\b[A-Z]+(?:_[A-Z]+)+\b", lambda it: self._values.get(it[0], it[0]), text)
        paragraphs = [" ".join(it.split()) for it in re.split(r"\n\s*\n", text)]
        wrapped = [
            textwrap.fill(it, 96 - len(indent), break_long_words=False, break_on_hyphens=False)
            for it in paragraphs
        ]
        wrapped[0] = textwrap.fill('"""' + paragraphs[0], 96 - len(indent), break_on_hyphens=False)
        whole = "\n\n".join([*wrapped, *([example] if example else [])])
        is_short = "\n" not in whole and len(whole) + len(indent) + 3 <= 100
        return textwrap.indent(whole + ("" if is_short else "\n") + '"""', indent)


def formatted(text: str, name: str) -> str:
    """Return the text of a module without unused imports, as ruff formats it."""
    for command in (("check", "--fix", "--select", "I,F401", "--quiet"), ("format", "--quiet")):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", name, "-"]
        text = subprocess.run(
            ruff, input=text, text=True, check=True, capture_output=True, cwd=ROOT
        ).stdout
    return text


def _member(enum: EnumDescriptorProto, value: str) -> str:
    """Return `user` for the value ROLE_USER."""
    return value.removeprefix(enum.value[0].name.removesuffix("UNSPECIFIED")).lower()


def _default(kind: str) -> str:
    """Return the default of a field; nothing for one that is always set."""
    if kind.endswith("None"):
        return "None"
    if kind.startswith("tuple"):
        return "()"
    if kind.startswith("frozenset"):
        return "frozenset()"
    return (
        "field(default_factory=dict, hash=False)"
        if kind.startswith("dict")
        else _DEFAULTS.get(kind, "")
    )


def main(*, check: bool) -> int:
    """Write the modules, or name those that are not current."""
    contract = Contract()
    status = 0
    for name in MODULES:
        path, text = TARGET / f"{name}.py", contract.module(name)
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.name} is not current: run scripts/client_types.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv))
