"""A list of messages as Anthropic's API takes it: a user's first, then in turn; a tool's results
right behind their calls.
"""

import orjson

from recollect_server.context.rendering.messages import MessagesForm, RenderedMessage
from recollect_server.context.rendering.spoken import Called, SpokenStep
from recollect_server.kernel.domain.message import Role


class AnthropicForm(MessagesForm):
    """Form with the known facts in the first user message, then the conversation and the message to
    answer.

    Neighbours of one role are one message of several blocks.
    """

    preface_role = "user"
    begins_with_user = True

    def messages_of(self, step: SpokenStep) -> list[RenderedMessage]:
        """Return a message of a text, or of calls too, and the message with their results."""
        text = [{"type": "text", "text": step.text}] if step.text.strip() else []
        if step.role is Role.USER:
            return [{"role": "user", "content": text}]
        messages: list[RenderedMessage] = [
            {"role": "assistant", "content": [*text, *map(_use, step.calls)]}
        ]
        return (
            [*messages, {"role": "user", "content": [*map(_result, step.calls)]}]
            if step.calls
            else messages
        )

    def joined(self, messages: list[RenderedMessage]) -> list[RenderedMessage]:
        """Return the messages with those of one role that follow each other made one, without empty
        ones.
        """
        joined: list[RenderedMessage] = []
        for it in messages:
            if it["content"] and joined and joined[-1]["role"] == it["role"]:
                joined[-1]["content"] += it["content"]
            elif it["content"]:
                joined.append(it)
        return joined


def _use(call: Called) -> RenderedMessage:
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


def _result(call: Called) -> RenderedMessage:
    block: RenderedMessage = {"type": "tool_result", "tool_use_id": call.id}
    return block | ({"content": call.result} if call.result.strip() else {})
