"""Sentences of a conversation with what tells that one matters: its words, its names and figures,
where it stands.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from recollect_server.kernel.domain.message import Message, Role
from recollect_server.notes.notes import spelt_words
from recollect_server.notes.offline.phrases import LEANING, NEGATION, PLEASANTRIES
from recollect_server.text.languages import ENGLISH, STOP_WORDS, language_of, stop_words
from recollect_server.text.languages import says_little as is_small_talk
from recollect_server.text.prose import prose_of
from recollect_server.text.text import CLOSING, UNSPACED_RUN, is_question, pairs
from recollect_server.text.topics import said_anywhere

_MAX_SENTENCE = 320  # characters: a longer one is cut
_ENDS = (".", "!", "?", "…", "。", "！", "？", "؟", "۔", "।", "｡")
_STEM = 5  # characters that forms of one word have in common
_IDEOGRAPHIC = re.compile("[\u3005-\u30ff\u3400-\u9fff]")  # Korean has full stops of Latin script
_PAUSE = re.compile("[,;:] | [–—] |[，、；]")


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str
    words: tuple[str, ...]
    """Distinct topical words: lower case, without stop words."""
    names: tuple[str, ...]
    """Words that begin with a capital within it, and those with a digit, as they stand."""
    worth: float
    """Weight by role and position; 1 is the mean."""
    order: int
    message: int
    """Place of its message among those of the user and the agent, from 0."""
    role: Role
    speaker: str
    """The sender's name where it is stored, else empty."""
    leans: bool
    """True if it begins with a word that refers to the sentence before it."""
    whole: bool
    """True if it reads as a sentence, not as an entry of a list or the lead of one."""


def ended(text: str) -> str:
    """Return a sentence with a mark at its end."""
    if text.rstrip(CLOSING).endswith(_ENDS):
        return text
    return text.rstrip(" ,;:-–—") + ("。" if _IDEOGRAPHIC.search(text[-3:]) else ".")


def stemmed(words: Iterable[str]) -> set[str]:
    """Return the beginnings by which two words are taken for forms of one."""
    return {word[:_STEM] for word in words}


def spoken(messages: Sequence[Message]) -> list[Message]:
    """Return the messages of the user and the agent."""
    return [message for message in messages if message.role is not Role.TOOL]


def sentences_of(messages: Sequence[Message]) -> Iterator[Sentence]:
    """Yield the informative sentences of the user and the agent, in order."""
    speaking = spoken(messages)
    language = language_of(message.content for message in speaking)
    order = 0
    before: set[str] = set()  # words of the other side's message before
    for place, message in enumerate(speaking):
        here: set[str] = set()
        is_users = message.role is Role.USER
        for number, text in enumerate(split(message.content)):
            words = tuple(dict.fromkeys(topical(text, language)))
            here |= stemmed(words)
            is_asked = is_users and not message.sender and not is_small_talk(text)
            begins = is_asked and place == 0 and " " in text
            # "Melanie!" tells nothing; "the strudel" does once that was offered, and "Weather?"
            # to an agent.
            if (
                begins
                or len(words) > 1
                or (words and is_users and not before.isdisjoint(stemmed(words)))
                or (words and is_asked and is_question(text))
            ):
                end = text.rstrip(CLOSING)
                whole = text[0] != "[" and (
                    end.endswith(_ENDS) or (is_users and not text.endswith((":", "：", ",")))
                )
                # The first sentence of a long answer says what the others go into.
                worth = 1.0 if is_users or message.sender else 1.2 if number == 0 else 0.8
                worth += 0.1 * (number == 0) + 0.15 * (place < 2)
                if is_question(text):
                    # open where nothing follows, the subject where all begins; in between its
                    # answer says more
                    worth += 0.2 if place < 1 or place >= len(speaking) - 1 else -0.4
                yield Sentence(
                    text,
                    words,
                    names_in(text, language),
                    worth * (1 if whole else 0.3),
                    order,
                    place,
                    message.role,
                    message.sender,
                    LEANING.match(text) is not None,
                    whole,
                )
                order += 1
        # People who are named talk with each other: there a denial is seldom a refusal.
        before = set() if message.sender else here


def split(content: str) -> list[str]:
    """Split a message into its sentences without opening pleasantries. No word of negation is left
    out of one: that which is too long keeps them all, or is left out whole.
    """
    parts = map(_opened, prose_of(content))
    return [short for part in parts if part and (short := _shortened(part))]


def topical(text: str, language: str = ENGLISH) -> list[str]:
    """Return the words of a text that are no stop words, lower case; of a script without spaces its
    pairs of characters.
    """
    stops = stop_words(language)
    words: list[str] = []
    for word in spelt_words(text):
        if run := UNSPACED_RUN.search(word):
            words += [pair for pair in pairs(run.group())[:-1] if pair not in stops] or [
                run.group()
            ]
        elif word.isdigit():
            words.append(word)
        elif len(word) > 1:
            low = word.lower().replace("’", "'").removesuffix("'s")
            if low.split("'")[0] not in STOP_WORDS and low not in stops:
                words.append(low)
    return words


def says_little(word: str, language: str) -> bool:
    """Return whether a topical word is said in conversations about anything."""
    return word in said_anywhere(ENGLISH) or word in said_anywhere(language)


def names_in(text: str, language: str = ENGLISH) -> tuple[str, ...]:
    """Return the names in a text: capitalised words that do not begin it, and words with a
    digit.
    """
    stops = STOP_WORDS | stop_words(language)
    return tuple(
        word
        for place, word in enumerate(spelt_words(text))
        if any(map(str.isdigit, word))
        or (place and word[0].isupper() and word.lower() not in stops and len(word) > 1)
    )


def _opened(sentence: str) -> str:
    """Return a sentence without the pleasantries that open it, beginning with a capital if it
    did.
    """
    match = PLEASANTRIES.match(sentence)
    rest = sentence[match.end() :] if match else sentence
    return rest[:1].upper() + rest[1:] if sentence[:1].isupper() else rest


def _shortened(sentence: str) -> str:
    """Return a sentence that is too long to its last pause or word that fits; nothing if that would
    drop a negation.
    """
    if len(sentence) <= _MAX_SENTENCE:
        return sentence
    pauses = [it.start() for it in _PAUSE.finditer(sentence, _MAX_SENTENCE // 2, _MAX_SENTENCE - 1)]
    cut = pauses[-1] if pauses else sentence.rfind(" ", _MAX_SENTENCE // 2, _MAX_SENTENCE - 1)
    cut = cut if cut > 0 else _MAX_SENTENCE - 1
    return "" if NEGATION.search(sentence, cut) else sentence[:cut].rstrip(" ,;:–—") + "…"
