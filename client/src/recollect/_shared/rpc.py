"""A method of the contract, and one call of it, before anybody has decided how to send it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message import Message

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Answer = TypeVar("Answer", covariant=True)


class Method(Generic[Request, Response]):
    """A method of the contract: its path, how to write its request and read its response."""

    def __init__(
        self,
        service: ServiceDescriptor,
        name: str,
        request: type[Request],
        response: type[Response],
    ) -> None:
        descriptor = service.methods_by_name[name]
        if (descriptor.input_type, descriptor.output_type) != (
            request.DESCRIPTOR,
            response.DESCRIPTOR,
        ):
            raise TypeError(
                f"{descriptor.full_name} does not take {request} or does not answer {response}"
            )
        self.path = f"/{service.full_name}/{name}"
        self.serialize: Callable[[Request], bytes] = request.SerializeToString
        self.parse: Callable[[bytes], Response] = response.FromString
        level = descriptor.GetOptions().idempotency_level
        self.changes_nothing = level == MethodOptions.NO_SIDE_EFFECTS
        self.has_own_key = (
            level == MethodOptions.IDEMPOTENT
            and "request_id" not in request.DESCRIPTOR.fields_by_name
        )
        """True if the server knows a repeated request by other fields, as PublishDelta's `offset`.
        """


@dataclass(frozen=True, slots=True)
class Call(Generic[Request, Response, Answer]):
    """One call: what to send, and what to make of the answer."""

    method: Method[Request, Response]
    request: Request
    read: Callable[[Response], Answer]

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
