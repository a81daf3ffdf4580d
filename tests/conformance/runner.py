"""Runs the cases of this folder with the generated stubs of the Python client. README.md defines
the format.

Every service of the contract is there, so a file of cases for another service needs nothing here.
"""

import importlib
import json
import math
import pkgutil
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import recollect.v1
from google.protobuf import json_format

from tests.server.conftest import Failure, failure_in

FOLDER = Path(__file__).parent
SECONDS = 60.0
_REFERENCE = re.compile(r"\$\{(\w+)\}")


class Differs(AssertionError):
    """A step did not come out as the case says."""

    def __init__(self, step: int, field: str, what: str) -> None:
        super().__init__(f"step {step}: {field}: {what}")
        self.step = step
        self.field = field
        """Path of the difference, as in `messages.0.content`, or `error`, `error.code`, …"""


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a file."""

    file: str
    name: str
    steps: list[dict[str, Any]]
    fails: str = ""
    """Path at which the case must fail. Only of the cases in `wrong/`."""


def cases(folder: Path) -> list[Case]:
    """Return the cases of every file in the folder, in order."""
    return [
        Case(file.stem, case["name"], case["steps"], case.get("fails", ""))
        for file in sorted(folder.glob("*.json"))
        for case in json.loads(file.read_text())["cases"]
    ]


def run(case: Case, channel: grpc.Channel) -> int:
    """Do one step after the other; return how many outcomes were as expected. Raises Differs."""
    count = 0
    values: dict[str, Any] = {"case": "x" + secrets.token_hex(6)}
    streams: dict[str, Any] = {}
    try:
        for number, step in enumerate(case.steps, 1):
            if "close" in step:
                streams.pop(step["close"]).cancel()
                continue
            if "rpc" in step:
                call = _call(channel, step["rpc"], _filled(step["request"], values))
                if "open" in step:
                    streams[step["open"]] = call
                    continue
            else:
                call = streams[step["read"]]
            outcome = _outcome(call, stream="read" in step)
            expected = _filled(step.get("expect", {}), values)
            for field, what in _differences(expected, outcome):
                raise Differs(number, field, what)
            count += 1
            for name, path in step.get("save", {}).items():
                values[name] = _at(outcome, path)
    finally:
        for call in streams.values():
            call.cancel()
    return count


def _call(channel: grpc.Channel, rpc: str, request: Any) -> Any:
    service, method = rpc.split("/")
    for module in pkgutil.iter_modules(recollect.v1.__path__):
        stub = getattr(
            importlib.import_module(f"recollect.v1.{module.name}"), f"{service}Stub", None
        )
        if stub is not None:
            messages = importlib.import_module(f"recollect.v1.{module.name.removesuffix('_grpc')}")
            begin = getattr(stub(channel), method)
            message = json_format.ParseDict(request, getattr(messages, f"{method}Request")())
            # a call that streams has no future
            return getattr(begin, "future", begin)(message, timeout=SECONDS)
    raise LookupError(f"the contract has no {service}")


def _outcome(call: Any, *, stream: bool) -> dict[str, Any] | Failure:
    """Return the answer as protobuf JSON, or the failure of the call."""
    try:
        while True:
            answer = next(call) if stream else call.result()
            read: dict[str, Any] = json_format.MessageToDict(
                answer, preserving_proto_field_name=True
            )
            if not stream or "heartbeat" not in read.get("update", {}):
                return read
    except grpc.RpcError as error:
        return failure_in(error)


def _differences(
    expected: dict[str, Any], outcome: dict[str, Any] | Failure
) -> Iterator[tuple[str, str]]:
    if "error" in expected:
        error = expected["error"]
        if not isinstance(outcome, Failure):
            yield "error", f"the call was answered: {outcome}"
            return
        if outcome.code != error["code"]:
            yield "error.code", f"{outcome.code} ({outcome.text})"
        if f"ERROR_REASON_{outcome.reason}" != error["reason"] or outcome.domain != "recollect":
            yield "error.reason", f"{outcome.reason} of {outcome.domain!r}"
        if "fields" in error and sorted(outcome.fields) != sorted(error["fields"]):
            yield "error.fields", str(outcome.fields)
        yield from _unlike(error.get("metadata", {}), outcome.metadata, "error.metadata")
    elif isinstance(outcome, Failure):
        yield "error", f"{outcome.code}: {outcome.text}"
    elif "answer" in expected:
        yield from _unlike(expected["answer"], outcome, "")


def _unlike(pattern: Any, value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield each path at which a value differs from the pattern, with the value there."""
    match pattern:
        case None:
            alike = value is None
        case {"$matches": expression}:
            alike = re.search(expression, value or "") is not None
        case {"$contains": parts}:
            alike = all(any(not [*_unlike(part, it, path)] for it in value or []) for part in parts)
        case {"$size": size}:
            alike = len(value or []) == size
        case {"$above": least}:
            alike = float(value or 0) > least
        case dict():
            alike = isinstance(value, dict)
            for key, part in pattern.items() if isinstance(value, dict) else ():
                yield from _unlike(part, value.get(key), f"{path}.{key}".lstrip("."))
        case list():
            alike = len(pattern) == len(value or [])
            for at, (part, it) in (
                enumerate(zip(pattern, value or [], strict=False)) if alike else ()
            ):
                yield from _unlike(part, it, f"{path}.{at}".lstrip("."))
        case bool():
            alike = bool(value) is pattern
        case int() | float():
            alike = _number(value) == pattern
        case _:
            alike = (value or "") == pattern
    if not alike:
        yield path, f"{value!r}, not {pattern!r}"


def _number(value: Any) -> float:
    """Return a number. Protobuf JSON writes one of 64 bits as text."""
    try:
        return float(value or 0)
    except (TypeError, ValueError):
        return math.nan


def _filled(value: Any, values: dict[str, Any]) -> Any:
    """Return the value with its references and repetitions replaced."""
    match value:
        case {"$repeat": [it, int(times)]}:
            return _filled(it, values) * times
        case dict():
            return {key: _filled(it, values) for key, it in value.items()}
        case list():
            return [_filled(it, values) for it in value]
        case str():
            whole = _REFERENCE.fullmatch(value)
            return (
                values[whole[1]] if whole else _REFERENCE.sub(lambda it: str(values[it[1]]), value)
            )
    return value


def _at(answer: Any, path: str) -> Any:
    for part in path.split("."):
        answer = answer[int(part)] if isinstance(answer, list) else answer[part]
    return answer
