"""Relevance of a message in a context: how new it is, how near to the question, and whether an
anchor came from it.
"""

import math
import re
from collections.abc import Iterable

from recollect_server.domain.languages import (
    ASKER_WORDS,
    EVERYDAY_WORDS,
    REFERENCE_WORDS,
    STOP_WORDS,
)
from recollect_server.domain.text import UNSPACED_RUN, normal_form, pairs
from recollect_server.domain.time import DAY

_WORD = re.compile(r"\w+")
_NAME = re.compile(r"(?<=[^.!?\s] )(?!I\b)[A-Z]")
"""A capital within a sentence: a message that names somebody is of them."""
_LONG, _FEW = 120, 3
"""Characters of a message, and words with a subject, that one has at the most which leans on what
was said before it.
"""
# It begins where a sentence does: from each of its characters the rest would be read again, in a
# time that grows with the square of the sentence.
_QUESTION = re.compile("(?<![^.!?？؟。\n])[^.!?？؟。\n]*[?？؟]")
# of scripts without spaces, where they are looked for anywhere; Korean has spaces
_ASKER_SIGNS, _REFERENCE_SIGNS = (
    tuple(it for it in words if UNSPACED_RUN.match(it) and it < "\uac00")
    for words in (ASKER_WORDS, REFERENCE_WORDS)
)
# "tell me" is no such question, nor are "for me" and "with me" in Chinese
_ADDRESSED = re.compile("[给給跟对對帮幫教让讓陪请請诉訴]我")


_RECENCY, _SIMILARITY, _ANCHOR = 0.5, 0.3, 0.2
"""Weights of the three parts of relevance; their sum is 1."""
_DECAY = 0.1  # of recency, a day: weight = exp(-decay x age in days)


def relevance_of(*, age: int, similarity: float, anchor: float) -> float:
    """Return the weighted mean of recency (`age` in milliseconds), similarity and anchor strength,
    each from 0 to 1.
    """
    recency = math.exp(-_DECAY * max(0, age) / DAY)
    return _RECENCY * recency + _SIMILARITY * similarity + _ANCHOR * anchor


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


def speaks_of_asker(message: str) -> bool:
    """Return whether a message has a word of the first person: "What is my name?" asks of the past
    in words of small talk.
    """
    lowered = message.lower()
    if not ASKER_WORDS.isdisjoint(_WORD.findall(lowered)):
        return True
    if lowered.isascii():
        return False
    spoken = _ADDRESSED.sub("", lowered)
    return any(sign in spoken for sign in _ASKER_SIGNS)


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


def evenly(first: int, last: int, count: int) -> Iterable[int]:
    """Return at most `count` whole numbers from `first` to `last`, evenly spaced."""
    if last - first + 1 <= count:
        return range(first, last + 1)
    return (
        [first + round(at * (last - first) / (count - 1)) for at in range(count)]
        if count > 1
        else [first]
    )
