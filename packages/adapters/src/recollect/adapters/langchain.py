"""Messages of LangChain into messages of Recollect and back."""

import json
from collections.abc import Iterable

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)

from recollect import Message, Role, ToolCall, Usage
from recollect.adapters.files import Files
from recollect.adapters.packing import CONTENT, THINKING, Packed, Path, object_of, unpacked

KEY = "langchain"


def messages_of(it: BaseMessage) -> list[Message]:
    """Return the message that keeps one of LangChain, and the parts of its files. Raises TypeError
    for one that no conversation has, or that JSON cannot hold.
    """
    overflow = THINKING if isinstance(it, AIMessage) else CONTENT
    packed = Packed(message_to_dict(it), [(CONTENT, path) for path in _texts(it)], overflow)
    return [_message_of(it, packed), *packed.parts()]


def message_of(it: BaseMessage) -> Message:
    """Return the message that keeps one of LangChain, without its files. Raises TypeError."""
    return messages_of(it)[0]


def _message_of(it: BaseMessage, packed: Packed) -> Message:
    content, metadata = packed.words(CONTENT), {KEY: packed.shape}
    match it:
        case HumanMessage():
            return Message.user(content or "[message]", sender=it.name or "", metadata=metadata)
        case AIMessage():
            usage = it.usage_metadata
            return Message.assistant(
                content or ("" if it.tool_calls else "[message]"),
                thinking_text=packed.words(THINKING),
                tool_calls=[
                    ToolCall(call["id"] or "", call["name"], json.dumps(call["args"]))
                    for call in it.tool_calls
                ],
                usage=Usage(usage["input_tokens"], usage["output_tokens"]) if usage else None,
                sender=it.name or "",
                metadata=metadata,
            )
        case ToolMessage():
            return Message.tool(content, tool_call_id=it.tool_call_id, metadata=metadata)
    raise TypeError(f"a message of the type {it.type!r} is no part of a conversation")


def langchain_message(message: Message, files: Files | None = None) -> BaseMessage:
    """Return the message of LangChain for one of Recollect, of any writer. `files` has those
    that were read.
    """
    shape = message.metadata.get(KEY)
    result: BaseMessage
    words = {CONTENT: message.content, THINKING: message.thinking_text}
    original = unpacked(shape, words, files or Files()) if isinstance(shape, str) else None
    if original is not None:
        [result] = messages_from_dict([original])
    elif message.role is Role.USER:
        result = HumanMessage(message.content, name=message.sender or None)
    elif message.role is Role.TOOL:
        result = ToolMessage(message.content, tool_call_id=message.tool_call_id)
    else:
        calls = [
            {"id": it.id, "name": it.name, "args": object_of(it.arguments)}
            for it in message.tool_calls
        ]
        result = AIMessage(message.content, tool_calls=calls)
    return result


def _texts(it: BaseMessage) -> Iterable[Path]:
    """Return the places of a message's words in the output of `message_to_dict`."""
    if isinstance(it.content, str):
        yield ["data", "content"]
        return
    for index, part in enumerate(it.content):
        if isinstance(part, str):
            yield ["data", "content", index]
        elif isinstance(part.get("text"), str):
            yield ["data", "content", index, "text"]
