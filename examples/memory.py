"""Memory for an agent in ten lines: what it should see is built before each answer, and what was
said is kept after it.

    recollect-server serve &
    python examples/memory.py [TARGET]

TARGET is the server's address, else RECOLLECT_ADDRESS, else 127.0.0.1:50051. The model here is a
stand-in that needs no key: put your own call in its place, as
`anthropic.Anthropic().messages.create(model=…, max_tokens=1024, system=system, messages=messages)`.
"""

import json
import sys
from typing import Any

from recollect import Client, ContextFormat, Message, RecollectError


def model(system: str, messages: list[dict[str, Any]]) -> str:
    """Stand in for a language model: return the size of its input."""
    size = len(system) + len(json.dumps(messages))
    return f"(a model's answer to {size} bytes)"


def answer(client: Client, conversation_id: str, question: str) -> str:
    """Answer a user, with the whole conversation so far at hand."""
    context = client.recall.build_context(
        conversation_id, question, format=ContextFormat.ANTHROPIC_MESSAGES
    )
    reply = model(context.system_prompt, json.loads(context.rendered))
    client.conversations.append_turn(
        conversation_id, [Message.user(question), Message.assistant(reply)]
    )
    return reply


def main(target: str | None) -> None:
    """Hold two conversations, of which the second remembers the first."""
    with Client(target) as client:
        first = client.conversations.create("web").id
        answer(client, first, "The backup of the photo server runs every night at three.")
        client.recall.set_anchor("name", "Alex")

        second = client.conversations.create("web").id
        question = "When does the backup of the photos run?"
        print(
            client.recall.build_context(
                second, question, format=ContextFormat.RECALL_BLOCK
            ).rendered
        )
        print(answer(client, second, question))


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else None)
    except RecollectError as error:
        sys.exit(f"Error: {error}")  # it says what is wrong, and what to do
