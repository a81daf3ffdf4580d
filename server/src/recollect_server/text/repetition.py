"""Finds what a context would say twice: a title or sentences of an abbreviation that stand word for
word in a message beside them.
"""

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from recollect_server.text.text import sentences

_MARK = "…"
_WORD = re.compile(r"\w+")
_SPEAKER = re.compile(r"(?P<name>[^\s:][^:\n]{0,60}): +(?=\S)")
_SPEAKERS = frozenset({"User", "Agent"})
"""Speakers in abbreviations of conversations without names."""
_TITLE = 20
"""Characters of a title, at the least, that is left out beside the message that it is the beginning
of: a shorter one is a name, and says what the message is about.
"""
_WORDS = 3
"""Words of a sentence, at the least, that is looked for: of fewer it may stand there by chance."""


def spoken(text: str) -> str:
    """Return the words of a text, in small letters between spaces."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


def spoken_together(texts: Iterable[str]) -> str:
    """Return the words of several texts (`spoken` each), none of which goes on in another."""
    return "|".join(texts)


def title_beside(title: str, shown: str) -> str:
    """Return a title, or nothing if the messages shown (`spoken_together`) have all of it. A short
    one may stand in a message; it is left out where it is all of one.
    """
    words = spoken(title)
    if len(title) < _TITLE:
        return "" if f"|{words}|" in f"|{shown}|" else title
    return "" if (words.rstrip() if title.endswith(_MARK) else words) in shown else title


class AbbreviationSentence(NamedTuple):
    text: str
    name: str
    """The words before a colon: they may name who spoke."""
    words: str
    """Its words, in small letters between spaces."""
    spoken: str
    """Those of them that stand behind the name."""


def sentences_of(abbreviation: str) -> tuple[AbbreviationSentence, ...]:
    """Return the sentences of an abbreviation that have words."""
    parts: list[AbbreviationSentence] = []
    for sentence in sentences(abbreviation):
        text = sentence.strip(f"{_MARK} ")
        match = _SPEAKER.match(text)
        words = spoken(text)
        if words.strip():
            spoken_words = spoken(text[match.end() :]) if match else words
            parts.append(
                AbbreviationSentence(sentence, match["name"] if match else "", words, spoken_words)
            )
    return tuple(parts)


def abbreviation_beside(
    abbreviation: Iterable[AbbreviationSentence], shown: str, speakers: Collection[str] = ()
) -> str:
    """Return an abbreviation without the sentences of the messages shown (`spoken_together`), with
    a mark in their place.

    Where the sentence that says who spoke is left out, the next one says so: `User`, `Agent` or one
    of `speakers`.
    """
    parts: list[str] = []
    speaker = named = ""
    is_left_out = False
    for sentence in abbreviation:
        is_named = sentence.name in _SPEAKERS or sentence.name in speakers
        words = sentence.spoken if is_named else sentence.words
        speaker = sentence.name if is_named else speaker
        if words.count(" ") > _WORDS and words in shown:
            is_left_out = True
            continue
        if is_left_out and parts:
            parts.append(_MARK)
        is_left_out = False
        is_missing = speaker != named and not is_named
        parts.append(f"{speaker}: {sentence.text}" if is_missing else sentence.text)
        named = speaker
    if not parts:
        return ""
    return " ".join([*parts, _MARK] if is_left_out else parts)
