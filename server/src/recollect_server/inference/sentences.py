"""Sentences of a conversation with what tells that one matters: names, figures, cues, where it stands."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recollect_server.domain.message import Message, Role
from recollect_server.domain.notes import spelt_words
from recollect_server.domain.stopwords import STOP_WORDS
from recollect_server.domain.text import UNSPACED_RUN, pairs, sentences
from recollect_server.inference.chatter import CHATTER

_MAX_SENTENCE = 320  # characters: a longer one is cut
_MAX_CONTENT = 20_000  # characters of a message that are read: the rest of a longer one is seldom prose
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# Each part stops where the next one could begin: else a message of nothing but such marks would take seconds.
_MARKS = re.compile(r"[*_`#>|~]+|^[ \t]*(?:[-•+]|\d+[.)])[ \t]+|\[([^\[\]]*)\]\([^()]*\)", re.MULTILINE)
_LEAD = re.compile(
    r"^(?:(?:hey|hi|hello|wow|oh|ah|aw+|yeah|yes|yep|yup|sure|thanks(?: so much| a lot| again)?|well|so|okay|ok|great"
    r"|cool|thank you(?: so much)?|awesome|nice|sounds good|absolutely|definitely|of course|good to (?:see|hear from) you|certainly"
    r"|got it)\b[\s,!.:-]*)+",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(?:decided?|agreed?|let's|let us|we'll|i'll|will|going to|plan(?:s|ned|ning)? to|chose|chosen|settled|from now on|must"
    r"|deadline|by (?:monday|tuesday|wednesday|thursday|friday|saturday|sunday))\b",
    re.IGNORECASE,
)
_OUTCOME = re.compile(
    r"\b(?:done|fixed|solved|resolved|works? now|finished|completed|result(?:s|ed)?|turned out|because|caused?|failed|won|passed"
    r"|started|joined|bought|got|made|went|signed up|finally|just|last (?:week|month|year|night|weekend)|yesterday)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a message."""

    text: str
    words: tuple[str, ...]
    """What it is about: lower case, without stop words and small talk; each once."""
    names: tuple[str, ...]
    """Words that begin with a capital within it, and those with a digit, as they stand."""
    worth: float
    """How much its cues and its place speak for it; 1 is the mean."""
    order: int


def sentences_of(said: Sequence[Message]) -> Iterator[Sentence]:
    """The sentences of what the user and the agent said that tell something, in order."""
    order = 0
    speaking = [message for message in said if message.role is not Role.TOOL]
    for place, message in enumerate(speaking):
        for number, text in enumerate(split(message.content)):
            words = tuple(dict.fromkeys(topical(text)))
            if len(words) > 1:  # "Melanie!" tells nothing
                yield Sentence(text, words, names_in(text), _worth(text, message.role, place, len(speaking), number), order)
                order += 1


def split(content: str) -> list[str]:
    """The sentences of a text without code, marks and opening pleasantries."""
    text = _MARKS.sub(lambda mark: mark.group(1) or " ", _CODE.sub("\n", content[:_MAX_CONTENT]))
    parts = (_LEAD.sub("", sentence) for sentence in sentences(text))
    return [part if len(part) <= _MAX_SENTENCE else part[: _MAX_SENTENCE - 1] + "…" for part in parts if part]


def topical(text: str) -> list[str]:
    """The words of a text that say what it is about, lower case; of a script without spaces its pairs of characters."""
    words: list[str] = []
    for word in spelt_words(text):
        if run := UNSPACED_RUN.search(word):
            words += pairs(run.group())[:-1] or [run.group()]
        elif len(word) > 1 and (low := word.lower().removesuffix("'s").removesuffix("’s")) not in STOP_WORDS and low not in CHATTER:
            words.append(low)
    return words


def names_in(text: str) -> tuple[str, ...]:
    """Words with a capital that do not begin the text, and words with a digit."""
    return tuple(
        word
        for place, word in enumerate(spelt_words(text))
        if (not word.isalpha() and any(letter.isdigit() for letter in word))
        or (place and word[0].isupper() and word.lower() not in STOP_WORDS and len(word) > 1)
    )


def _worth(text: str, role: Role, place: int, count: int, number: int) -> float:
    worth = 1.0 if role is Role.USER else 0.9
    if _DECISION.search(text):
        worth += 0.25
    if _OUTCOME.search(text):
        worth += 0.25
    if text.endswith(("?", "？")):
        # A question is open where nothing follows, and is the subject where all begins; in between its answer says more.
        worth += 0.2 if place < 1 or place >= count - 1 else -0.4
    if number == 0:
        worth += 0.1
    if place < 2:
        worth += 0.15
    return worth
