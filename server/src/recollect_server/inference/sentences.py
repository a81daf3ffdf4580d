"""Sentences of a conversation with what tells that one matters: names, figures, cues, where it
stands.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from recollect_server.domain.languages import ENGLISH, STOP_WORDS, language_of, stop_words
from recollect_server.domain.message import Message, Role
from recollect_server.domain.notes import spelt_words
from recollect_server.domain.text import GERMAN_MONTH, UNSPACED_RUN, pairs, sentences
from recollect_server.inference.chatter import CHATTER
from recollect_server.inference.phrases import CORRECTION, NEGATION, PLEASANTRIES, phrases_of

_MAX_SENTENCE = 320  # characters: a longer one is cut
# characters of a message that are read: the rest of a longer one is seldom prose
_MAX_CONTENT = 20_000
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# Whole lines that are no prose: headings, tables, lines between paragraphs.
_NO_PROSE = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t][^\n]*|\*\*[^*\n]{1,120}\*\*:?[ \t]*|\|[^\n]*\|[ \t]*|[-*_=]{3,}[ \t]*"
    r"|(?:Sent from my|Envoyé de mon|Enviado desde mi|Enviado do meu|Inviato dal mio) [^\n.!?]{1,30}"
    r"|Von meinem [^\n.!?]{1,30} gesendet)$",
    re.MULTILINE,
)
# Each part stops where the next one could begin: else a message of nothing but such marks would
# take seconds.
_MARKS = re.compile(
    rf"\*{{2,}}|(?<!\w)[*_`]+(?=\S)|(?<=\S)[*_`]+(?!\w)|`+|^[ \t]*(?:>[> \t]*)?(?:[-•+*]|\d{{1,3}}[.)](?!\d"
    rf"|[ \t]+{GERMAN_MONTH}))[ \t]+"
    r"|^[ \t]*>[> \t]*|\[([^\[\]]*)\]\([^()]*\)",
    re.MULTILINE,
)
_CODE_MARKS = re.compile(r"[{}<>=;$\\|]|\w\(|\)\.|::|->")
_COMMAND = re.compile(
    r"(?:[$%#] |(?:import|from|def|class|return|const|let|var|sudo|SELECT|INSERT|#include|pip|npm|git) )[^!?]*$"
)
_UNMARKED_QUESTION = re.compile(
    r"(?:(?:ok|okay|so|and|but|then|also|btw)\b[, ]*)*"
    r"(?:(?:what|where|when|why|who|how)(?:['’]?s| is| are| do| does| did| can| could| should| would| will)\b"
    r"|how (?:much|many|long|deep|far|often|to)\b|what (?:about|else|if)\b|which (?:one|of|\w+ (?:is|are|should|do|would))\b"
    r"|(?:should|can|could|will|does|did|is|are|am) (?:i|we|u|it|he|she|they|there|this|that|the|my)\b"
    r"|(?:can|could|will|do) (?:you|u|i|we)\b)",
    re.IGNORECASE,
)
_TRACE = re.compile(
    r"Traceback \(most recent call last\):|File \"[^\"]+\", line \d+.*|at [\w.$<>/ ]+\([^()]*\)"
    r"|[\w.]+(?:\[[^\]]*\])? = [\w.]+\(.*\);?|(?:async )?(?:def|func|function) \w+ ?\(.*|\$ [a-z./].*"
)
"""A line of a stack trace or the code that one quotes, the head of a function, or a line after the
prompt of a shell.
"""
_ERROR = re.compile(
    r"^[ \t]*(?:[\w.]*(?:Error|Exception)\b.*: |(?:ERROR|FATAL|Error|error|npm ERR!)[: ])",
    re.MULTILINE,
)
_ENTRY = re.compile(r"[^.:!?]{2,60}: (?:\S+ ?){1,4}")  # `Price: 20 euros.`
_ENDS = (".", "!", "?", "…", "。", "！", "？", "؟", "۔", "।", "｡")
_JAPANESE_QUESTIONS = ("ですか", "ますか", "でしょうか", "ませんか", "ましたか", "でしたか")
_CLOSING = "\"'”’»)]」』）"
_SMILEY = re.compile(r"\s+[:;]['-]?[()DP]+\s*$")
_STEM = 5  # characters that forms of one word have in common
_WHOLE_UNSPACED = 6  # characters of a sentence without spaces: more than two words
_IDEOGRAPHIC = re.compile("[\u3005-\u30ff\u3400-\u9fff]")  # Korean has full stops of Latin script
_DECISION = re.compile(
    r"\b(?:decided?|agreed?|let's|let us|we'll|i'll|will|going to|plan(?:s|ned|ning)? to|chose|chosen|settled"
    r"|from now on|must"
    r"|deadline|by (?:monday|tuesday|wednesday|thursday|friday|saturday|sunday))\b",
    re.IGNORECASE,
)
_OUTCOME = re.compile(
    r"\b(?:done|fixed|solved|resolved|works? now|finished|completed|result(?:s|ed)?|turned out|because|caused?"
    r"|failed|won|passed"
    r"|started|joined|bought|got|made|went|signed up|finally|just|last (?:week|month|year|night|weekend)"
    r"|yesterday)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a message."""

    text: str
    words: tuple[str, ...]
    """Distinct topical words: lower case, without stop words and small talk."""
    names: tuple[str, ...]
    """Words that begin with a capital within it, and those with a digit, as they stand."""
    worth: float
    """Weight by cues and position; 1 is the mean."""
    order: int
    message: int
    """Place of its message among those of the user and the agent, from 0."""
    role: Role
    speaker: str
    """The sender's name where it is stored, else empty."""
    leans: bool
    """True if it begins with a word that refers to the sentence before it."""
    whole: bool
    """True if it reads as a sentence, not as a heading, an entry of a list or the lead of one."""
    denies: bool = False
    """True if the user takes back or refuses in it what was said just before."""


def is_question(text: str) -> bool:
    """Return whether a sentence ends with a question mark or is a question of polite Japanese."""
    end = text.rstrip(_CLOSING)
    return end.endswith(("?", "？", "؟")) or end.rstrip("。").endswith(_JAPANESE_QUESTIONS)


def asks(text: str) -> bool:
    """Return whether a sentence is a question, also a hurried one of English without a mark."""
    return is_question(text) or (
        not text.rstrip(_CLOSING).endswith(_ENDS) and _UNMARKED_QUESTION.match(text) is not None
    )


def ended(text: str) -> str:
    """Return a sentence with a mark at its end."""
    if text.rstrip(_CLOSING).endswith(_ENDS):
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
    order = 0
    earlier_words: set[str] = set()
    speaking = spoken(messages)
    language = language_of(message.content for message in speaking)
    phrases = phrases_of(language)
    words_before: set[str] = set()
    for place, message in enumerate(speaking):
        message_words: set[str] = set()
        for number, text in enumerate(split(message.content)):
            words = tuple(dict.fromkeys(topical(text, language)))
            message_words.update(stemmed(words))
            denies = (
                message.role is Role.USER
                and not is_question(text)
                and (
                    CORRECTION.match(text) is not None
                    or (
                        not words_before.isdisjoint(stemmed(words))
                        and NEGATION.search(text) is not None
                    )
                )
            )
            # "Melanie!" tells nothing; "Let's go with the strudel" does, once that was offered, and
            # "why does this not work" with the code below it.
            settles = denies or phrases.decision.search(text) is not None
            leads = (
                place == number == 0 and message.role is Role.USER and _shows_code(message.content)
            )
            tells = (
                leads
                or len(words) > 1
                or (settles and bool(words) and (denies or not earlier_words.isdisjoint(words)))
            )
            earlier_words.update(words)
            if tells:
                least = 2 if settles or leads else 3
                whole = _is_whole(text, message.role, language, least)
                worth = _worth(text, message.role, place, len(speaking), number) * (
                    1 if whole else 0.3
                )
                leans = bool(phrases.leaning.match(text))
                yield Sentence(
                    text,
                    words,
                    names_in(text, language),
                    worth,
                    order,
                    place,
                    message.role,
                    message.sender,
                    leans,
                    whole,
                    denies,
                )
                order += 1
        # People who are named talk with each other: there a denial is seldom a refusal.
        words_before = set() if message.sender else message_words


def split(content: str) -> list[str]:
    """Split a text into sentences, without code, headings, markup and opening pleasantries.

    No word of negation is left out of a sentence: one that is cut at its end keeps them all, or is
    left out whole.
    """
    text = _NO_PROSE.sub("", _CODE.sub("\n", content[:_MAX_CONTENT]))
    text = _MARKS.sub(lambda mark: mark.group(1) or ("" if mark.group()[0] in "*_`" else " "), text)
    parts: list[str] = []
    for sentence in sentences(text):
        plain = opened(sentence)
        if plain and not _is_code(plain) and (short := _shortened(plain)):
            parts.append(short)
    return parts


def opened(sentence: str) -> str:
    """Return a sentence without the pleasantries that open it, beginning with a capital if it
    did.
    """
    match = PLEASANTRIES.match(sentence)
    if match is None:
        return sentence
    rest = sentence[match.end() :]
    return rest[:1].upper() + rest[1:] if sentence[:1].isupper() else rest


def topical(text: str, language: str = ENGLISH) -> list[str]:
    """Return the topical words of a text, lower case; of a script without spaces its pairs of
    characters.
    """
    stops = stop_words(language)
    words: list[str] = []
    for word in spelt_words(text):
        if run := UNSPACED_RUN.search(word):
            words += [pair for pair in pairs(run.group())[:-1] if pair not in stops] or [
                run.group()
            ]
        elif len(word) > 1:
            low = word.lower().removesuffix("'s").removesuffix("’s")
            if low not in STOP_WORDS and low not in CHATTER and low not in stops:
                words.append(low)
    return words


def names_in(text: str, language: str = ENGLISH) -> tuple[str, ...]:
    """Return the names in a text: capitalised words that do not begin it, and words with a
    digit.
    """
    stops = stop_words(language)
    return tuple(
        word
        for place, word in enumerate(spelt_words(text))
        if (not word.isalpha() and any(letter.isdigit() for letter in word))
        or (
            place
            and word[0].isupper()
            and (low := word.lower()) not in STOP_WORDS
            and low not in stops
            and len(word) > 1
        )
    )


def _is_whole(text: str, role: Role, language: str, least: int) -> bool:
    end = _SMILEY.sub("", text).rstrip(_CLOSING)
    if (
        text.startswith(("[", "("))
        or end.endswith((":", "：", ",", ";", "-", "–", "—"))
        or (_ENTRY.fullmatch(text) and not _ERROR.match(text))
    ):
        return False
    if end.endswith(_ENDS):
        return True
    # People leave the last full stop out; what else has none is an entry of a list or a heading.
    return role is Role.USER and (
        len(spelt_words(text)) >= least
        or (
            language in {"ja", "zh"}
            and sum(map(len, UNSPACED_RUN.findall(text))) >= _WHOLE_UNSPACED
        )
    )


def _shows_code(content: str) -> bool:
    """Return whether a message has code, a command or an error on lines of its own."""
    start = content[:_MAX_CONTENT]
    return (
        _CODE.search(start) is not None
        or _ERROR.search(start) is not None
        or any(_is_code(line) for line in map(str.strip, start.splitlines()) if line)
    )


def _is_code(text: str) -> bool:
    """Return whether a line is rather code, a command or a formula than prose."""
    if _TRACE.fullmatch(text):
        return True
    marks = len(_CODE_MARKS.findall(text))
    return (marks > 2 and marks * 12 > len(text)) or (marks > 1 and bool(_COMMAND.match(text)))


def _shortened(sentence: str) -> str:
    """Return a sentence that is too long to its last comma or word that fits; nothing if that would
    drop a negation.
    """
    if len(sentence) <= _MAX_SENTENCE:
        return sentence
    room = _MAX_SENTENCE - 1
    marks = [
        sentence.rfind(mark, room // 2, room)
        for mark in (", ", "; ", ": ", " – ", " — ", "，", "、", "；")
    ]
    cut = max(marks)
    if cut < 0:
        cut = sentence.rfind(" ", room // 2, room)
    cut = cut if cut > 0 else room
    return "" if NEGATION.search(sentence, cut) else sentence[:cut].rstrip(" ,;:–—") + "…"


def _worth(text: str, role: Role, place: int, count: int, number: int) -> float:
    worth = 1.0 if role is Role.USER else 0.9
    if _DECISION.search(text):
        worth += 0.25
    if _OUTCOME.search(text):
        worth += 0.25
    if is_question(text):
        # A question is open where nothing follows, and is the subject where all begins; in between
        # its answer says more.
        worth += 0.2 if place < 1 or place >= count - 1 else -0.4
    if number == 0:
        worth += 0.1
    if place < 2:
        worth += 0.15
    return worth
