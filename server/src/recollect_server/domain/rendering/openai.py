"""A list of messages as OpenAI's chat completions take it: every tool message follows the call that it answers."""

from typing import Any

import orjson

from recollect_server.domain.context import Context
from recollect_server.domain.message import Role
from recollect_server.domain.rendering.spoken import steps
from recollect_server.domain.rendering.xml import preface


def openai_messages(context: Context, message: str) -> str:
    """JSON: what is known in a system message, the conversation, and the message that is to be answered if it is not there yet."""
    said: list[dict[str, Any]] = []
    if about := preface(context):
        said.append({"role": "system", "content": about})
    last: tuple[Role, str] | None = None
    for step in steps(context.own):
        last = (step.role, step.text)
        if step.role is Role.USER:
            said.append({"role": "user", "content": step.text})
            continue
        spoken: dict[str, Any] = {"role": "assistant", "content": step.text or None}
        if step.calls:
            spoken["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in step.calls
            ]
        said.append(spoken)
        said += [{"role": "tool", "tool_call_id": call.id, "content": call.result} for call in step.calls]
    if message.strip() and last != (Role.USER, message.rstrip()):
        said.append({"role": "user", "content": message.rstrip()})
    return orjson.dumps(said).decode()
