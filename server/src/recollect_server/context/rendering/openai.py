"""A list of messages as OpenAI's chat completions take it: every tool message follows the call that
it answers.
"""

from recollect_server.context.rendering.messages import MessagesForm, RenderedMessage
from recollect_server.context.rendering.spoken import SpokenStep
from recollect_server.kernel.domain.message import Role


class OpenAiForm(MessagesForm):
    """Form with the known facts in a system message, then the conversation and the message to
    answer.
    """

    preface_role = "system"

    def messages_of(self, step: SpokenStep) -> list[RenderedMessage]:
        """Return a message, and for each call one of the role `tool`."""
        if step.role is Role.USER:
            return [{"role": "user", "content": step.text}]
        spoken: RenderedMessage = {"role": "assistant", "content": step.text or None}
        if step.calls:
            spoken["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    # JSON always: servers that are compatible with OpenAI's parse it.
                    "function": {"name": call.name, "arguments": call.arguments or "{}"},
                }
                for call in step.calls
            ]
        return [
            spoken,
            *(
                {"role": "tool", "tool_call_id": call.id, "content": call.result}
                for call in step.calls
            ),
        ]
