"""Recall for the newest turn of an agent, over which each toolkit has a form of its own.

A context is built once a turn, for the question that the turn begins with. A failure is logged and
recalls nothing, so that the agent answers all the same.
"""

import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from recollect import (
    AsyncClient,
    BuiltContext,
    Client,
    ContextBudget,
    ContextFormat,
    Conversation,
    RecollectError,
)

log = logging.getLogger("recollect.recall")

_MOST_SESSIONS = 1024  # whose newest text is held

_Message = TypeVar("_Message")

Budget = ContextBudget | int | None
"""Budget of a context: as parts, its total in tokens, or the server's default."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of an agent."""

    key: Hashable
    """Differs from turn to turn of a session."""
    question: str
    """The words of the user's message that it begins with; empty if there is none."""


def newest_turn(
    messages: Iterable[_Message],
    is_users: Callable[[_Message], bool],
    words_of: Callable[[_Message], str],
) -> Turn:
    """Return the turn that begins with the newest message of a user."""
    words = [(is_users(it), words_of(it)) for it in messages]
    while words and not words[-1][0]:  # what the agent did since is of the same turn
        words.pop()
    return Turn(tuple(words), words[-1][1] if words else "")


class TurnRecall:
    """The text for the newest turn of each session. Threads and tasks may share it."""

    def __init__(self, budget: Budget = None) -> None:
        self._budget = budget
        self._newest: dict[str, _Recalled] = {}
        self._guard = Lock()

    def text(
        self,
        client: Client,
        session: str,
        turn: Turn,
        find: Callable[[], Conversation | None],
    ) -> str:
        """Return the text to put before a turn; empty if there is nothing to recall. `find` returns
        the session's conversation; None before its first message.
        """
        recalled = self._of(session, turn)
        if recalled.is_due:
            with recalled.attempt():
                recalled.conversation = find()
                recalled.take(client.recall.build_context(**recalled.request(self._budget)))
        return recalled.text

    async def atext(
        self,
        client: AsyncClient,
        session: str,
        turn: Turn,
        find: Callable[[], Awaitable[Conversation | None]],
    ) -> str:
        """Do as `text` with an asynchronous client."""
        recalled = self._of(session, turn)
        if recalled.is_due:
            with recalled.attempt():
                recalled.conversation = await find()
                recalled.take(await client.recall.build_context(**recalled.request(self._budget)))
        return recalled.text

    def _of(self, session: str, turn: Turn) -> "_Recalled":
        with self._guard:
            recalled = self._newest.pop(session, None)
            if recalled is None or recalled.turn != turn:
                recalled = _Recalled(session, turn)
            self._newest[session] = recalled
            if len(self._newest) > _MOST_SESSIONS:
                del self._newest[next(iter(self._newest))]
        return recalled


class _Recalled:
    """The text for one turn."""

    def __init__(self, session: str, turn: Turn) -> None:
        self.turn = turn
        self.text = ""
        self.is_due = bool(turn.question.strip())
        """True until an attempt to build the context is over. Agents that run in parallel may each
        make one, so that none of them goes without.
        """
        self.conversation: Conversation | None = None
        self._session = session

    def request(self, budget: Budget) -> dict[str, Any]:
        """Return the arguments of `build_context`."""
        return {
            "conversation_id": self.conversation.id if self.conversation else None,
            "message": self.turn.question,
            "budget": budget,
            "format": ContextFormat.RECALL_BLOCK,
        }

    def take(self, context: BuiltContext) -> None:
        """Take the text of a context, behind the paragraph that tells the model what it is."""
        if context.rendered:
            self.text = f"{context.system_prompt}\n\n{context.rendered}"

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Log a failure to recall instead of raising it, and try no more for this turn."""
        try:
            yield
        except RecollectError as error:
            name = self.conversation.id if self.conversation else "none yet"
            log.warning(
                "nothing is recalled for session %r (conversation: %s): %s",
                self._session,
                name,
                error,
            )
        self.is_due = False  # a run that was cancelled meanwhile may try again
