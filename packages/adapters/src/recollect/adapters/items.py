"""Items of OpenAI's Responses API, as agents of its SDK remember them, into messages of Recollect
and back.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from recollect import InvalidArgument, Message, Role, ToolCall
from recollect.adapters.files import Files
from recollect.adapters.packing import ARGUMENTS, CONTENT, THINKING, Packed, Path, unpacked

KEY = "openaiAgents"
_TEXTS = ("text", "refusal")
_NO_CALL = re.compile(r"messages\[(\d+)\]\.tool_call")

Item = dict[str, Any]

Place = tuple[int, int, int]
"""Turn, sequence of the message, and index of the item in it: the order that a session reads in."""


def without_call(error: InvalidArgument) -> set[int]:
    """Return which messages of an append the server refuses as calls or results: a result whose
    call stands in another turn or was taken back, or a call whose id is taken.
    """
    matches = [_NO_CALL.match(it.field) for it in error.violations]
    return {int(it[1]) for it in matches if it}


def messages_of(item: Item, *, bare: bool = False) -> list[Message]:
    """Return the message that keeps an item, and the parts of its files. A `bare` one is neither a
    call nor a result, for a server that finds no call to it.
    """
    packed, message = _message_of(item, bare=bare)
    return [message, *packed.parts()]


def _message_of(item: Item, *, bare: bool) -> tuple[Packed, Message]:
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "function_call" and not bare:
        packed = Packed(item, [(ARGUMENTS, ["arguments"])], THINKING)
        call = ToolCall(item["call_id"], item["name"], packed.words(ARGUMENTS))
        return packed, Message.assistant(
            tool_calls=[call], thinking_text=packed.words(THINKING), metadata={KEY: packed.shape}
        )
    if kind == "function_call_output":
        packed = Packed(item, [(CONTENT, path) for path in _texts(item, "output")], CONTENT)
        if not bare:
            return packed, Message.tool(
                packed.words(CONTENT), tool_call_id=item["call_id"], metadata={KEY: packed.shape}
            )
        return packed, _assistant(packed, kind, sender="tool")
    if kind == "reasoning":
        words = [(THINKING, path) for name in ("summary", "content") for path in _texts(item, name)]
        packed = Packed(item, words, THINKING)
        return packed, _assistant(packed, kind)
    words = [(CONTENT, path) for path in _texts(item, "content")]
    if role == "user":
        packed = Packed(item, words, CONTENT)
        return packed, Message.user(
            packed.words(CONTENT) or f"[{_kinds(item)}]", metadata={KEY: packed.shape}
        )
    # System prompts that an agent puts into its history are kept, as words of that sender.
    packed = Packed(item, words, THINKING)
    sender = role if role in {"system", "developer"} else ""
    return packed, _assistant(packed, kind, sender=sender)


def items_of(message: Message, files: Files) -> list[Item]:
    """Return the items of a message: the one it was made of, or those that stand for another
    program's message. `files` has those that were read.
    """
    shape = message.metadata.get(KEY)
    if isinstance(shape, str):
        arguments = message.tool_calls[0].arguments if message.tool_calls else ""
        words = {CONTENT: message.content, THINKING: message.thinking_text, ARGUMENTS: arguments}
        item: Item | None = unpacked(shape, words, files)
        if item is not None:
            return [item]
    if message.role is Role.TOOL:
        return [
            {
                "type": "function_call_output",
                "call_id": message.tool_call_id,
                "output": message.content,
            }
        ]
    texts: list[Item] = (
        [{"role": message.role.value, "content": message.content}] if message.content else []
    )
    calls = (
        {"type": "function_call", "call_id": it.id, "name": it.name, "arguments": it.arguments}
        for it in message.tool_calls
    )
    return [*texts, *calls]


def taken_back(sequence: int, index: int) -> Message:
    """Return the message that takes an item back: the transcript only grows."""
    return Message.assistant(
        "[taken back]", metadata={KEY: json.dumps({"takenBack": [sequence, index]})}
    )


def cleared() -> Message:
    """Return the message that takes every item before it back."""
    return Message.assistant("[cleared]", metadata={KEY: json.dumps({"cleared": True})})


def is_clearing(message: Message) -> bool:
    """Return whether the message takes every item before it back."""
    return _change(message, "[cleared]", "cleared") is True


def what_it_takes_back(message: Message) -> tuple[int, int] | None:
    """Return the message and the place of the item that this message takes back, else None."""
    place = _change(message, "[taken back]", "takenBack")
    return (place[0], place[1]) if place else None


def compacted(first: Place, last: Place) -> Message:
    """Return the message that takes back the items from one to another, both included."""
    return Message.assistant(
        "[compacted]", metadata={KEY: json.dumps({"compacted": [first, last]})}
    )


def what_it_compacts(message: Message) -> tuple[Place, Place] | None:
    """Return the first and the last of the items that this message takes back, else None."""
    span = _change(message, "[compacted]", "compacted")
    return (tuple(span[0]), tuple(span[1])) if span else None


def _change(message: Message, content: str, name: str) -> Any:
    """Return the value of a line that changes what is before it; None for any other message."""
    shape = message.metadata.get(KEY)
    if not isinstance(shape, str) or message.content != content:
        return None
    return json.loads(shape).get(name)


def _assistant(packed: Packed, kind: str, sender: str = "") -> Message:
    content, thinking = packed.words(CONTENT), packed.words(THINKING)
    # A message says something; of what has no words its kind is said.
    content = content or ("" if thinking and kind == "reasoning" else f"[{kind}]")
    return Message.assistant(
        content, thinking_text=thinking, sender=sender, metadata={KEY: packed.shape}
    )


def _texts(item: Item, name: str) -> Iterator[Path]:
    """Return the places of the words in an item's field."""
    value = item.get(name)
    if isinstance(value, str):
        yield [name]
    for index, part in enumerate(value if isinstance(value, list) else ()):
        if isinstance(part, dict):
            for key in _TEXTS:
                if isinstance(part.get(key), str):
                    yield [name, index, key]


def _kinds(item: Item) -> str:
    parts = item.get("content")
    kinds = (
        [str(part.get("type")) for part in parts if isinstance(part, dict)]
        if isinstance(parts, list)
        else []
    )
    return ", ".join(kinds) or "message"
