"""The driver of the Python client: does what a line of JSON says, and answers with a line, as those
of the clients in other languages do.

Requests are compressed, and pings sent, over a channel of the generated code: the client has no
option for either.
"""

import importlib
import json
import os
import pkgutil
import sys
import threading
from typing import Any

import grpc
import recollect.v1
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from recollect._shared import channel
from recollect._shared.failures import failure


class Driver:
    """A channel, and its open watch."""

    def __init__(self) -> None:
        self._channel: Any = None
        self._timeout: float | None = None
        self._watch: Any = None
        self._states: list[bool] = []

    def do(self, it: dict[str, Any]) -> Any:
        """Do what a command says and return its answer."""
        if "connect" in it:
            options = it.get("options", {})
            self._timeout = options.get("timeoutMs", 30_000) / 1000
            arguments = dict(channel.CHANNEL_OPTIONS)
            if "pingMs" in options:
                arguments["grpc.keepalive_time_ms"] = options["pingMs"]
                arguments["grpc.http2.max_pings_without_data"] = 0
            self._channel = grpc.insecure_channel(
                it["connect"],
                options=[*arguments.items()],
                compression=grpc.Compression.Gzip if options.get("gzip") else None,
            )
        if "call" in it:
            return self._call(it)
        if it.get("connections"):
            return self._states
        if it.get("watch"):
            self._watch, self._states = self._begin("ConversationService/StreamUpdates", it), []
            self._states.append(True)
        return self._updates(it["until"]) if "until" in it else []

    def _call(self, it: dict[str, Any]) -> Any:
        call = self._begin(it["call"], it)
        if "cancelAfterMs" in it:
            threading.Timer(it["cancelAfterMs"] / 1000, call.cancel).start()
        return json_format.MessageToDict(call.result(), preserving_proto_field_name=True)

    def _begin(self, name: str, it: dict[str, Any]) -> Any:
        service, method = name.split("/")
        for module in pkgutil.iter_modules(recollect.v1.__path__):
            code = importlib.import_module(f"recollect.v1.{module.name}")
            if stub := getattr(code, f"{service}Stub", None):
                messages = importlib.import_module(code.__name__.removesuffix("_grpc"))
                described: MethodDescriptor = messages.DESCRIPTOR.services_by_name[
                    service
                ].methods_by_name[method]
                request = getattr(messages, described.input_type.name)()
                message = json_format.ParseDict(it.get("request", {}), request)
                begin = getattr(stub(self._channel), method)
                if described.server_streaming:
                    return begin(message)
                return begin.future(message, timeout=self._timeout)
        raise LookupError(name)

    def _updates(self, until: str) -> list[Any]:
        taken: list[Any] = []
        for answer in self._watch:
            for update in (answer.update, *answer.following):
                kind = update.WhichOneof("kind") or ""
                if kind == "heartbeat":
                    continue
                fields = json_format.MessageToDict(update, preserving_proto_field_name=True)
                taken.append(fields)
                if update.DESCRIPTOR.fields_by_name[kind].json_name == until:
                    return taken
        return taken


def _failed(error: grpc.RpcError) -> dict[str, Any]:
    read = failure(error)
    return {
        "name": "RecollectError",
        "code": read.code,
        "reason": (read.reason or "").removeprefix("ERROR_REASON_") or None,
        "message": str(read),
        "violations": [
            {"field": it.field, "description": it.description} for it in read.violations
        ],
        "retryAfterMs": read.retry_delay and round(read.retry_delay * 1000),
    }


driver = Driver()
for line in sys.stdin:
    try:
        answer = {"answer": driver.do(json.loads(line))}
    except grpc.FutureCancelledError:
        answer = {"error": {"name": "AbortError"}}
    except grpc.RpcError as error:
        answer = {"error": _failed(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
os._exit(0)
