"""When a conversation is named, and when notes are taken of it."""

from recollect_server.domain.conversation import Conversation

FIRST_TITLE_TURNS = 5
"""The fifth user message opens the fifth turn: before that too little is known."""
NEW_TITLE_TURNS = 10
"""So many turns after the last title another one is sought, once the conversation is idle."""


def title_due(conversation: Conversation, titled_turn: int, *, idle: bool) -> bool:
    """Whether it should get a title now. `titled_turn` was its newest turn when it got the last one
    (0: it has none).

    One that a person gave stays.
    """
    if conversation.manually_named:
        return False
    if not conversation.title:
        return conversation.turn_count >= FIRST_TITLE_TURNS
    return idle and conversation.turn_count - titled_turn >= NEW_TITLE_TURNS


def notes_due(conversation: Conversation) -> bool:
    """Whether something was said that its abbreviation does not have."""
    return conversation.turn_count > conversation.abbreviated_through
