"""The notes that are taken of a conversation, and the rules for those of any writer: a
model or a rule.

A writer's answer is a draft. What has a right form by a small change (a title's capitals, a topic's
hyphens, an abbreviation that is somewhat long) is given it; what says nothing is left out. Only
without an abbreviation there are no notes.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recollect_server.kernel.domain.conversation import Conversation, Split
from recollect_server.kernel.domain.message import BYTES_PER_TOKEN, estimate_tokens
from recollect_server.text.languages import ENGLISH, STOP_WORDS, guess_language, language_of
from recollect_server.text.text import UNSPACED_RUN, sentence_ends

MIN_ABBREVIATION, MAX_ABBREVIATION = 100, 200
"""Estimated tokens of an abbreviation. The lower bound holds only where that much was said."""
MAX_SUMMARY = 500  # estimated tokens of a compaction's summary
MIN_TITLE_WORDS, MAX_TITLE_WORDS = 2, 6
MAX_TITLE = 80  # characters
MAX_TOPICS = 5
MAX_TOPIC = 40  # characters
MAX_ANCHORS = 16
# characters; the contract allows 1,000, and nothing that a person says of himself is that long
MAX_ANCHOR_VALUE = 200
MAX_SPLIT_TITLES = 5
MAX_REASON = 300  # characters

_KEY = re.compile(r"[a-z0-9_.-]{1,64}")
# A letter or digit. The vowel signs of Indic scripts and the points of Arabic are parts of words.
_LETTER = "(?:[^\\W_]|[\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0951-\u0963\u0981-\u0983\u09bc-\u09cd"
_LETTER += "\u0b82\u0bbe-\u0bcd\u0c00-\u0c04\u0c3e-\u0c56\u0e31\u0e34-\u0e3a\u0e47-\u0e4e])"
_WORD = re.compile(rf"{_LETTER}+(?:['’.+#&-]{_LETTER}+|[+#]+)*")
_PART = re.compile(f"{_LETTER}+")
_IDENTIFIER = re.compile(r"\w_\w|[^\W\d]\.[^\W\d]")  # `test_login`, `sync.py`
# Small words stay small inside a title, as in the usual title case.
_SMALL = frozenset(
    [
        "a",
        "an",
        "and",
        "as",
        "at",
        "but",
        "by",
        "for",
        "from",
        "in",
        "into",
        "nor",
        "of",
        "on",
        "or",
        "the",
        "to",
        "vs",
        "via",
        "with",
    ]
)


class WrongNotes(Exception):
    """Text that is not notes of the right form; the error says why."""


@dataclass(frozen=True, slots=True)
class FoundAnchor:
    """A lasting fact about the user, with how sure it is (0 to 1) and the line of the message it
    came from.
    """

    key: str
    value: str
    """Empty: the user takes back what holds for the key."""
    confidence: float
    sequence: int


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes of a conversation, each part in its right form. An empty title: none could be made."""

    abbreviation: str
    title: str = ""
    topics: tuple[str, ...] = ()
    anchors: tuple[FoundAnchor, ...] = ()
    split: Split | None = None


def notes_of(draft: Notes, sequences: Iterable[int], language: str = "") -> Notes:
    """Return the notes that a draft stands for. `sequences` are the lines that may be the source of
    an anchor, `language` is that of the conversation, where known. Raises WrongNotes.
    """
    abbreviation = clipped(" ".join(draft.abbreviation.split()), MAX_ABBREVIATION)
    if not abbreviation:
        raise WrongNotes("there is no abbreviation")
    lines = frozenset(sequences)
    anchors = [anchor for draft_anchor in draft.anchors if (anchor := _anchor(draft_anchor, lines))]
    latest = {it.key: it for it in sorted(anchors, key=lambda it: it.sequence)}
    topics = dict.fromkeys(topic for text in draft.topics if (topic := topic_of(text)))
    return Notes(
        abbreviation,
        title_of(draft.title, language),
        tuple(topics)[:MAX_TOPICS],
        tuple(latest.values())[:MAX_ANCHORS],
        _split(draft.split),
    )


def title_of(text: str, language: str = "") -> str:
    """Return the text as a title of 2 to 6 words and 80 characters at most, shortened to its
    beginning where it is longer; empty if it cannot be one.

    English is put in title case; in other languages only the first letter becomes a capital.
    `language` is that of the conversation, where known: a few words may look English and be French.
    """
    words = [word.strip("\"'“”‘’*#`.;:!?()[]¿¡؟。！？") for word in text.rstrip(" ,.").split()]
    words = [word for word in words if word]
    least, most = _counted(words)
    while words and (most > MAX_TITLE_WORDS or len(" ".join(words)) > MAX_TITLE):
        if len(words) == 1:
            words = [words[0][: 3 * MAX_TITLE_WORDS]] if least > MIN_TITLE_WORDS else []
        else:
            words.pop()
        while len(words) > MIN_TITLE_WORDS and words[-1].lower() in STOP_WORDS:
            words.pop()
        least, most = _counted(words)
    if least < MIN_TITLE_WORDS:
        return ""
    if language in ("", ENGLISH) and _is_english(" ".join(words)):
        last = len(words) - 1
        title = " ".join(
            _cased(word, inside=0 < number < last) for number, word in enumerate(words)
        )
    else:
        title = " ".join(words)
        title = title[:1].upper() + title[1:]
    return title


def _counted(words: Sequence[str]) -> tuple[int, int]:
    """Return how many words a title has at most and at least: of a script without spaces a word has
    about two characters, and a title may have a half more of them.
    """
    unspaced = [sum(map(len, UNSPACED_RUN.findall(word))) for word in words]
    return (
        sum(max(1, -(-length // 2)) for length in unspaced),
        sum(max(1, length // 3) for length in unspaced),
    )


def _is_english(title: str) -> bool:
    """Return whether a title is English. Where its words do not tell, its letters do."""
    if language_of([title]) != ENGLISH:
        return False
    is_plain = not any(it.isalpha() and not it.isascii() for it in title)
    return is_plain or guess_language(title) == ENGLISH


def topic_of(text: str) -> str:
    """Return the text in kebab-case (`Server monitoring` -> `server-monitoring`), empty without a
    letter or digit.
    """
    # A capital I with a dot has two characters when it is small.
    parts = _PART.findall(text.casefold().replace("i\u0307", "i"))
    topic = ""
    for part in parts:
        longer = f"{topic}-{part}" if topic else part
        if len(longer) > MAX_TOPIC:
            break
        topic = longer
    return topic


def clipped(text: str, tokens: int) -> str:
    """Return the text, cut to `tokens` estimated tokens at the end of a sentence or of a word."""
    if estimate_tokens(text) <= tokens:
        return text
    start = text.encode()[: tokens * BYTES_PER_TOKEN - len("…".encode())].decode(errors="ignore")
    ends = sentence_ends(start)
    if ends and ends[-1] > len(start) // 2:
        return start[: ends[-1]].rstrip()
    cut = start.rfind(" ")
    return start[: cut if cut > len(start) // 2 else None].rstrip() + "…"


def spelt_words(text: str) -> list[str]:
    """Return the words of a text unchanged, with their inner marks (`don't`, `C++`, `node.js`)."""
    return _WORD.findall(text)


def _cased(word: str, *, inside: bool) -> str:
    if inside and word.lower() in _SMALL:
        return word.lower()
    if (
        any(character.isupper() for character in word)
        or _IDENTIFIER.search(word)
        or word.startswith("-")
    ):
        return word  # a name, an abbreviation, a file or an option, as it was written
    return "-".join(part[:1].upper() + part[1:] for part in word.split("-"))


def _anchor(draft: FoundAnchor, sequences: frozenset[int]) -> FoundAnchor | None:
    key = re.sub(r"[^a-z0-9_.-]+", "_", draft.key.strip().lower())
    value = " ".join(draft.value.split())
    right = _KEY.fullmatch(key) and len(value) <= MAX_ANCHOR_VALUE and draft.sequence in sequences
    return (
        replace(draft, key=key, value=value, confidence=min(1.0, max(0.0, draft.confidence)))
        if right
        else None
    )


def _split(draft: Split | None) -> Split | None:
    if draft is None:
        return None
    titles = tuple(dict.fromkeys(title for text in draft.titles if (title := title_of(text))))[
        :MAX_SPLIT_TITLES
    ]
    reason = " ".join(draft.reason.split())[:MAX_REASON]
    return Split(reason, titles) if len(titles) > 1 else None


FIRST_TITLE_TURNS = 5
"""The fifth user message opens the fifth turn: before that too little is known."""


def title_due(
    conversation: Conversation,
    titled_turn: int,
    *,
    idle: bool,
    every_turns: int,
    first_turn: int = FIRST_TITLE_TURNS,
) -> bool:
    """Return whether a conversation should get a title now.

    `titled_turn` was its newest turn when it got the last one (0: it has none). `every_turns` turns
    after that another one is sought, once the conversation is idle; 0: never. An idle one gets its
    first from `first_turn` on. A title that a person gave stays.
    """
    if conversation.manually_named:
        return False
    if not conversation.title:
        return conversation.turn_count >= (first_turn if idle else FIRST_TITLE_TURNS)
    return idle and 0 < every_turns <= conversation.turn_count - titled_turn


def notes_due(conversation: Conversation) -> bool:
    """Return whether the conversation has turns that its abbreviation lacks."""
    return conversation.turn_count > conversation.abbreviated_through
