"""Messages of Recollect as Anthropic's Messages API takes them. Needs nothing but this client;
types are those of `anthropic`.

    from recollect.adapters.anthropic import messages

    context = client.conversations.load(conversation_id)
    answer = anthropic.Anthropic().messages.create(model=…, max_tokens=1024, messages=[
        *messages(context.messages), {"role": "user", "content": "And now?"}])

What the API refuses is repaired: roles alternate and the user begins; every call of a tool is
answered right behind it, and no result stands without its call; ids and names are of the API's
letters, ids once each. Thinking is left out (the API takes only what it signed itself), and so is
what has no words.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from recollect import Attachment, Message, Role
from recollect._shared.file_parts import is_part
from recollect.adapters.packing import object_of

if TYPE_CHECKING:
    from anthropic.types import MessageParam

_BEGINS = "[The conversation begins with the agent.]"
_NO_RESULT = "[The result of this call was not kept.]"
_NOT_OURS = re.compile(r"[^a-zA-Z0-9_-]")
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
_LONGEST_NAME = 128

Block = dict[str, Any]


def messages(them: Iterable[Message]) -> "list[MessageParam]":
    """Return messages, oldest first, in the form of the API. Consecutive ones of one role become
    one.

    >>> messages(client.conversations.load(conversation_id).messages)
    """
    written = _Written()
    for message in them:
        if is_part(message):
            continue
        match message.role:
            case Role.USER:
                written.user(message)
            case Role.ASSISTANT:
                written.assistant(message)
            case Role.TOOL:
                written.result(message)
    return written.finished()


class _Written:
    """The messages written so far. Calls of the newest agent's message wait for their results."""

    def __init__(self) -> None:
        self._turns: list[tuple[str, list[Block]]] = []
        self._open: list[
            tuple[str, str]
        ] = []  # the calls that wait: their ids in Recollect and in the API
        self._used: set[str] = set()

    def user(self, message: Message) -> None:
        self._answer_the_rest()
        self._add("user", [*_text(message.content), *map(_file, message.attachments)])

    def assistant(self, message: Message) -> None:
        # Calls that follow each other, in a message each, are one message's to the API. Anything
        # else comes after their results.
        if self._open and (
            self._turns[-1][0] == "user" or (message.content.strip() and not message.tool_calls)
        ):
            self._answer_the_rest()
        calls = []
        for call in message.tool_calls:
            ours = self._id(call.id)
            self._open.append((call.id, ours))
            name = _NOT_OURS.sub("_", call.name)[:_LONGEST_NAME]
            calls.append(
                {"type": "tool_use", "id": ours, "name": name, "input": object_of(call.arguments)}
            )
        self._add("assistant", [*_text(message.content), *calls])

    def result(self, message: Message) -> None:
        open_call = next((call for call in self._open if call[0] == message.tool_call_id), None)
        if open_call is None:  # its call was cut off, or had its result
            self._add("user", _text(f"[The result of a call that is not shown:] {message.content}"))
        else:
            self._open.remove(open_call)
            self._add("user", [_result(open_call[1], message.content)])

    def finished(self) -> "list[MessageParam]":
        self._answer_the_rest()
        if self._turns and self._turns[0][0] == "assistant":
            self._turns.insert(0, ("user", _text(_BEGINS)))
        written: Any = [
            {"role": role, "content": sorted(blocks, key=_place)} for role, blocks in self._turns
        ]
        result: list[MessageParam] = written
        return result

    def _answer_the_rest(self) -> None:
        if self._open:
            self._add(
                "user", [_result(ours, _NO_RESULT) | {"is_error": True} for _, ours in self._open]
            )
            self._open.clear()

    def _add(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if self._turns and self._turns[-1][0] == role:
            self._turns[-1][1].extend(blocks)
        else:
            self._turns.append((role, blocks))

    def _id(self, theirs: str) -> str:
        """Return an id of the API's letters that no other call has: in Recollect ids are unique
        within a turn.
        """
        plain = _NOT_OURS.sub("_", theirs)
        ours, number = plain, 1
        while ours in self._used:
            number += 1
            ours = f"{plain}-{number}"
        self._used.add(ours)
        return ours


def _text(text: str) -> list[Block]:
    # The API refuses a text of spaces alone, and one that ends the conversation with spaces.
    return [{"type": "text", "text": text.rstrip()}] if text.strip() else []


def _file(it: Attachment) -> Block:
    if it.uri.startswith("https://") and it.media_type in _IMAGES:
        return {"type": "image", "source": {"type": "url", "url": it.uri}}
    if it.uri.startswith("https://") and it.media_type == "application/pdf":
        return {"type": "document", "source": {"type": "url", "url": it.uri}}
    return {"type": "text", "text": f"[File: {it.media_type}, {it.uri}]"}


def _result(ours: str, content: str) -> Block:
    return {"type": "tool_result", "tool_use_id": ours, "content": _text(content)}


def _place(block: Block) -> int:
    """Add blocks to a message: results before everything else of the user, calls after everything
    else of the agent.
    """
    return {"tool_result": 0, "tool_use": 2}.get(block["type"], 1)
