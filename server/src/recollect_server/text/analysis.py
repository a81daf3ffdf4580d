"""Analysis of texts: the form in which the index takes a text, and the forms of a question's word.

FTS5 cuts a text into words, folds accents and stems as for English (`porter unicode61`). What it
cannot do is done to the text before it gets it, by the language that the text is guessed to be in:

- every word is stemmed by the language's Snowball stemmer, and a marker word names the language, so
  that a question knows which languages to stem its words in;
- runs of scripts without spaces become pairs of characters (`text.text.segment`);
- the text is put into normal form (`text.text.normal_form`), as the question is;
- letters that have no accent to take off (`ł`, `ø`, `ß`) become plain ones;
- behind the text stand the words of which identifiers in it are made (`HttpRequestParser`).

English messages, and those whose language nothing tells, are taken as they are. The form depends on
the text alone: removing a message takes the same form once more.
"""

import re
import unicodedata
from collections.abc import Callable

import apsw
import Stemmer

from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.tokenizer import Word, tokens
from recollect_server.text.languages import guess_language
from recollect_server.text.text import UNSPACED_RUN, normal_form, parts_of_identifiers, segment

STEMMERS = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "es": "spanish",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
"""The Snowball stemmer of each language that is stemmed otherwise than English."""
HINDI = "hi"
_NUKTA, _CHANDRABINDU, _ANUSVARA = "\u093c", "\u0901", "\u0902"
_NASAL = re.compile("[ङञणनम]\u094d(?=[क-म])")
"""A nasal consonant without a vowel before a stop, which an anusvara may stand for."""
# From the private use area, which is letters to the tokenizer. The digit keeps the stemmer from
# taking off the `s` of `es`.
MARKER, MARKER_END = "\ue002", "\ue003"
MARKERS = {f"{MARKER}{language}0": language for language in STEMMERS}
"""The languages of messages by the marker word in the index."""

_WORD = re.compile("((?:[^\\W\\d_]|[\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0963\u0970-\u0dff])+)")
_PLAIN = {
    ord(letter): plain
    for letter, plain in zip(
        "ıłđøßæœðþŁĐØẞÆŒ",
        ("i", "l", "d", "o", "ss", "ae", "oe", "d", "th", "l", "d", "o", "ss", "ae", "oe"),
        strict=True,
    )
} | {code: unicodedata.normalize("NFD", chr(code))[0] for code in range(0x1E00, 0x1EFA)}
_CHANGED = re.compile(f"[{''.join(map(chr, _PLAIN))}]")
_LONGEST_STEMMED = 1000
"""Letters of a word that is stemmed. Some stemmers take time that grows with the square of a word's
length: 450,000 vowels in a row held up a space for 4 s.
"""
_SEPARATOR = "\n"  # of words that are worked on at once; no word has one


def indexed_form(text: str) -> str:
    """Return a text as the index takes it."""
    text = normal_form(text)
    language = guess_language(text)
    # behind it: words that stand side by side in the text do so in the index
    text = " ".join([text, *(text[at:end] for at, end in parts_of_identifiers(text))])
    if language in STEMMERS:
        return f"{plain_form(stemmed(text, language))} {MARKER}{language}0"
    return plain_form(text)


def plain_form(text: str) -> str:
    """Return a text that is not stemmed, such as a name, as the index takes it."""
    return segment(_plain(normal_form(text))).replace("\0", " ").replace(MARKER, " ")


def stemmed(text: str, language: str) -> str:
    """Return the text in small letters with every word stemmed."""
    lower = text.lower().replace("i\u0307", "i")
    parts = _WORD.split(_one_spelling(lower) if language == HINDI else lower)
    stemmer = Stemmer.Stemmer(STEMMERS[language], 0)  # a microsecond, and none is safe to share
    words = parts[1::2]
    stems = stemmer.stemWords([word[:_LONGEST_STEMMED] for word in words])
    parts[1::2] = [
        stem if len(word) <= _LONGEST_STEMMED else word
        for word, stem in zip(words, stems, strict=True)
    ]
    return _plain("".join(parts))


def _one_spelling(text: str) -> str:
    """Return Hindi in one spelling. Many of its words are written in two: फ़ाइल and फाइल, चाँद and
    चांद, हिन्दी and हिंदी.
    """
    text = text.replace(_NUKTA, "").replace(_CHANDRABINDU, _ANUSVARA)
    return _NASAL.sub(_ANUSVARA, text)


def forms(words: list[str], languages: list[str]) -> list[list[str]]:
    """Return the forms of each of a question's words that messages in these languages have, and as
    it stands in other messages first; each once.
    """
    every = [[_plain(word) for word in words]]
    # All words at once: a call for each took longer than what is then looked up. Those of scripts
    # without spaces have no stems.
    spaced = [at for at, word in enumerate(words) if not UNSPACED_RUN.fullmatch(word)]
    text = _SEPARATOR.join(words[at] for at in spaced)
    for language in languages if spaced else ():
        column = every[0].copy()
        for at, form in zip(spaced, stemmed(text, language).split(_SEPARATOR), strict=True):
            column[at] = form
        every.append(column)
    return [list(dict.fromkeys(of_word)) for of_word in zip(*every, strict=True)]


def words_of(connection: apsw.Connection, text: str, language: str) -> list[Word]:
    """Return the words of a text in normal form in a language, with the stems that the index has of
    them.
    """
    data = text.encode()
    words = tokens(connection, data)
    stems = language in STEMMERS
    if text.isascii() and not stems:
        return words
    stem_of: dict[bytes, str] = {}
    for start, end, stem in words:
        spelt = data[start:end]
        if spelt not in stem_of:
            if not stems and spelt.isascii():
                stem_of[spelt] = stem
                continue
            word = spelt.decode()
            form = stemmed(word, language) if stems else _plain(word)
            stem_of[spelt] = stem_of_form(connection, form)
    return [(start, end, stem_of[data[start:end]]) for start, end, _ in words]


def tokenizer_of(index: Database) -> Callable[[str, str], list[Word]]:
    """Return what returns the words of a text in a language, with the stems that an index has of
    them.
    """

    def tokenize(text: str, language: str) -> list[Word]:
        # nothing is read: no append needs to be waited for
        with index.reading(settled=False) as connection:
            return words_of(connection, text, language)

    return tokenize


def stem_of_form(connection: apsw.Connection, form: str) -> str:
    """Return the stem that the index has of a form; empty if it has none."""
    return stems_of_forms(connection, [form])[0]


def stems_of_forms(connection: apsw.Connection, every: list[str]) -> list[str]:
    """Return the stem that the index has of each form; empty for one that it has none of."""
    parts = [form.encode() for form in every]
    stems = [""] * len(parts)
    at, end = -1, 0
    for start, _, stem in tokens(connection, _SEPARATOR.encode().join(parts)):
        first = start >= end
        while start >= end:
            at += 1
            end += len(parts[at]) + 1
        if first:
            stems[at] = stem
    return stems


def _plain(text: str) -> str:
    return text if text.isascii() or not _CHANGED.search(text) else text.translate(_PLAIN)
