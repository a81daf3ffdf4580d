"""Builds the gRPC server: every service of the contract, health, reflection, limits; and stops it
without losing a call.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message_factory import GetMessageClass
from recollect.v1 import (
    access_service_pb2,
    admin_service_pb2,
    channel_service_pb2,
    checkpoint_service_pb2,
    conversation_service_pb2,
    external_communication_service_pb2,
    insight_service_pb2,
    recall_service_pb2,
)

from recollect_server.contract import health, reflection
from recollect_server.contract.admin_token_service import AccessHandlers
from recollect_server.contract.certificates import TlsFiles
from recollect_server.contract.gate import Ended, Gate
from recollect_server.contract.handling import (
    NO_RULES,
    CallLog,
    Rules,
    in_space,
    in_space_for_long,
    streaming,
    unary,
)
from recollect_server.contract.listening import Listeners
from recollect_server.contract.pool import CallPool, PoolLoad
from recollect_server.kernel.domain.live import Holder, Live
from recollect_server.kernel.domain.telemetry import UNMEASURED, Telemetry
from recollect_server.kernel.space.spaces import Spaces

SERVICES: tuple[ServiceDescriptor, ...] = (
    conversation_service_pb2.DESCRIPTOR.services_by_name["ConversationService"],
    recall_service_pb2.DESCRIPTOR.services_by_name["RecallService"],
    channel_service_pb2.DESCRIPTOR.services_by_name["ChannelService"],
    external_communication_service_pb2.DESCRIPTOR.services_by_name["ExternalCommunicationService"],
    insight_service_pb2.DESCRIPTOR.services_by_name["InsightService"],
    checkpoint_service_pb2.DESCRIPTOR.services_by_name["CheckpointService"],
    access_service_pb2.DESCRIPTOR.services_by_name["AccessService"],
    admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"],
)

# at the most: one opens the streams, unless grpcio has a thread wait for each
_REFLECTION_THREADS = 8
_COMPUTING = {
    "Search",
    "BuildContext",
    "SearchCommunications",
}  # reads that compute for long: many at once would take Python's lock from all others
_LONG = {
    "Delete",
    "DeleteMany",
    "DeleteCommunications",
    "CreateSpace",
    "DeleteSpace",
}  # writes that may take long: they do not stand in the way of the others

_LARGE = {
    "Create",
    "AppendTurn",
    "Receive",
    "RecordReply",
    "RecordCompression",
    "PublishDelta",
    "PutRecords",
    "GetRecords",
    "RemoveRecords",
    "BuildContext",
}  # methods that take long texts, or many keys: their requests may be as large as any
_USUAL_BYTES = 1 << 20  # of a request of any other method


_WRITE_THREADS = 3


@dataclass(frozen=True, slots=True)
class ServerOptions:
    addresses: tuple[str, ...]
    """Each `host:port` (port 0: any free one) or `unix:PATH`."""
    threads: int
    search_threads: int
    max_request_bytes: int
    reflection: bool
    keepalive_ms: int = 30_000
    """After so much silence a caller is asked whether it is still there, and has a third of that to
    answer.
    """
    max_watches: int = 5000
    """Watches of health that may be open."""
    slow_call: Live[float] = field(default_factory=lambda: Holder(1.0))
    """Seconds; calls that take longer are logged at `info`."""
    tls: TlsFiles | None = None
    """The certificate of the ports."""
    refusal: Callable[[], str] = lambda: ""
    """Returns why addresses beyond loopback are refused, with advice; empty if they are not."""
    data_dir: Path | None = None
    """The folder that this process has locked."""
    telemetry: Telemetry = UNMEASURED


class Server:
    """A gRPC server that is not started yet, then listens, then is stopped once."""

    def __init__(
        self,
        gate: Gate,
        spaces: Spaces[Any],
        options: ServerOptions,
        degraded: Mapping[str, health.Degraded] | None = None,
        rules: Rules = NO_RULES,
        of_no_space: Mapping[str, object] | None = None,
    ) -> None:
        """Each open space has `handlers`, an object for each service by its short name;
        `degraded` says, by the same names, which parts answer less. `of_no_space` has the handlers
        of services that serve the same whatever the space is.
        """
        self._of_no_space = {"AccessService": AccessHandlers(), **(of_no_space or {})}
        self._gate = gate
        self._spaces = spaces
        self._rules = rules
        self._options = options
        names = [service.full_name for service in SERVICES]
        parts = {
            service.full_name: degraded[service.name]
            for service in SERVICES
            if degraded and service.name in degraded
        }
        self._health = health.Health(names, parts, options.max_watches)
        self._pool = CallPool(options.threads, "call", caller_of=gate.caller_of)
        # Few, for each of many would mostly wait for Python's lock; and their own, so that no slow
        # search is in their way.
        self._writers = CallPool(_WRITE_THREADS, "write", caller_of=gate.caller_of)
        # Their own too: health checks are answered however many searches run.
        # Anybody may call it: few large requests at once.
        self._health_pool = CallPool(2, "health", ahead=16)
        self._reflection_pool = ThreadPoolExecutor(_REFLECTION_THREADS, "reflection")
        # Few as well: a write must get Python's lock between them. More of them answered no more
        # searches a second.
        self._searchers = CallPool(options.search_threads, "search", caller_of=gate.caller_of)
        self._server = _grpc_server(self._pool, options)
        for service in SERVICES:
            # Each method is known to gRPC by name, so that nothing looks for the handler at every
            # call.
            self._server.add_registered_method_handlers(service.full_name, self._methods(service))
        self._server.add_registered_method_handlers(
            health.SERVICE.full_name, self._health.handlers(self._health_pool)
        )
        names += [it.full_name for it in (health.SERVICE, *reflection.SERVICES)]
        self._reflection = (
            reflection.Reflection(
                names,
                self._reflection_pool,
                gate.admit,
                Rules(audit=rules.audit, uses=rules.uses),  # no limit counts its calls
            )
            if options.reflection
            else None
        )
        if self._reflection is not None:
            for described in reflection.SERVICES:
                self._server.add_registered_method_handlers(
                    described.full_name, self._reflection.handlers(described)
                )
        self._listeners = Listeners(
            options.addresses, options.tls, options.refusal, options.data_dir
        )

    def start(self) -> list[str]:
        """Listen, and return the addresses to call. Raises CannotListen."""
        addresses = self._listeners.open(self._server)
        self._server.start()
        self._health.serve()
        return addresses

    def end_streams(self, ended: Ended) -> None:
        """End the reflection streams of callers that would not be admitted any more."""
        if self._reflection is not None:
            self._reflection.streams.end(ended)

    def leave(self) -> None:
        """Report by the health service that no new calls are accepted. A second call does
        nothing.
        """
        self._health.leave()

    def stop(self, grace: float) -> None:
        """Take no new calls, wait up to `grace` seconds for running ones, and return when all have
        ended.
        """
        # First what would stay open for all of the grace.
        self._health.stop()
        if self._reflection is not None:
            self._reflection.streams.stop()
        self._server.stop(grace).wait()
        self._listeners.close()
        # A call that was cancelled may still run here, and what it uses is closed next.
        for pool in (
            self._pool,
            self._writers,
            self._searchers,
            self._health_pool,
            self._reflection_pool,
        ):
            pool.shutdown(wait=True)

    @property
    def health(self) -> health.Health:
        return self._health

    def loads(self) -> dict[str, PoolLoad]:
        """Return the load of each pool of threads, by its name."""
        pools = {"call": self._pool, "write": self._writers, "search": self._searchers}
        return {name: pool.load() for name, pool in pools.items()}

    def _methods(self, service: ServiceDescriptor) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        calls = CallLog(self._options.slow_call, telemetry=self._options.telemetry)
        for method in service.methods:
            request_type = GetMessageClass(method.input_type)
            admit = self._gate.admit
            most = self._options.max_request_bytes
            if method.name not in _LARGE:
                most = min(most, _USUAL_BYTES)
            if method.server_streaming:
                stream = in_space_for_long(method, self._spaces)
                methods[method.name] = streaming(
                    method, request_type, admit, stream, self._pool, calls, most, self._rules
                )
            else:
                pool = self._pool_for(method)
                of_no_space = self._of_no_space.get(service.name)
                handler = (
                    getattr(of_no_space, method.name)
                    if of_no_space is not None
                    else in_space(method, self._spaces)
                )
                methods[method.name] = unary(
                    method, request_type, admit, handler, pool, calls, most, self._rules
                )
        return methods

    def _pool_for(self, method: MethodDescriptor) -> ThreadPoolExecutor:
        if method.name in _COMPUTING:
            return self._searchers
        writes = method.GetOptions().idempotency_level == MethodOptions.IDEMPOTENT
        return self._writers if writes and method.name not in _LONG else self._pool


def _grpc_server(pool: CallPool, options: ServerOptions) -> grpc.Server:
    return grpc.server(
        pool,
        options=[
            ("grpc.max_receive_message_length", options.max_request_bytes),
            # gRPC would inflate what anybody sends, before its token is looked at (see `wire`)
            ("grpc.per_message_decompression", 0),
            ("grpc.max_send_message_length", -1),
            # else a second server binds the same port and takes half of the calls
            ("grpc.so_reuseport", 0),
            ("grpc.max_metadata_size", 16 * 1024),
            ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ("grpc.keepalive_time_ms", options.keepalive_ms),
            ("grpc.keepalive_timeout_ms", options.keepalive_ms // 3),
            # Without it a peer that is frozen, with its connection open, is noticed a minute
            # later than the keepalive says.
            ("grpc.http2.ping_timeout_ms", options.keepalive_ms // 3),
            ("grpc.keepalive_permit_without_calls", 1),
            # A thousand subscribers that come back at once are not refused at random.
            ("grpc.server.max_pending_requests", 20_000),
            ("grpc.server.max_pending_requests_hard_limit", 30_000),
        ],
    )
