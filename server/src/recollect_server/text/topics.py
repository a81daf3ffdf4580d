"""The vocabulary of topics that the conversations of a space share: a near label is reused before a
new one is made.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from recollect_server.text.languages import (
    ENGLISH,
    SMALL_TALK,
    function_words,
    signs_of,
)
from recollect_server.text.text import UNSPACED_RUN, pairs

MAX_LABELS = 200
"""Labels of a space that are known to the writer of notes, the most used first."""
MAX_OFFLINE_TOPICS = 3
"""Topics of a conversation at most that a rule finds."""
_MAX_NEW = 2
"""Labels of a conversation that no other has; each that it shares makes that one less, down to
one.
"""
_MAX_REUSED = 3
_SAID = 3  # times that each word of a label was said in a conversation that it fits

_FIGURE = re.compile(r"\d+(?:st|nd|rd|th|h\d*|hrs?|mins?|kg|mg|ml|cm|mm|km|am|pm|usd|eur)")
"""A figure with its unit; "5g", "3d" and "401k" name something."""
_WORD = re.compile(r"[^\W_]{2,}")
_FUNCTION_SIGNS = (
    "[\u3040-\u309f]|[怎这那]么[办样]?|什么|哪[里儿个年]"
    "|[我你您他她它的了着过吗呢吧啊嘛呀哦是有和与跟把被给对从到去来要能想不没很最都也就还又再这那说几谁好]"
)
"""Hiragana and function words of Chinese."""
_PIECES = frozenset({"n", "t", "s", "d", "m", "ll", "re", "ve", "gon", "na", "wan", "ta", "y"})
"""Remains of contractions that are written apart (`do n't`, `gon na`)."""


def said_anywhere(language: str) -> frozenset[str]:
    """Return the words of a language that name no subject: they are said in conversations about
    anything. Of most languages these are nouns: others are recognised by what stands beside them.
    """
    return _said_anywhere().get(language, frozenset())


def content_words(text: str) -> set[str]:
    """Return the words of a text that name something: no function words of any language, and none
    that are said in conversations about anything. Of a script without spaces they are the pairs of
    the characters that are left.
    """
    words = {*_WORD.findall(text.lower())} - _little()
    for run in [it for it in words if UNSPACED_RUN.match(it) and it < "\uac00"]:
        words.remove(run)
        words.update(pairs(_little_signs().sub("", run))[:-1])
    return words


@cache
def _little() -> frozenset[str]:
    return function_words().union(_PIECES, SMALL_TALK, *_said_anywhere().values())


@cache
def _little_signs() -> re.Pattern[str]:
    """Return a pattern of words without spaces that name nothing, the longest first."""
    return re.compile(
        "|".join(sorted(signs_of(_little()), key=len, reverse=True)) + f"|{_FUNCTION_SIGNS}"
    )


@cache
def _said_anywhere() -> dict[str, frozenset[str]]:
    text = Path(__file__).with_name("said_anywhere.txt").read_text(encoding="utf-8")
    sections = re.findall(r"\[(\w+)\]\n([^\[]*)", text)
    return {language: frozenset(words.split()) for language, words in sections}


def stems(topic: str) -> frozenset[str]:
    """Return the words of a topic in the form by which two topics are compared: without the ends of
    English plurals.
    """
    return frozenset(_stem(word) for word in topic.split("-") if word)


def is_filler(topic: str) -> bool:
    """Return whether a topic names nothing: a number is in it, or it has only words that are said
    about anything.
    """
    words = topic.split("-")
    return any(word.isdigit() or word in _PIECES for word in words) or all(
        word in said_anywhere(ENGLISH) or len(word) < 2 or _FIGURE.fullmatch(word) for word in words
    )


def shared(topics: Sequence[str], labels: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """Return topics without fillers, each as the label that other conversations have for it, where
    there is one.

    `labels` are those of the space with how often each is used, the most used first. A label that
    several conversations have also stands for a narrower topic that has all of its words.
    """
    same: dict[frozenset[str], str] = {}
    wide: list[tuple[frozenset[str], str]] = []
    for label, count in labels:
        if not is_filler(label):
            same.setdefault(stems(label), label)
            if count > 1:
                wide.append((stems(label), label))
    pairs: list[tuple[str, str]] = []
    for topic in topics:
        if not is_filler(topic):
            key = stems(topic)
            pairs.append(
                (topic, same.get(key) or next((label for words, label in wide if words < key), ""))
            )
    new = [topic for topic, label in pairs if not label]
    unshared = set(new[: max(1, _MAX_NEW - len({label for _, label in pairs if label}))])
    return tuple(
        dict.fromkeys(label or topic for topic, label in pairs if label or topic in unshared)
    )


def fitting(labels: Sequence[tuple[str, int]], frequencies: Mapping[str, int]) -> list[str]:
    """Return the labels of a space whose every word occurs several times in a conversation, the
    most frequent first.

    `frequencies`: the number of times that each word occurs, lower case.
    """
    counts: dict[str, int] = {}
    for word, count in frequencies.items():
        counts[_stem(word)] = counts.get(_stem(word), 0) + count
    fits = [
        (min(counts.get(word, 0) for word in stems(label)), label)
        for label, count in labels
        if count > 1 and not is_filler(label)
    ]
    ranked = sorted((it for it in fits if it[0] >= _SAID), key=lambda it: -it[0])
    return [label for _, label in ranked[:_MAX_REUSED]]


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and re.search(r"(?:ch|sh|ss|x|z)es$", word):
        return word[:-2]
    return (
        word[:-1]
        if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
        else word
    )
