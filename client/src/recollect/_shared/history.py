"""All messages of a conversation, in pages of whole turns; and those of some of its turns."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict

from recollect._types.conversation import Conversation, LoadedConversation
from recollect._types.message import Message
from recollect._types.recall import FetchedContext, TurnRange
from recollect.errors import RecollectError, ResourceExhausted

MAX_TURNS = 1000
_BEYOND = 2**31 - 1  # no conversation has so many turns
_MAX_TOKENS = 2_000_000  # about 8 MB of text
_FETCHED_BYTES = 8 << 20  # that are read before the caller is asked whether to go on


class PageRequest(TypedDict):
    """Arguments of `load` beside the conversation."""

    max_turns: int
    max_tokens: int
    before_turn: int
    before_sequence: int | None


def is_too_large(error: RecollectError) -> bool:
    """Return whether a request or an answer is larger than gRPC takes. Refusals of the service
    have a reason.
    """
    return isinstance(error, ResourceExhausted) and error.reason is None


class History:
    """Reads a conversation from its end to its beginning: load the page that `request` names while
    `more` is true.

    Thinking and metadata do not count as tokens, so that a page may be too large to receive: ask
    `can_shrink_after` an error.
    """

    def __init__(self, conversation: Conversation | None = None) -> None:
        """Begin at the end of a conversation as it was seen; by default as it is when the first
        page is loaded.
        """
        self.before_turn = _BEYOND if conversation is None else conversation.turn_count + 1
        self.before_sequence: int | None = (
            None  # within a turn that is larger than an answer may be
        )
        self.max_turns = MAX_TURNS
        self.more = conversation is None or conversation.message_count > 0
        self.damaged_lines = 0
        self.conversation = conversation  # as the newest answer has it
        self._pages: list[tuple[Message, ...]] = []

    @property
    def request(self) -> PageRequest:
        """Return the arguments that load the next page."""
        return {
            "max_turns": self.max_turns,
            "max_tokens": _MAX_TOKENS,
            "before_turn": self.before_turn,
            "before_sequence": self.before_sequence,
        }

    def received(self, page: LoadedConversation) -> None:
        """Add a page that was received."""
        self.damaged_lines += page.damaged_lines
        if page.conversation is not None:
            self.conversation = page.conversation
            self.before_turn = min(self.before_turn, page.conversation.turn_count + 1)
        self.before_sequence = page.cut_before_sequence or None
        if page.cut_before_sequence:
            self._pages.append(page.messages)
            self.before_turn = page.messages[0].turn_number + 1
        elif page.messages:
            self._pages.append(page.messages)
            self.before_turn = page.messages[0].turn_number
        else:
            self.before_turn -= 1  # every line of that turn is damaged
        self.more = page.has_more and (self.before_turn > 1 or self.before_sequence is not None)

    def skip_to(self, turn: int) -> None:
        """Go on with this turn, unless an earlier one is due."""
        if turn + 1 < self.before_turn:
            self.before_turn, self.before_sequence = turn + 1, None
            self.more = self.more and self.before_turn > 1

    def can_shrink_after(self, error: RecollectError) -> bool:
        """Return whether a page failed by its size, and have the next one ask for less. False if
        another error was the reason, or there are no smaller pages.
        """
        if not is_too_large(error) or self.max_turns == 1:
            return False
        self.max_turns = max(1, self.max_turns // 4)
        return True

    @property
    def messages(self) -> list[Message]:
        """Return the received messages, oldest first."""
        return [message for page in reversed(self._pages) for message in page]


def read_history(
    load: Callable[..., LoadedConversation],
    conversation: Conversation | str,
    *,
    turns: int = MAX_TURNS,
    enough: Callable[[History], bool] = lambda _: False,
) -> History:
    """Return all messages of a conversation, or of the one with this id, read by the `load` of a
    client that blocks; or its last ones, until there are `enough`: then a page has so many `turns`.
    Raises RecollectError.
    """
    if isinstance(conversation, str):
        history, conversation_id = History(), conversation
    else:
        history, conversation_id = History(conversation), conversation.id
    history.max_turns = min(turns, MAX_TURNS)
    while history.more and not enough(history):
        try:
            page = load(conversation_id, **history.request)
        except ResourceExhausted as error:
            if not history.can_shrink_after(error):
                raise
        else:
            history.received(page)
    return history


class FetchedPages:
    """Some turns of a conversation, in as many answers as they need: one has some 4 MB, which other
    languages' clients accept.
    """

    def __init__(
        self,
        turn_range: TurnRange | tuple[int, int] | None,
        after_sequence: int | None,
        timeout: float | None,
    ) -> None:
        self.turn_range = turn_range
        self.after_sequence = after_sequence
        self.done = False
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._messages: tuple[Message, ...] = ()
        self._damaged_lines = 0
        self._left = _FETCHED_BYTES

    def time_left(self) -> float | None:
        """Return the seconds that the next call may take; None leaves it to the client."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.001)

    def joined(self, page: FetchedContext) -> FetchedContext:
        """Return the turns with those of one more answer."""
        self._messages += page.messages
        self._damaged_lines += page.damaged_lines
        self._left -= sum(map(_length, page.messages))
        if page.messages:
            if self.turn_range is None:  # the last turns, whatever is said meanwhile
                self.turn_range = (page.messages[0].turn_number, page.total_turns)
            self.after_sequence = page.messages[-1].sequence
        self.done = not (page.has_more and page.messages and self._left > 0)
        return replace(page, messages=self._messages, damaged_lines=self._damaged_lines)


def _length(message: Message) -> int:
    arguments = sum(len(call.arguments) for call in message.tool_calls)
    return len(message.content) + len(message.thinking_text) + arguments
