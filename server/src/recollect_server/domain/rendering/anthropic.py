"""A list of messages as Anthropic's API takes it: a user's first, then in turn; a tool's results right behind their calls."""

from typing import Any

import orjson

from recollect_server.domain.context import Context
from recollect_server.domain.message import Role
from recollect_server.domain.rendering.spoken import Called, steps
from recollect_server.domain.rendering.xml import preface

_BEFORE = "(What was said before this is left out.)"

Block = dict[str, Any]


def anthropic_messages(context: Context, message: str) -> str:
    """JSON: what is known in the first user message, the conversation, and the message to be answered if it is not there yet.

    Neighbours of one role are one message of several blocks. Empty if there is nothing to say.
    """
    said: list[dict[str, Any]] = []
    if about := preface(context):
        _say(said, "user", [_text(about)])
    last: tuple[Role, str] | None = None
    for step in steps(context.own):
        last = (step.role, step.text)
        text = [_text(step.text)] if step.text.strip() else []
        if step.role is Role.USER:
            _say(said, "user", text)
            continue
        if not said:
            _say(said, "user", [_text(_BEFORE)])
        _say(said, "assistant", [*text, *map(_use, step.calls)])
        _say(said, "user", [*map(_result, step.calls)])
    if message.strip() and last != (Role.USER, message.rstrip()):
        _say(said, "user", [_text(message.rstrip())])
    return orjson.dumps(said).decode()


def _say(said: list[dict[str, Any]], role: str, blocks: list[Block]) -> None:
    if not blocks:
        return
    if said and said[-1]["role"] == role:
        said[-1]["content"] += blocks
    else:
        said.append({"role": role, "content": blocks})


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _use(call: Called) -> Block:
    try:
        given = orjson.loads(call.arguments or "{}")
    except ValueError:
        given = call.arguments
    return {
        "type": "tool_use",
        "id": call.id,
        "name": call.name,
        "input": given if isinstance(given, dict) else {"arguments": call.arguments},
    }


def _result(call: Called) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": call.id}
    return block | ({"content": call.result} if call.result.strip() else {})
