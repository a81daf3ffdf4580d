"""A fact of another conversation, which every toolkit's form of recall shows an agent."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from recollect import AsyncClient, Client, ContextFormat, Message

QUESTION = "What is the staging database called?"


@dataclass
class Past:
    """A fact that was said in another conversation, and the contexts that were built since."""

    system_prompt: str
    builds: list[str | None] = field(default_factory=list)
    """The conversation of each context; None for one that does not exist yet."""

    def is_in(self, text: str) -> bool:
        """Return whether a text has the fact, behind the paragraph that tells what it is."""
        return text.startswith(self.system_prompt) and "heron" in text


@pytest.fixture
def past(client: Client, monkeypatch: pytest.MonkeyPatch) -> Past:
    """Say a fact, and note the contexts that are built from then on."""
    before = client.conversations.create("web")
    fact = Message.user("The staging database is called heron.")
    client.conversations.append_turn(before.id, [fact, Message.assistant("Noted.")])
    form = ContextFormat.RECALL_BLOCK
    past = Past(client.recall.build_context(None, QUESTION, format=form).system_prompt)
    assert past.system_prompt
    for kind in (Client, AsyncClient):
        with_calls = type(kind().recall)

        def noted(
            self: Any,
            conversation_id: str | None = None,
            *args: Any,
            plain: Any = with_calls.build_context,
            **fields: Any,
        ) -> Any:
            past.builds.append(conversation_id)
            return plain(self, conversation_id, *args, **fields)

        monkeypatch.setattr(with_calls, "build_context", noted)
    return past
