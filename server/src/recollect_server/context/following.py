"""The message to be answered: which one it is, and the question to look for where it leans on the
one before.
"""

from collections.abc import Sequence

from recollect_server.context.own_tiers import NewestMessages
from recollect_server.context.relevance import leans
from recollect_server.context.rendering.messages import is_said
from recollect_server.context.rendering.spoken import speaker
from recollect_server.kernel.domain.conversation import ANYBODY
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.text.languages import speaks_of_asker
from recollect_server.text.text import belongs_to_before

_BEFORE = 300
"""Characters of the message before, its last ones, that are looked for with a follow-up. All words
of a long message would outweigh those of the follow-up, and each takes time to be looked for.
"""
_WORD = 30
"""Of those, the first ones, in which a word's beginning is looked for. Chinese and addresses have
no space there.
"""


def unanswered(messages: Sequence[Message]) -> str:
    """Return the user's message that the conversation ends with; empty if it ends otherwise."""
    return messages[-1].content if messages and messages[-1].role is Role.USER else ""


def asker_of(message: str, newest: NewestMessages, sender: str) -> str:
    """Return who wrote the message to be answered, where others take part in the conversation: the
    sender that is given, or that of the message that the conversation ends with.
    """
    if newest.head is None:
        return ""
    if not sender and is_said(newest.messages, message):
        sender = newest.messages[-1].sender
    others = {*newest.head.conversation.participants} - {sender, ANYBODY}
    return sender if others else ""


def as_said(message: str, asker: str) -> str:
    """Return the message as lists of messages have it: behind the name of who asks."""
    return f"{speaker(asker, Role.USER)}: {message}" if asker and message.strip() else message


def question_of(message: str, messages: Sequence[Message], asker: str = "") -> str:
    """Return what is looked for: the message, behind the user's last one where it does not say
    alone what it is about ("When was that?"), and behind the name of the asker whom it speaks of.
    """
    question = message
    if message.strip() and leans(message):
        questions = [it.content for it in messages if it.role is Role.USER]
        if questions and questions[-1].rstrip() == message.rstrip():
            questions.pop()
        question = f"{_end_of(questions[-1])}\n{message}" if questions else message
    return f"{asker}: {question}" if asker and speaks_of_asker(message) else question


def _end_of(text: str) -> str:
    """Return the end of a text that is long, from the beginning of a word on, or of a character
    where no word begins nearby.
    """
    text = text.rstrip()
    first = len(text) - _BEFORE
    if first <= 0:
        return text
    places = [it for it in range(first, first + _WORD) if not belongs_to_before(text, it)]
    words = (it for it in places if text[it - 1].isspace() and not text[it].isspace())
    return text[next(words, places[0] if places else first) :]
