"""Reads whole conversations."""

from recollect import Client, Conversation, ResourceExhausted
from recollect._shared.history import MAX_TOKENS, History


def all_messages(client: Client, conversation: Conversation) -> History:
    """Return all messages of a conversation. Raises RecollectError."""
    history = History(conversation)
    while history.more:
        try:
            page = client.conversations.load(
                conversation.id,
                max_turns=history.max_turns,
                max_tokens=MAX_TOKENS,
                before_turn=history.before_turn,
                before_sequence=history.before_sequence,
            )
        except ResourceExhausted:
            if not history.too_large():
                raise
        else:
            history.received(page)
    return history
