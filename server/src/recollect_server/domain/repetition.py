"""Finds what a context would say twice: a title or sentences of an abbreviation that stand word for
word in a message beside them.
"""

import re
from collections.abc import Collection, Sequence

from recollect_server.domain.text import sentences

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


class Spoken:
    """The words of messages. Those of each text are kept for the next time it is asked for."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def words(self, texts: Sequence[str]) -> str:
        """Return the words of some texts, in small letters between spaces."""
        self._words |= {text: _words(text) for text in texts if text not in self._words}
        return "|".join(self._words[text] for text in texts)


def title_beside(title: str, spoken: str) -> str:
    """Return a title, or nothing if messages with these words have all of it."""
    if len(title) < _TITLE:
        return title
    words = _words(title)
    return "" if (words.rstrip() if title.endswith(_MARK) else words) in spoken else title


def abbreviation_beside(abbreviation: str, spoken: str, speakers: Collection[str] = ()) -> str:
    """Return an abbreviation without the sentences that messages with these words have, and with a
    mark in their place.

    Where the sentence that says who spoke is left out, the next one says so: `User`, `Agent` or one
    of `speakers`.
    """
    parts: list[str] = []
    speaker = named = ""
    is_left_out = False
    for sentence in sentences(abbreviation):
        text = sentence.strip(f"{_MARK} ")
        match = _SPEAKER.match(text)
        is_named = match is not None and (match["name"] in _SPEAKERS or match["name"] in speakers)
        if match and is_named:
            speaker, text = match["name"], text[match.end() :]
        words = _words(text)
        if words.count(" ") > _WORDS and words in spoken:
            is_left_out = True
            continue
        if not words.strip():
            continue
        if is_left_out and parts:
            parts.append(_MARK)
        is_left_out = False
        parts.append(f"{speaker}: {sentence}" if speaker != named and not is_named else sentence)
        named = speaker
    if not parts:
        return ""
    return " ".join([*parts, _MARK] if is_left_out else parts)


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.lower()))} "
