"""Rules of fields, as the contract has them in its option `rule`: compiled once for each type of
request.

A check gets the path of what it looks at and its value, and records what is wrong, so that a caller
learns all of it at once. Unset fields cost nothing unless something is required of them. What a
rule cannot say (fields that go together, settings) is in `checks`.
"""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from recollect.v1 import rule_pb2

from recollect_server.kernel.domain.errors import InvalidField, Violation
from recollect_server.kernel.domain.time import DAY, Clock
from recollect_server.text.text import breaks_line

# as JSON spells it; a text that spells it itself has one backslash more
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
# a text is one match, so that what is in it does not count
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
_PART = re.compile(r"(\w+)(?:\[(\d+)\])?")


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """Size limits of messages and batches, in bytes."""

    message_bytes: int = 1 << 20
    batch_bytes: int = 8 << 20


@dataclass(slots=True)
class Checks:
    """Collects what is wrong with a request, so that a caller learns all of it at once."""

    limits: SizeLimits
    clock: Clock
    violations: list[Violation] = field(default_factory=list)

    def refuse(self, name: str, description: str) -> None:
        """Record that a field is wrong."""
        self.violations.append(Violation(name, description))

    def error(self, described: Descriptor) -> InvalidField:
        """Return the error that names what is wrong, in the order of the fields in the request's
        type.
        """
        return InvalidField(*sorted(self.violations, key=lambda it: _place(described, it.field)))


Check = Callable[[Checks, str, Any], None]
"""Checks a value; gets its path."""


def _place(described: Descriptor | None, path: str) -> tuple[int, ...]:
    """Return what orders the fields of a type by their paths."""
    place: list[int] = []
    for name, index in _PART.findall(path):
        part = described.fields_by_name.get(name) if described is not None else None
        place += (sys.maxsize if part is None else part.index, int(index or 0))
        described = None if part is None else part.message_type
    return tuple(place[:-1])  # what is wrong with one list stays in the order of its checks


def rule_of(of: FieldDescriptor) -> rule_pb2.Rule:
    """Return the rule of a field; an empty one if it has none."""
    return of.GetOptions().Extensions[rule_pb2.rule]


@cache
def rules_of(described: Descriptor) -> Check | None:
    """Return the check of the fields of a type; None if none has a rule."""
    checks = {it.number: one for it in described.fields if (one := _of_field(it)) is not None}
    # The path of what stands in a message of ours, but for lists, which name their entries.
    names = {
        it.number: it.name + "." * (_is_ours(it) and not it.is_repeated) for it in described.fields
    }
    required = [(it.name, checks[it.number]) for it in described.fields if _is_required(it)]
    spans = [(first, it.name) for it in described.fields if (first := rule_of(it).after)]
    beside = [(it, other) for it in described.fields if (other := rule_of(it).only_with)]
    others = [(it.name, other) for it in described.fields if (other := rule_of(it).in_place_of)]
    if not checks:
        return None

    def check(to: Checks, path: str, value: Any) -> None:
        for it, part in value.ListFields():
            if (rule := checks.get(it.number)) is not None:
                rule(to, path + names[it.number], part)
        for name, missing in required:
            if not (part := getattr(value, name)):
                missing(to, path + name, part)
        for first, last in spans:
            if value.HasField(first) and value.HasField(last):
                begin, end = getattr(value, first), getattr(value, last)
                if (begin.seconds, begin.nanos) >= (end.seconds, end.nanos):
                    to.refuse(f"{path}{last}", f"is not after {path}{first}")
        for it, other in beside:
            if getattr(value, it.name) and not getattr(value, other):
                verb = "go" if it.is_repeated else "goes"
                to.refuse(f"{path}{it.name}", f"{verb} with `{other}` alone")
        for name, other in others:
            if not (getattr(value, name) or getattr(value, other)):
                to.refuse(f"{path}{name}", f"is required where {other} is unset")

    return check


def _is_required(of: FieldDescriptor) -> bool:
    rule = rule_of(of)
    if of.is_repeated:
        return rule.min_items > 0
    return not of.has_presence and (
        rule.required or rule.not_blank or rule.min_chars > 0 or rule.minimum > 0
    )


def _of_field(of: FieldDescriptor) -> Check | None:
    """Return the check of a field; None if it has no rule."""
    rule = rule_of(of)
    one, dot = _of_value(of, rule), "." if _is_ours(of) else ""
    if not of.is_repeated:
        return one
    if one is None and rule == rule_pb2.Rule():
        return None
    least, most, unique = rule.min_items, rule.max_items or sys.maxsize, rule.unique
    allowed = f"{least} to {most}" if least else f"at most {most}"

    def check_list(to: Checks, path: str, values: Sequence[Any]) -> None:
        if not least <= len(values) <= most:
            to.refuse(path, f"has {len(values)} entries; {allowed} are allowed")
            if dot:
                return
        if one is not None:
            for index, value in enumerate(values[:most] if len(values) > most else values):
                one(to, f"{path}[{index}]{dot}", value)
        if unique and len(set(values)) != len(values):
            to.refuse(path, unique)

    return check_list


def _is_ours(of: FieldDescriptor) -> bool:
    """Return whether a field has messages of the contract; the path of their fields has a dot."""
    return of.message_type is not None and of.message_type.file.package == "recollect.v1"


def _of_value(of: FieldDescriptor, rule: rule_pb2.Rule) -> Check | None:
    if (described := of.message_type) is not None:
        if described.full_name == Timestamp.DESCRIPTOR.full_name:
            return _time(rule)
        if described.full_name == Struct.DESCRIPTOR.full_name:
            return _json(rule)
        return rules_of(described) if _is_ours(of) else None
    if rule == rule_pb2.Rule():
        return None
    if of.enum_type is not None:
        return _enum(of.enum_type, rule)
    return _text(rule, of.is_repeated) if of.type == of.TYPE_STRING else _number(rule)


def _text(rule: rule_pb2.Rule, is_entry: bool) -> Check:
    if rule.form:
        return _form(rule.form, rule.required or is_entry)
    least, most, most_bytes = rule.min_chars, rule.max_chars or sys.maxsize, rule.max_bytes
    trimmed, one_line, not_blank = rule.trimmed, rule.one_line, rule.not_blank
    is_plain = not (trimmed or one_line or not_blank or most_bytes)

    def check(to: Checks, name: str, value: str) -> None:
        if is_plain and least <= len(value) <= most and "\0" not in value:
            return
        if trimmed:
            value = value.strip()
        if not_blank and not value.strip():
            to.refuse(name, "is empty")
        elif not least <= len(value) <= most:
            to.refuse(name, f"has {len(value)} characters; {least} to {most} are allowed")
        elif most_bytes and (size := len(value.encode())) > most_bytes:
            to.refuse(name, f"has {size} bytes; at most {most_bytes} are allowed")
        elif "\0" in value:
            to.refuse(name, "holds the character NUL")
        if one_line and breaks_line(value.replace("\0", "")):
            to.refuse(name, "has control characters or line ends; a name stands on one line")

    return check


def _form(form: "rule_pb2.Form.ValueType", required: bool) -> Check:
    options = rule_pb2.Form.DESCRIPTOR.values_by_number[form].GetOptions()
    it = options.Extensions[rule_pb2.pattern]
    matches = re.compile(it.regex, re.UNICODE if it.any_script else re.ASCII).fullmatch
    most, lower = it.max_chars or sys.maxsize, it.any_script

    def check(to: Checks, name: str, value: str) -> None:
        if not matches(value) or len(value) > most or (lower and value != value.lower()):
            if value or not it.missing:
                if value or required:
                    to.refuse(name, it.wrong.replace("{value}", repr(value[:40])))
            elif required:
                to.refuse(name, it.missing)

    return check


def _number(rule: rule_pb2.Rule) -> Check:
    low, high = rule.minimum, rule.maximum if rule.HasField("maximum") else sys.float_info.max

    def check(to: Checks, name: str, value: float) -> None:
        if low <= value <= high:
            return
        if rule.HasField("maximum"):
            reason = f"it must be from {low:g} to {high:g}"
        elif rule.counted:
            reason = f"{rule.counted} begin with {low:g}"
        else:
            reason = f"it must {'not be negative' if value < 0 else 'be a finite number'}"
        to.refuse(name, f"is {value}; {reason}")

    return check


def _enum(enum: EnumDescriptor, rule: rule_pb2.Rule) -> Check:
    *others, last = (it.name for it in enum.values if it.number)
    numbers = frozenset(enum.values_by_number)

    def check(to: Checks, name: str, value: int) -> None:
        if value in numbers and (value or not rule.required):
            return
        if not value:
            to.refuse(name, f"is required: {', '.join(others)} or {last}")
        elif rule.unknown:
            to.refuse(name, rule.unknown.replace("{value}", str(value)))

    return check


def _time(rule: rule_pb2.Rule) -> Check:
    not_ahead = rule.not_ahead

    def check(to: Checks, name: str, value: Timestamp) -> None:
        if not 0 <= value.nanos < 1_000_000_000 or not 0 <= value.seconds < 253_402_300_800:
            to.refuse(name, "is not a time from 1970 to 9999")
        elif value.seconds == 0 and value.nanos < 1_000_000:
            to.refuse(name, "is 1970-01-01T00:00:00Z: leave it unset if the time is not known")
        elif not_ahead and value.seconds * 1000 > to.clock() + DAY:
            to.refuse(name, "is more than a day ahead of the server's clock")

    return check


def _json(rule: rule_pb2.Rule) -> Check:
    most, deepest = rule.max_bytes, rule.max_depth

    def check(to: Checks, name: str, value: Struct) -> None:
        # Bytes of a Struct that are surely more JSON than that: a number has 11 of them, and 2 as
        # JSON. To write so much JSON takes a second.
        if value.ByteSize() > 6 * most:
            to.refuse(name, f"is larger than {most} bytes as JSON")
            return
        try:
            text = json_format.MessageToJson(value, indent=None)
        except (json_format.SerializeToJsonError, ValueError) as error:
            # ValueError: a number that is not finite
            to.refuse(name, f"is not JSON: {error}")
            return
        if _depth(text) > deepest:
            to.refuse(name, f"is nested deeper than {deepest} levels")
        elif (size := len(text.encode())) > most:
            to.refuse(name, f"has {size} bytes as JSON; at most {most} are allowed")
        elif _NUL.search(text):
            to.refuse(name, "holds the character NUL")

    return check


def _depth(json: str) -> int:
    """Return how many levels of objects and lists a JSON text has."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(json):
        depth += 1 if bracket in "[{" else -1 if bracket in "]}" else 0
        deepest = max(deepest, depth)
    return deepest
