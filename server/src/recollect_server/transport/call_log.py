"""The log of calls: a line for each that fails, takes long or administers the server, and the ids
that the lines within a call have.

A line names the method, the code, the milliseconds and the conversation or communication, never a
text. It is `info` for the calls that `CallLog` says, and `debug` for all others.
"""

from dataclasses import dataclass, field
from logging import DEBUG
from typing import Any

import grpc
import structlog
from google.protobuf.message import Message as ProtoMessage
from google.rpc import status_pb2

from recollect_server.domain.live import Holder, Live
from recollect_server.domain.telemetry import UNMEASURED, Telemetry

log = structlog.get_logger("recollect.calls")

_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}
CODES = tuple(_NAMES.values())
"""Names of the codes of gRPC."""

ADMINISTRATIVE = frozenset(
    {
        "ConversationService.Delete",
        "ConversationService.DeleteMany",
        "ConversationService.RedactMessage",
        "ConversationService.RegenerateNotes",
        "RecallService.DeleteAnchor",
        "CheckpointService.RemoveRecords",
        "CheckpointService.DeleteThread",
        "ChannelService.AddOwnerIdentity",
        "ChannelService.RemoveOwnerIdentity",
        "ChannelService.LinkIdentities",
        "ChannelService.UnlinkIdentity",
        "ExternalCommunicationService.RegisterContact",
        "ExternalCommunicationService.SetTrust",
        "ExternalCommunicationService.DeleteCommunications",
        "ExternalCommunicationService.RedactExternalMessage",
        "AdminService.SetSetting",
        "AdminService.Backup",
        "AdminService.CreateSpace",
        "AdminService.DeleteSpace",
        "AdminService.CreateToken",
        "AdminService.RevokeToken",
        "AdminService.RotateToken",
    }
)
"""Calls that delete data or change who is trusted: each has a line in the log at `info`."""


@dataclass(frozen=True, slots=True)
class CallLog:
    """The rule for which calls are logged at `info`, and the telemetry that counts all."""

    slow: Live[float] = field(default_factory=lambda: Holder(1.0))
    """Seconds; a call that takes longer has a line. Of a stream, the time to open it."""
    quiet: bool = False
    """True to log every call at `debug`: health checks and reflection."""
    telemetry: Telemetry = UNMEASURED

    def write(
        self,
        method: str,
        request: object,
        answer: ProtoMessage | None,
        failed: status_pb2.Status | None,
        seconds: float,
    ) -> None:
        """Count a call that was carried out, or a stream that is open, and log it. `method` is
        `Service.Method`; `request` is None if it was not read.
        """
        if self.telemetry is not UNMEASURED:
            self.telemetry.call(method, "OK" if failed is None else code_of(failed), seconds)
        is_notable = failed is not None or seconds > self.slow.now or method in ADMINISTRATIVE
        if is_notable and not self.quiet:
            log.info("call", **_fields(method, request, answer, failed, seconds))
        elif log.is_enabled_for(DEBUG):  # the fields cost more than the check
            log.debug("call", **_fields(method, request, answer, failed, seconds))


def code_of(failed: status_pb2.Status) -> str:
    """Return the name of a failure's code."""
    return _NAMES[failed.code]


def _fields(
    method: str,
    request: object,
    answer: ProtoMessage | None,
    failed: status_pb2.Status | None,
    seconds: float,
) -> dict[str, Any]:
    """Return the fields of a call's line."""
    code = "OK" if failed is None else code_of(failed)
    fields: dict[str, Any] = {"method": method, "code": code, "ms": int(seconds * 100_000) / 100}
    conversation = getattr(request, "conversation_id", "") or _conversation_of(answer)
    if conversation:
        fields["conversation"] = conversation[:64]
    elif communication := getattr(request, "communication_id", ""):
        fields["communication"] = communication[:64]
    if failed is not None:
        fields["reason"] = failed.message[:300]
    return fields


def _conversation_of(answer: ProtoMessage | None) -> str:
    """Return the id of the conversation in an answer, or in a part of it; empty if there is
    none.
    """
    for name in ("conversation", "command_reply"):
        part: Any = getattr(answer, name, None)
        if conversation_id := getattr(part, "id", "") or getattr(
            getattr(part, "conversation", None), "id", ""
        ):
            return str(conversation_id)
    return ""
