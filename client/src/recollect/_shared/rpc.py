"""A method of the contract, and one call of it, before anybody has decided how to send it."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message_factory import GetMessageClass

from recollect._shared.fill import fill

Answer = TypeVar("Answer", covariant=True)


class Service:
    """A service of the contract: it has methods by their names."""

    def __init__(self, file: FileDescriptor, name: str) -> None:
        self._descriptor = file.services_by_name[name]

    def method(self, name: str, read: Callable[[Any], Answer]) -> "Method[Answer]":
        """Return a method, whose answers `read` turns into plain types."""
        return Method(self._descriptor.methods_by_name[name], read)


class Method(Generic[Answer]):
    """A method of the contract: its path, how to write its request and read its response. Called
    with the fields of a request it gives the call of that request.
    """

    def __init__(self, descriptor: MethodDescriptor, read: Callable[[Any], Answer]) -> None:
        self._request: Any = GetMessageClass(descriptor.input_type)
        self.read = read
        self.path = f"/{descriptor.containing_service.full_name}/{descriptor.name}"
        self.serialize: Callable[[Any], bytes] = self._request.SerializeToString
        self.response: Any = GetMessageClass(descriptor.output_type)
        self.parse: Callable[[bytes], Any] = self.response.FromString
        level = descriptor.GetOptions().idempotency_level
        self.changes_nothing = level == MethodOptions.NO_SIDE_EFFECTS
        self.has_own_key = (
            level == MethodOptions.IDEMPOTENT
            and "request_id" not in descriptor.input_type.fields_by_name
        )
        """True if the server knows a repeated request by other fields, as PublishDelta's `offset`.
        """

    def __call__(self, **values: object) -> "Call[Answer]":
        """Return the call with these fields; None leaves one unset. A `request_id` of None becomes
        a new one: with an id the server stores nothing twice, so the client may repeat the call.
        Raises InvalidArgument.
        """
        if "request_id" in values and values["request_id"] is None:
            values["request_id"] = uuid.uuid4().hex
        return Call(self, fill(self._request(), **values), self.read)


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """One call: what to send, and what to make of the answer."""

    method: Method[Answer]
    request: Any
    read: Callable[[Any], Answer]

    @property
    def may_be_repeated(self) -> bool:
        """Return whether repeating the call does no harm: it changes nothing, or the server knows
        it by its `request_id` or another key.
        """
        method = self.method
        return (
            method.changes_nothing
            or method.has_own_key
            or bool(getattr(self.request, "request_id", ""))
        )
