"""Reads `grpc-status-details-bin`: the details that the server sends with an error.

The messages are google.rpc.Status, ErrorInfo, BadRequest and RetryInfo. Their generated code is in
a distribution that the client does without, so the few fields that it needs are described here, in
a descriptor pool of its own and under names of its own: nothing collides with
googleapis-common-protos where that is installed. Only field numbers matter.
"""

from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from recollect.errors import FieldViolation

_INT32, _INT64 = FieldDescriptorProto.TYPE_INT32, FieldDescriptorProto.TYPE_INT64
_STRING, _BYTES = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES
_ONE, _MANY = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED

# A field's type is a scalar or the name of a message. A map is, on the wire, a repeated message of
# key and value.
_MESSAGES: dict[str, list[tuple[str, int, FieldDescriptorProto.Label.ValueType, Any]]] = {
    "Any": [("type_url", 1, _ONE, _STRING), ("value", 2, _ONE, _BYTES)],
    "Status": [
        ("code", 1, _ONE, _INT32),
        ("message", 2, _ONE, _STRING),
        ("details", 3, _MANY, "Any"),
    ],
    "MapEntry": [("key", 1, _ONE, _STRING), ("value", 2, _ONE, _STRING)],
    "ErrorInfo": [
        ("reason", 1, _ONE, _STRING),
        ("domain", 2, _ONE, _STRING),
        ("metadata", 3, _MANY, "MapEntry"),
    ],
    "FieldViolation": [("field", 1, _ONE, _STRING), ("description", 2, _ONE, _STRING)],
    "BadRequest": [("field_violations", 1, _MANY, "FieldViolation")],
    "Duration": [("seconds", 1, _ONE, _INT64), ("nanos", 2, _ONE, _INT32)],
    "RetryInfo": [("retry_delay", 1, _ONE, "Duration")],
}


def _make_classes() -> dict[str, Any]:
    file = FileDescriptorProto(
        name="recollect/private/status.proto", package="recollect.private", syntax="proto3"
    )
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for name, number, label, kind in fields:
            described = message.field.add(name=name, number=number, label=label)
            if isinstance(kind, str):
                described.type, described.type_name = (
                    FieldDescriptorProto.TYPE_MESSAGE,
                    f".recollect.private.{kind}",
                )
            else:
                described.type = kind
    pool = DescriptorPool()
    pool.Add(file)
    return {
        name: GetMessageClass(pool.FindMessageTypeByName(f"recollect.private.{name}"))
        for name in _MESSAGES
    }


_CLASSES = _make_classes()


@dataclass(frozen=True, slots=True)
class Details:
    """The details of an error beyond its code and its text."""

    reason: str = ""
    """The reason of an ErrorInfo of the domain `recollect`. Empty if there was none."""
    metadata: dict[str, str] = field(default_factory=dict)
    """That ErrorInfo's metadata."""
    violations: tuple[FieldViolation, ...] = ()
    """The fields that BadRequest names."""
    retry_delay: float | None = None
    """The seconds of RetryInfo, never negative."""


def read_details(data: bytes) -> Details:
    """Read the value of `grpc-status-details-bin`. Unreadable parts are left out: the error itself
    matters more.
    """
    reason, metadata, violations, retry_delay = "", {}, [], None
    try:
        for detail in _CLASSES["Status"].FromString(data).details:
            match detail.type_url.rpartition("/")[2]:
                case "google.rpc.ErrorInfo":
                    info = _CLASSES["ErrorInfo"].FromString(detail.value)
                    if info.domain == "recollect":
                        reason = info.reason
                        metadata = {entry.key: entry.value for entry in info.metadata}
                case "google.rpc.BadRequest":
                    bad_request = _CLASSES["BadRequest"].FromString(detail.value)
                    violations += [
                        FieldViolation(it.field, it.description)
                        for it in bad_request.field_violations
                    ]
                case "google.rpc.RetryInfo":
                    delay = _CLASSES["RetryInfo"].FromString(detail.value).retry_delay
                    retry_delay = max(0.0, delay.seconds + delay.nanos / 1e9)
    except DecodeError:
        pass
    return Details(reason, metadata, tuple(violations), retry_delay)


def raw_details(data: bytes) -> list[tuple[str, bytes]]:
    """Return the type names and the encoded messages of `grpc-status-details-bin`, in order. What
    cannot be read is left out.
    """
    try:
        status = _CLASSES["Status"].FromString(data)
    except DecodeError:
        return []
    return [(detail.type_url.rpartition("/")[2], detail.value) for detail in status.details]
