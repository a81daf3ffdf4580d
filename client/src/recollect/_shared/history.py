"""All messages of a conversation, in pages of whole turns, before anybody has decided how to ask
for one.
"""

from recollect._types.conversation import Conversation, LoadedConversation
from recollect._types.message import Message

MAX_TURNS = 1000
MAX_TOKENS = 2_000_000  # about 8 MB of text


class History:
    """Reads a conversation from its end to its beginning: ask with `before_turn`, `before_sequence`
    and `max_turns` while `more` is true.

    Thinking and metadata do not count as tokens, so that a page may be too large to receive: say so
    with `too_large`.
    """

    def __init__(self, conversation: Conversation) -> None:
        self.before_turn = conversation.turn_count + 1
        self.before_sequence: int | None = (
            None  # within a turn that is larger than an answer may be
        )
        self.max_turns = MAX_TURNS
        self.more = conversation.message_count > 0
        self.damaged_lines = 0
        self._pages: list[tuple[Message, ...]] = []

    def received(self, page: LoadedConversation) -> None:
        """Add a page that was received."""
        self.damaged_lines += page.damaged_lines
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

    def too_large(self) -> bool:
        """Ask for smaller pages, because the last one was too large to receive. Return False if
        there are none.
        """
        if self.max_turns == 1:
            return False
        self.max_turns = max(1, self.max_turns // 4)
        return True

    @property
    def messages(self) -> list[Message]:
        """Return the received messages, oldest first."""
        return [message for page in reversed(self._pages) for message in page]
