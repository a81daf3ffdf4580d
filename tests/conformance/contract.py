"""The contract as its readers have it: the calls from the descriptors, and what the comments in
`proto/` say of errors.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from recollect_server.contract.server import SERVICES

FOLDER = Path(__file__).parents[2] / "proto" / "recollect" / "v1"
_TEXT = "\n".join(path.read_text() for path in sorted(FOLDER.glob("*.proto")))
_REASON = re.compile(r"ERROR_REASON_(\w+)")

METHODS: dict[str, MethodDescriptor] = {
    f"{service.name}/{method.name}": method for service in SERVICES for method in service.methods
}
"""Every call, by the name that a case has."""

FILTERS = {"RecallService/Search", "RecallService/ListTierTransitions"}
"""Calls whose `conversation_id` is a filter: of one that is not there nothing is found, and nothing
fails.
"""

MAKES = "ConversationService/Create", "AdminService/CreateToken"
"""Calls whose `conversation_id` is that of a new conversation, or may be."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason of an error in `error.proto`: its text, which begins with the code."""

    name: str
    comment: str

    @property
    def code(self) -> str:
        """The name of the gRPC code."""
        return self.comment.partition(".")[0]

    @property
    def metadata(self) -> tuple[str, ...]:
        """The members of ErrorInfo's metadata."""
        words = re.sub(r"\(.*?\)", "", self.comment.partition("Metadata:")[2].partition(".")[0])
        return tuple(re.findall(r"`(\w+)`", words))

    @property
    def answered(self) -> bool:
        """Return whether this version uses the reason."""
        return "Not answered by this version" not in self.comment and self.name != "UNSPECIFIED"

    @property
    def passes(self) -> bool:
        """Return whether RetryInfo gives the time of the next try."""
        return "RetryInfo" in self.comment


def reasons() -> dict[str, Reason]:
    """Return the reasons by name, without the enum's prefix."""
    matches = re.findall(
        r"((?: *//.*\n)+) *ERROR_REASON_(\w+) = \d+;", _block("enum", "ErrorReason")
    )
    return {name: Reason(name, _words(comment)) for comment, name in matches}


def reasons_of(rpc: str) -> set[str]:
    """Return the reasons with which a call may fail, by its fields (see the comment of ErrorReason)
    and by its own comments.
    """
    method = METHODS[rpc]
    texts = {
        field.name
        for field in method.input_type.fields
        if field.type == FieldDescriptor.TYPE_STRING and not field.is_repeated
    }
    names = {"INVALID_FIELD"} if method.input_type.fields else set()
    if "request_id" in texts:
        names.add("REQUEST_ID_REUSED")
    if "page_token" in texts:
        names.add("INVALID_PAGE_TOKEN")
    if rpc not in (*FILTERS, *MAKES) and any(name.endswith("conversation_id") for name in texts):
        names |= {"CONVERSATION_NOT_FOUND", "DATA_DAMAGED"}
    if texts & {"communication_id", "escalation_id"}:
        names.add("NOT_FOUND")
    return names | set(_REASON.findall(_comment_of(method)))


def _comment_of(method: MethodDescriptor) -> str:
    """Return the comments before a call, and before and in its request."""
    service = _block("service", method.containing_service.name)
    call = re.search(rf"((?: *//.*\n)+) *rpc {method.name}\(", service)
    assert call is not None
    return call[1] + _block("message", method.input_type.name)


def _block(kind: str, name: str) -> str:
    """Return a service or a message with the comment before it."""
    before, _, behind = _TEXT.partition(f"\n{kind} {name} {{")
    assert behind
    return before.rpartition("\n\n")[2] + behind.partition("\n}\n")[0]


def _words(comment: str) -> str:
    return " ".join(line.strip().removeprefix("//").strip() for line in comment.splitlines())
