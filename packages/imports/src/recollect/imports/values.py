"""Values of other products' exports, each taken as the type that its reader wants.

A value of another type is left out, and kept until the reader names it: `passed_over` takes what
came together so far. `apart` keeps what each reader leaves out for itself.
"""

import hashlib
import reprlib
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar, cast

from recollect.imports.transcript import Damaged

T = TypeVar("T")

_passed: ContextVar[dict[tuple[int, str | int], tuple[Any, str, Any]]] = ContextVar("passed")
"""By the place of each value, which readers look at more than once: what holds it (and so keeps its
id), what is wrong, and the value. Unset while a source is only recognised.
"""


def apart(steps: Iterator[T]) -> Iterator[T]:
    """Yield what a reader yields. What it passes over is its own, whatever is read meanwhile."""
    context, end = copy_context(), object()
    context.run(_passed.set, {})
    while (it := context.run(next, steps, end)) is not end:
        yield cast(T, it)


def _take(fields: dict[str, Any], name: str, kind: type, what: str) -> Any:
    value = fields.get(name)
    if value is not None and not isinstance(value, kind):
        pass_over(fields, name, f"{name}: it is no {what}", value)
    return value if isinstance(value, kind) else kind()


def text_of(fields: dict[str, Any], name: str) -> str:
    """Return a text that an object has, an empty one where it has none."""
    return cast(str, _take(fields, name, str, "text"))


def flag_of(fields: dict[str, Any], name: str) -> bool:
    """Return whether an object has a flag that is true."""
    return cast(bool, _take(fields, name, bool, "flag"))


def fields_of(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an object within another one, an empty one where there is none."""
    return cast(dict[str, Any], _take(fields, name, dict, "object"))


def objects(fields: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a list that an object has."""
    return members(fields, name, "object", dict)


def blocks_of(fields: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the blocks of what was said: a list of them, or a text alone."""
    value = fields.get(name)
    is_text = isinstance(value, str)
    return [{"type": "text", "text": value}] if is_text else objects(fields, name)


def members(fields: dict[str, Any], name: str, what: str, *kinds: type) -> list[Any]:
    """Return the values of a type, or of some, of a list that an object has."""
    values = _take(fields, name, list, "list")
    for index, it in enumerate(values):
        if not isinstance(it, kinds):
            pass_over(values, index, f"{name}: a value in it is no {what}", it)
    return [it for it in values if isinstance(it, kinds)]


def mapping(value: Any, what: str) -> dict[str, Any]:
    """Return a value that must be an object. Raises Damaged."""
    if not isinstance(value, dict):
        raise Damaged(f"{what}: it is no object")
    return value


def pass_over(holder: Any, place: str | int, what: str, value: Any) -> None:
    """Keep a value that its reader could not take, to be named."""
    if (passed := _passed.get(None)) is not None:
        passed[id(holder), place] = holder, what, value


def passed_over() -> list[tuple[str, str]]:
    """Return what was passed over since the last call: what is wrong, and the value in short.
    Nothing is noted of what is read outside of `apart`.
    """
    passed = _passed.get({})
    named = [(what, reprlib.repr(value)) for _, what, value in passed.values()]
    passed.clear()
    return named


def digest(text: str, length: int) -> str:
    """Return so many characters of a text's hash, by which an export names it that has no ids."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:length]


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, whose plural ends with an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
