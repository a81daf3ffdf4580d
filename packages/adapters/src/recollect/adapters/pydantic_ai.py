"""Message histories of Pydantic AI. Needs the extra `recollect-client[pydantic-ai]`.

    from recollect.adapters.pydantic_ai import RecollectHistory

    history = RecollectHistory(Client(), "alex")
    result = agent.run_sync("Hi", message_history=history.load())
    history.keep(result.new_messages())

`Agent(…, capabilities=[history.recalling()])` shows the model what was said before, in any session.

Each `ModelMessage` is a message of Recollect's, and comes back as it was, with system prompts,
calls, results, files and usage; its words are found by `client.recall.search`. A request that holds
results of several calls is the result of the first one. Messages that another program wrote come as
requests and responses with their text.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import Hooks
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext

from recollect import Client, Message, Party, Role, ToolCall
from recollect.adapters.packing import Path
from recollect.adapters.transcripts import Transcript, Words
from recollect.adapters.turn_recall import Budget, Turn, TurnRecall

CHANNEL = "pydantic-ai"


class RecollectHistory:
    """The messages of one session, in a conversation of its own. Threads and tasks may share it;
    every process that names the session sees the same.
    """

    def __init__(self, client: Client, session_id: str, *, channel: str = CHANNEL) -> None:
        """Open a session by its id, any text of 1 to 320 characters."""
        self._client = client
        self._session_id = session_id
        self._transcript = Transcript(client, channel, Party(group_id=session_id), "pydanticAi")

    @property
    def conversation_id(self) -> str | None:
        """The id of the session's conversation, as for `agent.run(conversation_id=…)`; None before
        its first message. Raises RecollectError.
        """
        conversation = self._transcript.find()
        return conversation.id if conversation else None

    def load(self) -> list[ModelMessage]:
        """Return all messages, for `message_history`. Raises RecollectError."""
        return [_model_message(it.item) for it in self._transcript.read()]

    def keep(self, messages: Sequence[ModelMessage]) -> None:
        """Add the new messages of a run, all or none. Raises RecollectError."""
        dumped = json.loads(ModelMessagesTypeAdapter.dump_json([*messages]))
        self._transcript.add((it, _words(it)) for it in dumped)

    def replace(self, messages: Sequence[ModelMessage]) -> None:
        """Put messages in the place of all earlier ones, such as a summary. The transcript and the
        search have those all the same. Raises RecollectError.
        """
        dumped = json.loads(ModelMessagesTypeAdapter.dump_json([*messages]))
        self._transcript.add(((it, _words(it)) for it in dumped), replaces=True)

    def recalling(self, budget: Budget = None) -> Hooks[Any]:
        """Return a capability for `Agent(capabilities=[…])` that puts what was said before about
        the user's newest message ahead of a run's messages. `budget` is that of `build_context`.

        The messages of the run do not have it, so that nothing of it is kept.
        """
        recall = TurnRecall(budget)

        async def put_before(
            context: RunContext[Any], request: ModelRequestContext
        ) -> ModelRequestContext:
            turn = Turn(context.run_id, _question(request.messages))
            find = self._transcript.find
            text = await asyncio.to_thread(recall.text, self._client, self._session_id, turn, find)
            if text:
                before = ModelRequest(parts=[SystemPromptPart(text)])
                request.messages = [before, *request.messages]
            return request

        return Hooks(before_model_request=put_before)

    def delete(self) -> None:
        """Delete the session for good. Raises RecollectError."""
        self._transcript.delete()

    async def aload(self) -> list[ModelMessage]:
        """Do as `load`, in a thread."""
        return await asyncio.to_thread(self.load)

    async def akeep(self, messages: Sequence[ModelMessage]) -> None:
        """Do as `keep`, in a thread."""
        await asyncio.to_thread(self.keep, messages)


def _question(messages: Sequence[ModelMessage]) -> str:
    """Return the words of the newest prompt of the user; empty if there is none."""
    prompts = [part for it in messages for part in it.parts if isinstance(part, UserPromptPart)]
    content = prompts[-1].content if prompts else ""
    texts = [content] if isinstance(content, str) else content
    return "\n".join(it for it in texts if isinstance(it, str))


def _words(it: dict[str, Any]) -> Words:
    texts: list[Path] = []
    thinking: list[Path] = []
    calls: list[ToolCall] = []
    answers = ""
    for at, part in enumerate(it["parts"]):
        match part["part_kind"]:
            case "user-prompt" | "text" | "tool-return" | "retry-prompt":
                texts += _texts(part.get("content"), ["parts", at, "content"])
                if part["part_kind"] != "text":
                    answers = answers or part.get("tool_call_id") or ""
            case "thinking":
                thinking += _texts(part.get("content"), ["parts", at, "content"])
            case "tool-call":
                arguments = part.get("args") or ""
                text = arguments if isinstance(arguments, str) else json.dumps(arguments)
                calls.append(ToolCall(part["tool_call_id"], part["tool_name"], text))
    role = Role.ASSISTANT if it["kind"] == "response" else Role.TOOL if answers else Role.USER
    return Words(
        role=role, texts=texts, thinking=thinking, calls=calls, answers=answers, kind=it["kind"]
    )


def _texts(content: Any, path: Path) -> list[Path]:
    if isinstance(content, str):
        return [path]
    if isinstance(content, list):
        return [[*path, at] for at, it in enumerate(content) if isinstance(it, str)]
    return []


def _model_message(item: Any) -> ModelMessage:
    if not isinstance(item, Message):
        return ModelMessagesTypeAdapter.validate_python([item])[0]
    if item.role is Role.ASSISTANT:
        return ModelResponse(parts=[TextPart(item.content)])
    return ModelRequest.user_text_prompt(item.content)
