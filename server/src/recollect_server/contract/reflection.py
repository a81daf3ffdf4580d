"""Server reflection, grpc.reflection.v1 and v1alpha: what grpcurl and its like ask, on streams that
hold no thread while they are idle.

The answers are those of grpcio-reflection, whose own handler keeps a thread of the pool as long as
a stream is open, and which knows v1alpha alone. Both have the same messages but for the package.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, cast

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from google.rpc import status_pb2
from grpc_reflection.v1alpha import reflection_pb2 as pb
from grpc_reflection.v1alpha.reflection import ReflectionServicer

from recollect_server.contract.errors import malformed
from recollect_server.contract.handling import (
    NO_RULES,
    Admit,
    Call,
    CallLog,
    Rules,
    Send,
    streaming,
)
from recollect_server.contract.held import HeldStream, HeldStreams
from recollect_server.contract.pool import ask_for_request
from recollect_server.contract.wire import Malformed, inflate


def _service_v1() -> ServiceDescriptor:
    """Return the service of v1: that of v1alpha in another package."""
    file = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    file.name, file.package = "grpc/reflection/v1/reflection.proto", "grpc.reflection.v1"
    fields = [field for message in file.message_type for field in message.field]
    for field in filter(lambda it: it.type_name, fields):
        field.type_name = field.type_name.replace(".v1alpha.", ".v1.")
    for method in file.service[0].method:
        method.input_type = method.input_type.replace(".v1alpha.", ".v1.")
        method.output_type = method.output_type.replace(".v1alpha.", ".v1.")
    pool = descriptor_pool.Default()
    pool.Add(file)
    return pool.FindServiceByName(f"{file.package}.ServerReflection")


SERVICES = (
    _service_v1(),
    cast(ServiceDescriptor, pb.DESCRIPTOR.services_by_name["ServerReflection"]),
)
"""Newest first, as clients ask."""

MAX_REQUEST_BYTES = 64 << 10
"""Limit of one request: it names a file, a symbol or an extension."""

_CALLS = CallLog(quiet=True)
_MAX_STREAMS = 1000


class _Stream(HeldStream):
    """A stream: one request at a time is taken from it, answered, and then the next one is asked
    for.
    """

    def __init__(self, reflection: "Reflection", requests: object, call: Call, send: Send) -> None:
        super().__init__(call, send)
        self._reflection = reflection
        self._requests = requests
        self._request: bytes | None = None

    def listen(self) -> None:
        """Ask for the next request."""
        ask_for_request(self._requests, self._reflection.pool, self._take)

    def advance(self, send: Callable[[bytes], None]) -> bool:
        data, self._request = self._request, None
        if data is None:
            return False
        try:
            request = pb.ServerReflectionRequest.FromString(inflate(data, MAX_REQUEST_BYTES))
        except Malformed as error:
            self.ending = malformed(*error.args)
            return False
        except DecodeError as error:
            self.ending = malformed(f"the request is not a ServerReflectionRequest: {error}", "")
            return False
        send(self._reflection.answer(request))
        if self.ending is None:
            self.listen()
        return True

    def _take(self, data: bytes | None) -> None:
        if data is None:
            self.ending = self.ending or status_pb2.Status()
        else:
            self._request = data
        self._reflection.streams.wake((self,))


class Reflection:
    """The open reflection streams. Safe to call from any thread."""

    def __init__(
        self, names: list[str], pool: ThreadPoolExecutor, admit: Admit, rules: Rules = NO_RULES
    ) -> None:
        """`names`: the services that are listed. `pool` opens the streams of callers that `admit`
        lets in, by `rules`.
        """
        self._rules = rules
        self.pool = pool
        self._admit = admit
        self.streams = HeldStreams[_Stream](_MAX_STREAMS, "reflection streams")
        self._servicer: Any = ReflectionServicer(names)

    def handlers(self, service: ServiceDescriptor) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
        method: MethodDescriptor = service.methods_by_name["ServerReflectionInfo"]
        return {
            method.name: streaming(
                method,
                pb.ServerReflectionRequest,
                self._admit,
                self._open,
                self.pool,
                _CALLS,
                MAX_REQUEST_BYTES,
                self._rules,
            )
        }

    def answer(self, request: pb.ServerReflectionRequest) -> bytes:
        """Return the answer to a request. The file of a method is that of its service: protobuf's
        pool finds no symbol of a method.
        """
        lookup = pb.ServerReflectionRequest()
        lookup.CopyFrom(request)
        service, _, method = request.file_containing_symbol.rpartition(".")
        if method and _has_method(service, method):
            lookup.file_containing_symbol = service
        answer: pb.ServerReflectionResponse
        (answer,) = self._servicer.ServerReflectionInfo(iter((lookup,)), None)
        answer.original_request.CopyFrom(request)
        if answer.HasField("file_descriptor_response"):  # to change it would take another's place
            files = answer.file_descriptor_response.file_descriptor_proto
            files[:] = map(_with_json_names, files)
        return answer.SerializeToString()

    def _open(self, requests: object, call: Call, send: Send) -> None:
        self.streams.begin(lambda: _Stream(self, requests, call, send)).listen()


@lru_cache(maxsize=128)
def _with_json_names(serialized: bytes) -> bytes:
    """Return a file whose fields have their names in JSON. Python's generated code leaves them out,
    and older tools do not derive them: grpcurl 1.8 would print `create_time`, and newer ones
    `createTime`.
    """
    file = FileDescriptorProto.FromString(serialized)
    messages: list[DescriptorProto] = [*file.message_type]
    while messages:
        message = messages.pop()
        messages += message.nested_type
        for field in message.field:
            first, *others = field.name.split("_")
            field.json_name = field.json_name or first + "".join(
                it[:1].upper() + it[1:] for it in others
            )
    return file.SerializeToString()


def _has_method(service: str, method: str) -> bool:
    try:
        descriptor = descriptor_pool.Default().FindServiceByName(service)
    except KeyError:
        return False
    return method in descriptor.methods_by_name
