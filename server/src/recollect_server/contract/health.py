"""The standard health service, grpc.health.v1.Health: whether the server serves, and which parts of
it answer less than they could.

The names are the empty one for the server, those of its services, and `SERVICE/PART` for a part
that may be degraded while its service answers. A part that is degraded is NOT_SERVING; the server
and its services stay SERVING, and the trailing metadata of Check names the parts and the reasons.

grpc_health's own servicer is not used: it sends while it holds its lock, and grpcio's only event
thread waits for that lock when a watch is cancelled, so that a few watches stop the whole server
for good (grpc/grpc pull request 43403).
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import grpc
import structlog
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2 as pb

from recollect_server.contract.handling import Call, CallLog, Send, admit_anybody, streaming, unary
from recollect_server.contract.held import HeldStream, HeldStreams
from recollect_server.kernel.domain.errors import NothingNamed

if TYPE_CHECKING:
    from recollect_server.contract.plain_http import Page

log = structlog.get_logger("recollect.health")

SERVICE = cast(ServiceDescriptor, pb.DESCRIPTOR.services_by_name["Health"])

DEGRADED = "recollect-degraded"
"""The key in Check's trailing metadata; each value is `PART: reason`."""

Degraded = Callable[[], Mapping[str, str]]
"""Returns why each part of a service is degraded, by its name; an empty reason for one that is
not.
"""

_CALLS = CallLog(quiet=True)
_LOOK_SECONDS = 0.5  # between two looks at the parts, for those who watch
_REASON_LENGTH = 300
_MAX_REQUEST = 4 << 10  # bytes: it has the name of a service, and nobody shows a token for it


class _Watch(HeldStream):
    """A watch of one name: what is sent is always the newest status."""

    def __init__(self, health: "Health", name: str, call: Call, send: Send) -> None:
        super().__init__(call, send)
        self._health = health
        self.name = name
        self._sent: int | None = None

    def advance(self, send: Callable[[bytes], None]) -> bool:
        status = self._health.status(self.name)
        status = pb.HealthCheckResponse.SERVICE_UNKNOWN if status is None else status
        if status == self._sent:
            return False
        self._sent = status
        send(pb.HealthCheckResponse(status=status).SerializeToString())
        return True


class Health:
    """The health of the server and of its services, and who watches it. Safe to call from any
    thread.
    """

    def __init__(self, names: list[str], parts: Mapping[str, Degraded], max_watches: int) -> None:
        """`names`: the server's services; `parts`: those of some of them. Nothing serves until
        `serve` is called.
        """
        self._names = ("", *names)
        self._parts = parts
        # guards the statuses while they change; nothing is sent or asked under it
        self._guard = threading.Lock()
        self._statuses: dict[str, int] = dict.fromkeys(
            self._names, pb.HealthCheckResponse.NOT_SERVING
        )
        self._watches = HeldStreams[_Watch](max_watches, "watches of health")
        self._awake = threading.Event()  # somebody watches, or it is to end
        self._stopping = threading.Event()
        self._follower = threading.Thread(target=self._follow, name="health", daemon=True)

    def handlers(self, pool: ThreadPoolExecutor) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
        """Return the methods of the service; `pool` runs them."""
        handlers = {"Check": self._check, "List": self._list}  # older versions have no List
        return {
            method.name: streaming(
                method,
                pb.HealthCheckRequest,
                admit_anybody,
                self._watch,
                pool,
                _CALLS,
                _MAX_REQUEST,
            )
            if method.server_streaming
            else unary(
                method,
                GetMessageClass(method.input_type),
                admit_anybody,
                handlers[method.name],
                pool,
                _CALLS,
                _MAX_REQUEST,
            )
            for method in SERVICE.methods
        }

    def serve(self) -> None:
        """Report SERVING from now on."""
        self._set(dict.fromkeys(self._names, pb.HealthCheckResponse.SERVING))
        self._look()

    def leave(self) -> None:
        """Report NOT_SERVING for everything from now on: the server takes no new calls."""
        with self._guard:
            self._stopping.set()
            self._awake.set()
        if self._follower.ident is not None:
            self._follower.join()
        with self._guard:
            self._statuses = dict.fromkeys(self._statuses, pb.HealthCheckResponse.NOT_SERVING)
        self._watches.wake(self._watches.select())

    def stop(self) -> None:
        """Tell those who watch that the server leaves, and end their watches. A second time does
        nothing.
        """
        self.leave()
        self._watches.stop()

    def describe(self) -> tuple[bool, list[str]]:
        """Return whether the server serves, and a line for each name with its status, and the
        reason where a part is degraded.
        """
        degraded = {} if self._stopping.is_set() else self._look()
        status = pb.HealthCheckResponse.ServingStatus.Name
        lines = [
            f"{name}: {status(it)}" + (f": {degraded[name]}" if name in degraded else "")
            for name, it in sorted(self._statuses.items())
            if name
        ]
        return self.status("") == pb.HealthCheckResponse.SERVING, lines

    def status(self, name: str) -> int | None:
        """Return the status of a name; None if there is no such name."""
        return self._statuses.get(name)

    def _set(self, changes: "dict[str, int]") -> None:
        with self._guard:
            if self._stopping.is_set():
                return
            changed = {
                name for name, status in changes.items() if self._statuses.get(name) != status
            }
            self._statuses = self._statuses | changes
        if changed:
            self._watches.wake(self._watches.select(lambda it: it.name in changed))

    def _look(self) -> dict[str, str]:
        """Ask for the parts, note their statuses, and return those that are degraded, with the
        reasons.
        """
        try:
            parts = {
                f"{name}/{part}": reason
                for name, ask in self._parts.items()
                for part, reason in ask().items()
            }
        except Exception:  # health must answer whatever breaks
            log.exception("health_unknown")
            return {}
        serving, degraded = pb.HealthCheckResponse.SERVING, pb.HealthCheckResponse.NOT_SERVING
        self._set({name: degraded if reason else serving for name, reason in parts.items()})
        return {name: reason for name, reason in parts.items() if reason}

    def _follow(self) -> None:
        """Look at the parts as long as anybody watches; a Check looks by itself."""
        while not self._stopping.wait(_LOOK_SECONDS):
            self._look()
            self._awake.clear()
            if not self._watches.select() and not self._stopping.is_set():
                self._awake.wait()

    # The methods ----------------------------------------------------------------------------------

    def _check(self, request: pb.HealthCheckRequest, call: Call) -> pb.HealthCheckResponse:
        degraded = {} if self._stopping.is_set() else self._look()
        status = self.status(request.service)
        if status is None:
            raise NothingNamed("service", request.service[:_REASON_LENGTH])
        about = [name for name in degraded if _is_within(name, request.service)]
        call.context.set_trailing_metadata(
            tuple((DEGRADED, _as_metadata(f"{name}: {degraded[name]}")) for name in about)
        )
        return pb.HealthCheckResponse(status=status)

    def _list(self, _request: object, _call: Call) -> Message:
        if not self._stopping.is_set():
            self._look()
        statuses = {
            name: pb.HealthCheckResponse(status=status) for name, status in self._statuses.items()
        }
        answer: Message = GetMessageClass(SERVICE.methods_by_name["List"].output_type)(
            statuses=statuses
        )
        return answer

    def _watch(self, request: pb.HealthCheckRequest, call: Call, send: Send) -> None:
        self._watches.begin(lambda: _Watch(self, request.service, call, send))
        with self._guard:
            if self._follower.ident is None and not self._stopping.is_set():
                self._follower.start()
        self._awake.set()


class HealthPages:
    """Health for programs that speak no gRPC, as kubelet: `/livez` and `/readyz`."""

    def __init__(self, unready: Callable[[], str] = lambda: "") -> None:
        """`unready` returns why a server that serves should get no calls; empty if it should."""
        self._unready = unready
        self._health: Health | None = None

    def follow(self, health: Health) -> None:
        """Report the health of a server from now on: until then it starts."""
        self._health = health

    def pages(self) -> "dict[str, Page]":
        """Return the pages by their paths."""
        from recollect_server.contract.plain_http import text_page  # only where it is served

        return {"/livez": lambda _: text_page(200, "alive"), "/readyz": self._ready}

    def _ready(self, _accept: str) -> tuple[int, str, bytes]:
        from recollect_server.contract.plain_http import text_page

        if self._health is None:
            return text_page(503, "not ready: the server is starting")
        serves, lines = self._health.describe()
        reason = self._unready() if serves else "the server is stopping"
        first = f"not ready: {reason}" if reason else "ready"
        return text_page(503 if reason else 200, "\n".join([first, *lines]))


def _is_within(part: str, service: str) -> bool:
    return service in ("", part) or part.startswith(f"{service}/")


def _as_metadata(text: str) -> str:
    """Return a text as metadata may have it: printable ASCII on one line."""
    printable = (c if c.isprintable() else " " for c in text[:_REASON_LENGTH])
    return "".join(printable).encode("ascii", "backslashreplace").decode()
