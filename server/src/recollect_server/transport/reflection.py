"""Server reflection, grpc.reflection.v1alpha: what grpcurl and its like ask, on streams that hold
no thread while they are idle.

The answers are those of grpcio-reflection, whose own handler keeps a thread of the pool as long as
a stream is open.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError
from google.rpc import status_pb2
from grpc_reflection.v1alpha import reflection_pb2 as pb
from grpc_reflection.v1alpha.reflection import ReflectionServicer

from recollect_server.domain.errors import Unauthenticated
from recollect_server.transport.errors import malformed, status_of
from recollect_server.transport.gate import Ended
from recollect_server.transport.handling import Admit, Call, CallLog, Send, streaming
from recollect_server.transport.held import HeldStream, HeldStreams
from recollect_server.transport.pool import ask_for_request

SERVICE = cast(ServiceDescriptor, pb.DESCRIPTOR.services_by_name["ServerReflection"])

MAX_REQUEST_BYTES = 64 << 10
"""Limit of one request: it names a file, a symbol or an extension."""

_CALLS = CallLog(quiet=True)
_MAX_STREAMS = 1000


class _Stream(HeldStream):
    """A stream: one request at a time is taken from it, answered, and then the next one is asked
    for.
    """

    def __init__(self, reflection: "Reflection", requests: object, call: Call, send: Send) -> None:
        super().__init__(call.context, send)
        self.principal = call.principal
        self._reflection = reflection
        self._requests = requests
        self._request: bytes | None = None

    def listen(self) -> None:
        """Ask for the next request."""
        ask_for_request(self._requests, self._reflection.pool, self._take)

    def next(self) -> bytes | None:
        data, self._request = self._request, None
        if data is None:
            return None
        try:
            request = pb.ServerReflectionRequest.FromString(data)
        except DecodeError as error:
            self.ending = malformed(f"the request is not a ServerReflectionRequest: {error}", "")
            return None
        answer = self._reflection.answer(request)
        if self.ending is None:
            self.listen()
        return answer

    def _take(self, data: bytes | None) -> None:
        if data is None:
            self.ending = self.ending or status_pb2.Status()
        elif len(data) > MAX_REQUEST_BYTES:
            self.ending = malformed(
                f"a request has {len(data)} bytes, and may have {MAX_REQUEST_BYTES}", ""
            )
        else:
            self._request = data
        self._reflection.streams.wake((self,))


class Reflection:
    """The open reflection streams. Safe to call from any thread."""

    def __init__(self, names: list[str], pool: ThreadPoolExecutor, admit: Admit) -> None:
        """`names`: the services that are told of. `pool` opens the streams of callers that `admit`
        lets in.
        """
        self.pool = pool
        self._admit = admit
        self.streams = HeldStreams(_MAX_STREAMS, "reflection streams")
        self._servicer: Any = ReflectionServicer(names)

    def handlers(self) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
        """Return the methods of the service."""
        method: MethodDescriptor = SERVICE.methods_by_name["ServerReflectionInfo"]
        return {
            method.name: streaming(
                method, pb.ServerReflectionRequest, self._admit, self._open, self.pool, _CALLS
            )
        }

    def end(self, ended: Ended) -> None:
        """End the streams of callers that would not be admitted any more."""
        for stream in self.streams.select(lambda _: True):
            assert isinstance(stream, _Stream)
            if (reason := ended(stream.principal)) and stream.ending is None:
                stream.ending = status_of(Unauthenticated(reason))
                self.streams.wake((stream,))

    def answer(self, request: pb.ServerReflectionRequest) -> bytes:
        """Return the answer to a request."""
        answer: pb.ServerReflectionResponse
        (answer,) = self._servicer.ServerReflectionInfo(iter((request,)), None)
        return answer.SerializeToString()

    def _open(self, requests: object, call: Call, send: Send) -> None:
        stream = _Stream(self, requests, call, send)
        self.streams.open(stream)
        stream.listen()
