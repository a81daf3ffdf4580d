"""Finds where a question was asked before: that it was asked is no answer, and neither is an answer
that says nothing. Without this a question that failed once fails the more surely again.
"""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from recollect_server.context.relevance import words_of
from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.domain.filters import SearchScope
from recollect_server.kernel.domain.ids import message_id
from recollect_server.kernel.domain.message import Message, Role, estimate_tokens
from recollect_server.kernel.index.messages import Place
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import read_several
from recollect_server.recall.search import Search
from recollect_server.text.languages import EVERYDAY_WORDS, IGNORANCE_WORDS, common_words

_MOST = 60  # messages that are read, the newest ones
_LONGER = 2  # times the tokens of the question that another asking has at the most
_QUESTION_MARKS = ("?", "？", "؟")


class Askings:
    """Turns that ask a question which is asked again."""

    def __init__(self, space: Space, question: str) -> None:
        self._space, self._question = space, question
        self.hidden: set[int] = set()
        """Ids of the messages that were found."""

    def hidden_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of the messages of turns that ask the same and have no answer that says
        anything. `ids` have all the words of the question.
        """
        self.hidden.update(_asked_before(self._space, self._question, ids))
        return np.array(sorted(self.hidden), np.int64)


def _asked_before(space: Space, question: str, ids: NDArray[np.int64]) -> list[int]:
    """Return what `Askings.hidden_of` does."""
    words = words_of(question) - EVERYDAY_WORDS
    if not question.rstrip().endswith(_QUESTION_MARKS) or not words or not len(ids):
        return []
    messages_found = Search(space.index).showable(ids, SearchScope())
    few = messages_found.only(messages_found.tokens <= _LONGER * estimate_tokens(question))
    newest = [few[at] for at in range(max(0, len(few) - _MOST), len(few))]
    turns = space.index.messages.of_each_turn({(it.number, it.turn_number) for it in newest})
    places: defaultdict[int, list[Place]] = defaultdict(list)
    for (number, _), of_turn in turns.items():
        places[number] += of_turn
    names = {it.id: number for number, it in space.index.conversations.by_number({*places}).items()}
    read = read_several(space, {name: sorted(places[names[name]]) for name in names})
    hidden: list[int] = []
    for name, messages in read.items():
        if isinstance(messages, StorageUnavailable):
            continue  # recall says so where it needs them
        saying = {
            it.turn_number
            for it in messages
            if not (_asks(it, words) if it.role is Role.USER else _says_nothing(it, words))
        }
        hidden += [
            message_id(names[name], it.sequence) for it in messages if it.turn_number not in saying
        ]
    return hidden


def _asks(message: Message, words: frozenset[str]) -> bool:
    """Return whether a message asks in the same words, whatever courtesy is around them."""
    text = message.content
    return text.rstrip().endswith(_QUESTION_MARKS) and words_of(text) - EVERYDAY_WORDS == words


def _says_nothing(answer: Message, words: frozenset[str]) -> bool:
    """Return whether an answer has only common words beside those of the question."""
    return (
        not answer.tool_calls
        and words_of(answer.content) <= words | EVERYDAY_WORDS | common_words() | IGNORANCE_WORDS
    )
