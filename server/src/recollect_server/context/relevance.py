"""Words of a message in a context: what it is about, whether it leans on the one before, and
whether it speaks of who asks.
"""

import re
from collections import Counter
from collections.abc import Sequence, Set
from itertools import chain
from math import log1p

from recollect_server.recall.model.statement import SURE_INSTRUCTION, ProfileStatement
from recollect_server.text.languages import (
    ASKER_WORDS,
    EVERYDAY_WORDS,
    REFERENCE_WORDS,
    STOP_WORDS,
    signs_of,
)
from recollect_server.text.text import UNSPACED_RUN, normal_form, pairs

_WORD = re.compile(r"\w+")
_NAME = re.compile(r"(?<=[^.!?\s] )(?!I\b)[A-Z]")
"""A capital within a sentence: a message that names somebody is of them."""
_STEM = 6  # characters of a word that endings leave alone, for the most part
_LONG, _FEW = 120, 3
"""Characters of a message, and words with a subject, that one has at the most which leans on what
was said before it.
"""
# It begins where a sentence does: from each of its characters the rest would be read again, in a
# time that grows with the square of the sentence.
_QUESTION = re.compile("(?<![^.!?？؟。\n])[^.!?？؟。\n]*[?？؟]")
# of scripts without spaces, where they are looked for anywhere; Korean has spaces
_REFERENCE_SIGNS = signs_of(REFERENCE_WORDS)


def words_of(text: str) -> frozenset[str]:
    """Return the lower-cased words of a text without stop words; of scripts without spaces, pairs
    of characters.
    """
    form = normal_form(text)
    words = frozenset(_WORD.findall(form.lower())) - STOP_WORDS
    return words if form.isascii() else words.union(*map(pairs, UNSPACED_RUN.findall(form)))


def words_stated(text: str) -> frozenset[str]:
    """Return the words of a text that are not everyday ones, without its questions."""
    return words_of(_QUESTION.sub(" ", text)) - EVERYDAY_WORDS


def overlap(words: frozenset[str], text: str) -> float:
    """Return the share of the question's words that stand in a text, from 0 to 1."""
    return len(words & words_of(text)) / len(words) if words else 0.0


def by_occasion(instructions: Sequence[ProfileStatement], question: str) -> list[ProfileStatement]:
    """Return instructions in the order in which they govern the answer to a question: those that
    are sure to be any before others, of these by the share of their words, weighed by how rare
    these are among them, that begin as words of the question do. Of equal ones the order stays.
    """
    of_question = _beginnings(question)
    words = [_beginnings(it.text) for it in instructions]
    among = Counter(chain.from_iterable(words))

    def weight(of: Set[str]) -> float:
        return sum(log1p(len(words) / among[it]) for it in of)

    def place(at: int) -> tuple[bool, float]:
        share = weight(words[at] & of_question) / weight(words[at]) if words[at] else 0.0
        return instructions[at].probability < SURE_INSTRUCTION, -share

    return [instructions[at] for at in sorted(range(len(words)), key=place)]


def _beginnings(text: str) -> Set[str]:
    """Return words without their endings, as roughly as all languages allow."""
    return {it[:_STEM] for it in words_of(text)}


def leans(message: str) -> bool:
    """Return whether a message is a short one that does not say alone what it is about: "When was
    that?"
    """
    lowered = message.lower()
    if len(lowered) > _LONG or _NAME.search(message):
        return False
    spoken = {*_WORD.findall(lowered)}
    telling = spoken - STOP_WORDS - EVERYDAY_WORDS - REFERENCE_WORDS - ASKER_WORDS
    refers = not REFERENCE_WORDS.isdisjoint(spoken) or any(it in lowered for it in _REFERENCE_SIGNS)
    return refers and len(telling) <= _FEW
