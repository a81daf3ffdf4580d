"""The language of a text, by its script and its stop words, and the stop words of a language.

English has its own short list (`STOP_WORDS`); the other lists are those of stopwordsiso.
"""

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path


def _words(name: str) -> frozenset[str]:
    """Return the words of a text file in this package."""
    return frozenset(Path(__file__).with_name(name).read_text(encoding="utf-8").split())


STOP_WORDS = _words("stop_words.txt")
"""English words that say nothing about the subject of a question, as SQLite's `unicode61` cuts
them: lower case, in pieces.

The usual list (as in Snowball and NLTK) with modal verbs and question words. Left out on purpose:
words that are also names, months or codes (`may`, `us`, `will`, `don`, `id`). Dropping question
words gains one point of message any@10 on LoCoMo.
"""
EVERYDAY_WORDS = _words("everyday_words.txt")
"""Words of greetings, thanks, times of the day and small requests, and verbs and adjectives that go
with anything: a message that has them may be small talk, and sharing them says little.
"""
ENGLISH = "en"
_SAMPLE = 6_000  # characters that are looked at: more tell nothing new
_LATIN = (
    "de",
    "fr",
    "es",
    "it",
    "pt",
    "nl",
    "sv",
    "da",
    "no",
    "fi",
    "pl",
    "cs",
    "ro",
    "hu",
    "tr",
    "id",
    "ca",
    "vi",
)
_SCRIPTS = {
    # Kana stand before Han and the letters of one language before those of its whole script: the
    # first that has a share holds.
    "ja": (re.compile("[\u3040-\u30ff]"), 0.1),
    "zh": (re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"), 0.3),
    "ko": (re.compile("[\u1100-\u11ff\uac00-\ud7ff]"), 0.3),
    "th": (re.compile("[\u0e00-\u0e7f]"), 0.3),
    "uk": (re.compile("[іїєґІЇЄҐ]"), 0.02),
    "ru": (re.compile("[\u0400-\u04ff]"), 0.3),
    "fa": (re.compile("[پچژگکی]"), 0.03),
    "ar": (re.compile("[\u0600-\u06ff]"), 0.3),
    "he": (re.compile("[\u0590-\u05ff]"), 0.3),
    "el": (re.compile("[\u0370-\u03ff]"), 0.3),
    "hi": (re.compile("[\u0900-\u097f]"), 0.3),
}
_WORD = re.compile(r"[^\W\d_]+")


@lru_cache(maxsize=64)
def stop_words(language: str) -> frozenset[str]:
    """Return the words of a language that say nothing about what a text is about, lower case; none
    for an unknown language.
    """
    if language == ENGLISH:
        return STOP_WORDS
    import stopwordsiso  # loads every list: 0.1 s, which commands that take no notes need not pay

    return (
        frozenset(stopwordsiso.stopwords(language))
        if stopwordsiso.has_lang(language)
        else frozenset()
    )


def language_of(texts: Iterable[str]) -> str:
    """Return the code (ISO 639-1) of the language that most of the texts' beginning is written in;
    English where nothing tells.
    """
    sample = ""
    for text in texts:
        sample += f"{text[:400]}\n"
        if len(sample) > _SAMPLE:
            break
    letters = sum(len(word) for word in _WORD.findall(sample))
    if not sample.isascii():
        for language, (script, share) in _SCRIPTS.items():
            if len(script.findall(sample)) > share * letters:
                return language
    words = Counter(_WORD.findall(sample.lower()))
    hits = {
        language: sum(n for word, n in words.items() if word in stop_words(language))
        for language in (ENGLISH, *_LATIN)
    }
    best = max(hits, key=lambda language: hits[language])
    # The other lists are longer than the English one, so a near tie is English, and so is one word
    # without any accent.
    return (
        best
        if hits[best] > 1.2 * hits[ENGLISH] and (hits[best] > 1 or not sample.isascii())
        else ENGLISH
    )
