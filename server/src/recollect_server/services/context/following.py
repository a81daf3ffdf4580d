"""The message to be answered: which one it is, and the question to look for where it leans on the
one before.
"""

from collections.abc import Sequence

from recollect_server.domain.message import Message, Role
from recollect_server.services.context.relevance import leans


def unanswered(messages: Sequence[Message]) -> str:
    """Return the user's message that the conversation ends with; empty if it ends otherwise."""
    return messages[-1].content if messages and messages[-1].role is Role.USER else ""


def question_of(message: str, messages: Sequence[Message]) -> str:
    """Return what is looked for: the message, behind the user's last one where it does not say
    alone what it is about ("When was that?").
    """
    if not message.strip() or not leans(message):
        return message
    questions = [it.content for it in messages if it.role is Role.USER]
    if questions and questions[-1].rstrip() == message.rstrip():
        questions.pop()
    return f"{questions[-1]}\n{message}" if questions else message
