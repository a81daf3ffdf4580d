"""A history provider of Microsoft's Agent Framework. Needs the extra
`recollect-client[agent-framework]`.

    from recollect.adapters.agent_framework import RecollectHistoryProvider

    history = RecollectHistoryProvider(Client())
    agent = Agent(client=chat_client, context_providers=[history.recalling(), history])

A session is a conversation of the channel `agent-framework`, of the group that has its id. A
message comes back as the framework serialises it.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from agent_framework import ContextProvider, HistoryProvider, Message, SessionContext

from recollect import Client, Party, Role, ToolCall
from recollect.adapters.clients import blocking
from recollect.adapters.packing import Path
from recollect.adapters.transcripts import Transcript, Words, transcripts
from recollect.adapters.turn_recall import Budget, Turn, TurnRecall

CHANNEL = "agent-framework"
_NO_ID = "default"  # as in the framework's own provider over files


class RecollectHistoryProvider(HistoryProvider):
    """The messages of sessions, which every process sees. Tasks may share it; it calls in threads.
    Its methods raise RecollectError.
    """

    def __init__(
        self,
        client: Client,
        source_id: str = "recollect",
        *,
        channel: str = CHANNEL,
        **stored: Any,
    ) -> None:
        """Keep messages with a client. `stored` is what a `HistoryProvider` takes: whether messages
        are loaded, and which are stored.
        """
        super().__init__(source_id, **stored)
        self._client = blocking(client)
        self._opened = transcripts(client, channel, "agentFramework")

    async def get_messages(self, session_id: str | None, **_: Any) -> list[Message]:
        """Return the messages of a session, oldest first."""
        rows = await asyncio.to_thread(self.transcript(session_id).read)
        return [Message.from_dict(it.item) for it in rows if isinstance(it.item, dict)]

    async def save_messages(
        self, session_id: str | None, messages: Sequence[Message], **_: Any
    ) -> None:
        """Add messages, all or none up to 6 MiB."""
        dumped = [it.to_dict() for it in messages]
        rows = [(it, _words(it)) for it in dumped]
        if rows:
            await asyncio.to_thread(self.transcript(session_id).add, rows)

    def recalling(self, budget: Budget = None) -> ContextProvider:
        """Return a context provider that adds what was said before about the user's newest message
        to the instructions of a run. No history has it. `budget` is that of `build_context`.
        """
        return _RecallProvider(self, self._client, budget)

    def transcript(self, session_id: str | None) -> Transcript:
        """Return the conversation of a session."""
        return self._opened(Party(group_id=session_id or _NO_ID))


class _RecallProvider(ContextProvider):
    """The recall of a history provider."""

    def __init__(self, history: RecollectHistoryProvider, client: Client, budget: Budget) -> None:
        super().__init__(f"{history.source_id}-recall")
        self._history = history
        self._client = client
        self._recall = TurnRecall(budget)

    async def before_run(self, *, context: SessionContext, **_: Any) -> None:
        texts = [it.text for it in context.input_messages if it.role == "user"]
        turn = Turn(uuid4(), texts[-1] if texts else "")
        find = self._history.transcript(context.session_id).find
        name = context.session_id or _NO_ID
        text = await asyncio.to_thread(self._recall.text, self._client, name, turn, find)
        if text:
            context.extend_instructions(self.source_id, text)


def _words(message: dict[str, Any]) -> Words:
    texts: list[Path] = []
    thinking: list[Path] = []
    calls: list[ToolCall] = []
    answers = ""
    for at, content in enumerate(message.get("contents") or ()):
        match content:
            case {"type": "text", "text": str()}:
                texts.append(["contents", at, "text"])
            case {"type": "text_reasoning", "text": str()}:
                thinking.append(["contents", at, "text"])
            case {"type": "function_call", "call_id": str(id_), "name": str(name)}:
                arguments = content.get("arguments")
                text = arguments if isinstance(arguments, str) else json.dumps(arguments)
                calls.append(ToolCall(id_, name, text))
            case {"type": "function_result", "call_id": str(id_)}:
                answers = answers or id_
                if isinstance(content.get("result"), str):
                    texts.append(["contents", at, "result"])
    roles = {"user": Role.USER, "tool": Role.TOOL if answers else Role.ASSISTANT}
    return Words(
        role=roles.get(message.get("role", ""), Role.ASSISTANT),
        texts=texts,
        thinking=thinking,
        calls=calls,
        answers=answers,
        sender=message.get("author_name") or "",
    )
