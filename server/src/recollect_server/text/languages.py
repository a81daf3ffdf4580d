"""The language of a text, guessed by its script, its letters and its function words, and the stop
words of a language.

English has its own short list (`STOP_WORDS`); the other lists of stop words are those of
stopwordsiso. Why the guess is our own is in `docs/decisions/languages.md`.

The patterns and the table of function words are made when a text is first guessed: every command
imports this module, and most guess nothing.
"""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from recollect_server.text.text import UNSPACED_RUN, folded


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


STOP_WORDS = frozenset(_text("stop_words.txt").split())
"""English words that say nothing about the subject of a question, as SQLite's `unicode61` cuts
them: lower case, in pieces.

The usual list (as in Snowball and NLTK) with modal verbs and question words. Left out on purpose:
words that are also names, months or codes (`may`, `us`, `will`, `don`, `id`). Dropping question
words gains one point of message any@10 on LoCoMo.
"""
SMALL_TALK = frozenset(_text("small_talk.txt").split())
_MOST_LITTLE = 5  # words
EVERYDAY_WORDS = frozenset(_text("everyday_words.txt").split())
"""Words of greetings, thanks, times of the day and small requests, and verbs and adjectives that go
with anything: a message that has them may be small talk, and sharing them says little.
"""
ASKER_WORDS = frozenset(
    word for word in _text("asker_words.txt").split() if not word.startswith("[")
)
"""Words of the first person in eleven languages, and the commonest verbs in it of languages that
mostly leave the pronoun out: a question that has one may be of the asker. They are one list, for a
short question does not tell its language: `mi` is "my" in Spanish and "me" in Polish.
"""
IGNORANCE_WORDS = frozenset(_text("ignorance_words.txt").split())
"""Words of those who do not know, beside the common ones of their languages."""
REFERENCE_WORDS = frozenset(
    word for word in _text("reference_words.txt").split() if not word.startswith("[")
)
"""Words of fourteen languages that stand for what was named before: "it", "there", "she"."""
ENGLISH = "en"
# Sections of the file of function words: `?` has words that are common words or names in English
# too, and `de+` German everyday words, which tell the language but are no stop words.
_AMBIGUOUS = "?"
_TELLING = "+"

_BEGINNING = 400  # characters of a text that are looked at: more change nothing
_SAMPLE = 6_000  # characters of several texts
_PLAINLY = 120  # characters in which so many different English words, and no others, are enough
_ENOUGH = 3
_EVIDENCE = 0.9  # function words that a text must have for a guess
_LITTLE = 0.5  # where English is the answer to no guess
_SHARE = 0.12  # of the words of a text that must be function words
_SHARED = 0.4  # evidence of a word that English and another language have
_WEAK = 0.3  # evidence of an ambiguous word, or of one of a single letter
_MARK = 0.35  # evidence of a letter with a mark: three are enough
_MOST_MARKS = 1.05
_MISSING = 0.7  # factor for a letter that a language does not have
_QUOTING = 1.9  # evidence that a text with words of another script must have
_NAME = 3  # words of a text in title case that may be a name: `Los Angeles`
_CATALAN = 0.8  # its words are those of its neighbours, which are a hundred times as common

_LETTERS = {
    "es": "áéíñóúü¿¡",
    "de": "äöüßé",
    "fr": "àâçèéêëîïôùûüœæ",
    "pt": "áâãàçéêíóôõú",
    "it": "àèéìòù",
    "nl": "ëéïöè",
    "sv": "åäöé",
    "da": "åøæé",
    "no": "åøæéòô",
    "fi": "äöå",
    "pl": "ąćęłńóśźż",
    "cs": "áčďéěíňóřšťúůýž",
    "ro": "ăâîșțşţ",
    "hu": "áéíóöőúüű",
    "tr": "çğıöşüâî\u0307",
    "id": "é",
    "ca": "àçèéíïòóúü·",
    "vi": "áàảãạăắằẳẵặâấầẩẫậđéèẻẽẹêếềểễệíìỉĩịóòỏõọôốồổỗộơớờởỡợúùủũụưứừửữựýỳỷỹỵ",
}
"""The letters of languages in Latin script that English does not have."""
_LANGUAGES_OF_LETTER = {
    letter: tuple(code for code, letters in _LETTERS.items() if letter in letters)
    for letter in "".join(_LETTERS.values())
}
_OTHER_SCRIPT = (
    "[\u0370-\u1dff\u1f00-\u1fff\u2d00-\u2dff\u3005-\u3007\u3040-\u31ff\u3400-\u9fff\ua960-\uabff\uac00-\ud7ff"
    "\uf900-\ufaff\ufb1d-\ufdff\ufe70-\ufefc\uff66-\uffdc\U00020000-\U000323af]"
)
_SCRIPTS = (
    ("[\u3040-\u30ff\uff66-\uff9d]", 0.1, "ja"),
    ("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]", 0.5, "zh"),
    ("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff]", 0.5, "ko"),
    # The letters, or words, of one language stand before its whole script.
    ("ў", 0.0, "be"),
    ("[їєґ]", 0.0, "uk"),
    ("[јљњђћџ]", 0.02, "sr"),
    ("[ыэё]", 0.0, "ru"),
    (r"і|\b(?:що|як|чому|це|хто|дуже|від|вже|згоден|та|цей|щось)\b", 0.0, "uk"),
    (r"\b(?:са|съм|това|този|тази|няма|какво|защо|още|който|която|ще)\b", 0.0, "bg"),
    ("[\u0400-\u04ff]", 0.5, "ru"),
    ("[ٹڈڑںےھہ]", 0.03, "ur"),
    ("[پچژگکی۰-۹]", 0.03, "fa"),
    (r"\b(?:این|است|را|از|که|تو|هم|خودت|چه)\b", 0.0, "fa"),
    ("[\u0600-\u06ff]", 0.5, "ar"),
    ("[\u0590-\u05ff]", 0.5, "he"),
    ("[\u0370-\u03ff\u1f00-\u1fff]", 0.5, "el"),
    (r"\b(?:आहे|आहेत|आणि|नाही|मला|होते)\b", 0.0, "mr"),
    ("[\u0900-\u097f]", 0.5, "hi"),
    ("[\u0980-\u09ff]", 0.5, "bn"),
    ("[\u0b80-\u0bff]", 0.5, "ta"),
    ("[\u0c00-\u0c7f]", 0.5, "te"),
    ("[\u0e00-\u0e7f]", 0.5, "th"),
    ("[\u10a0-\u10ff]", 0.5, "ka"),
    ("[\u0530-\u058f]", 0.5, "hy"),
)
"""Characters, the share of a text's characters of other scripts that they must have, and the
language. The first that has its share holds.
"""
_DENSE = "[\u3005-\u9fff\uac00-\ud7ff\uf900-\ufaff]"
_DENSITY = 2.5  # letters of an alphabet that say as much as a Chinese, Japanese or Korean character
_WORDS = re.compile(r"\w+")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_MAY_BE_CODE = re.compile(r"[/@`\\_=<>{}\[\]]")
_CODE = re.compile(
    r"```.*?(?:```|$)|`[^`\n]*`|[!-~]+@[!-~]+|[!-~]*[/\\_=<>{}\[\]][!-~]*", re.DOTALL
)
"""Code, paths and addresses, which are in no language."""


class _WordEvidence(NamedTuple):
    """Evidence of a function word: for English, for any other language, and for each of those."""

    english: float
    other: float
    languages: tuple[tuple[str, float], ...]


class _FunctionWords(NamedTuple):
    """The function words of all languages, and those that tell English from the others at once."""

    evidence: dict[str, _WordEvidence]
    english_alone: frozenset[str]
    others_alone: frozenset[str]


class _Patterns(NamedTuple):
    """Patterns of scripts. Their classes are large: compiling them takes as long as the table."""

    other: re.Pattern[str]
    dense: re.Pattern[str]
    scripts: tuple[tuple[re.Pattern[str], float, str], ...]


@cache
def _sections() -> dict[str, frozenset[str]]:
    """Return the function words by the section of the file: a language, or a language with
    `_TELLING`.
    """
    sections = re.findall(r"\[(\S+)\]\n([^\[]*)", _text("function_words.txt"))
    return {section: frozenset(words.split()) for section, words in sections}


@cache
def common_words() -> frozenset[str]:
    """Return the commonest words of all languages whose function words are known, without
    apostrophes: "don" and "t".
    """
    words = frozenset[str]().union(*_sections().values())
    return frozenset(part for word in words for part in word.split("'"))


def function_words() -> frozenset[str]:
    """Return the function words of all languages. Of English they are its stop words: its list
    has everyday words too.
    """
    others = (words for it, words in _sections().items() if it.isalpha() and it != ENGLISH)
    return STOP_WORDS.union(*others)


@cache
def _function_words() -> _FunctionWords:
    """Return the function words of all languages, also as they are written without accents.

    Thousands of words have the same few languages and evidence: they share them, which saves 2 MiB.
    """
    lists = dict(_sections())
    ambiguous, english = lists.pop(_AMBIGUOUS), lists.pop(ENGLISH)
    nobody: frozenset[str] = frozenset()
    shared: dict[frozenset[str], frozenset[str]] = {nobody: nobody}
    languages = dict.fromkeys(english, nobody)

    def add(word: str, code: str) -> None:
        codes = languages.get(word, nobody) | {code}
        languages[word] = shared.setdefault(codes, codes)

    for section, words in lists.items():
        code = section.removesuffix(_TELLING)
        for word in words:
            add(word, code)
            plain = folded(word)
            if len(word) > 2 and plain not in english and plain not in ambiguous:
                add(plain, code)
    table: dict[str, _WordEvidence] = {}
    same: dict[_WordEvidence, _WordEvidence] = {}
    for word, codes in languages.items():
        is_english = word in english
        other = 1.0
        if is_english:
            other = _SHARED if codes else 0.0
        elif word in ambiguous or len(word) == 1:
            other = _WEAK
        of_each = tuple((code, other / len(codes)) for code in sorted(codes))
        evidence = _WordEvidence(1.0 - other if is_english else 0.0, other, of_each)
        table[word] = same.setdefault(evidence, evidence)
    return _FunctionWords(
        table,
        frozenset(word for word, it in table.items() if not it.other),
        frozenset(word for word, it in table.items() if it.other >= 1.0 and not it.english),
    )


@cache
def _patterns() -> _Patterns:
    return _Patterns(
        re.compile(_OTHER_SCRIPT),
        re.compile(_DENSE),
        tuple((re.compile(script), share, language) for script, share, language in _SCRIPTS),
    )


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


def question_stop_words(language: str) -> frozenset[str]:
    """Return the words of a language that say nothing about the subject of a question, lower case:
    fewer than `stop_words`; those of English for an unknown language.
    """
    return STOP_WORDS if language == ENGLISH else _sections().get(language, STOP_WORDS)


def guess_language(text: str) -> str:
    """Return the code (ISO 639-1) of the language that a text begins in; empty if nothing tells.

    English text is English or unknown, and hardly ever (one message in a thousand) taken for
    another language: a name, a greeting or a line of code tells nothing.
    """
    # Most messages of most histories: in a tenth of the time.
    start = text[:_PLAINLY]
    words = start.lower().split()
    table = _function_words()
    if (
        len(table.english_alone.intersection(words)) >= _ENOUGH
        and table.others_alone.isdisjoint(words)
        and (start.isascii() or not _patterns().other.search(start))
    ):
        return ENGLISH
    return _guess(text[:_BEGINNING])


def language_of(texts: Iterable[str]) -> str:
    """Return the code (ISO 639-1) of the language that most of the texts' beginning is written in;
    English where nothing tells.
    """
    sample = ""
    for text in texts:
        sample += f"{text[:_BEGINNING]}\n"
        if len(sample) > _SAMPLE:
            break
    return _guess(sample, _LITTLE) or ENGLISH


def _guess(text: str, least: float = _EVIDENCE) -> str:
    language = _guess_lowered(text.lower(), least)
    if language in _LETTERS and text.istitle() and len(_WORD.findall(text)) <= _NAME:
        return ""
    return language


def _guess_lowered(text: str, least: float) -> str:
    if _MAY_BE_CODE.search(text):
        text = _CODE.sub(" ", text)
    if text.isascii():
        return _guess_latin(text, _WORD.findall(text), least)
    text = text.replace("’", "'")
    words = _WORD.findall(text)
    patterns = _patterns()
    characters = patterns.other.findall(text)
    if not characters:
        return _guess_latin(text, words, least)
    other = len(characters) + (_DENSITY - 1) * len(patterns.dense.findall(text))
    share = other / (other + sum(map(len, words)) - len(characters) + 1)
    if share < 0.2:
        return _guess_latin(text, words, least)
    # An English text with Russian words in it, or a Russian one with English words.
    if share < 0.5 and (latin := _guess_latin(text, words, _QUOTING)):
        return latin
    return _guess_script(text, len(characters))


def _guess_script(text: str, characters: int) -> str:
    for script, share, language in _patterns().scripts:
        if len(script.findall(text)) > share * characters:
            return language
    return ""


def _guess_latin(text: str, words: list[str], least: float) -> str:
    english = other = 0.0
    scores: dict[str, float] = {}
    table = _function_words().evidence
    for word in words:
        evidence = table.get(word)
        if evidence is None and "'" in word:
            before, after = word.split("'", 1)  # l'acqua, d'été, Maria's
            evidence = table.get(after if len(before) < 3 else before)
        if evidence is None:
            continue
        english += evidence.english
        other += evidence.other
        for language, weight in evidence.languages:
            scores[language] = scores.get(language, 0.0) + weight
    if not text.isascii():
        marks = [letter for letter in text if letter in _LANGUAGES_OF_LETTER]
        other += min(_MARK * len(marks), _MOST_MARKS)
        for letter in marks:
            languages = _LANGUAGES_OF_LETTER[letter]
            for language in languages:
                scores[language] = scores.get(language, 0.0) + 0.5 / len(languages)
        for letter in set(marks):
            for language in scores.keys() - set(_LANGUAGES_OF_LETTER[letter]):
                scores[language] *= _MISSING
    least = max(least, _SHARE * len(words))
    if scores and other >= least and other > english:
        if "ca" in scores:
            scores["ca"] *= _CATALAN
        return max(_LETTERS, key=lambda language: scores.get(language, 0.0))  # of equals the first
    return ENGLISH if english >= least and english > other else ""


def signs_of(words: Iterable[str]) -> tuple[str, ...]:
    """Return those of the words that are written without spaces around them, which are looked for
    anywhere. Korean has spaces.
    """
    return tuple(it for it in words if UNSPACED_RUN.match(it) and it < "\uac00")


_ASKER_SIGNS = signs_of(ASKER_WORDS)
# "tell me" is no such question, nor are "for me" and "with me" in Chinese
_ADDRESSED = re.compile("[给給跟对對帮幫教让讓陪请請诉訴]我")


@cache
def _phrases(name: str) -> re.Pattern[str]:
    """Return the pattern of the phrases of a file, in any case."""
    phrases = _text(name).splitlines()
    signs = signs_of(phrases)
    spaced = "|".join(re.escape(it) for it in phrases if it not in signs)
    return re.compile(rf"\b(?:{spaced})\b|{'|'.join(signs)}", re.IGNORECASE)


_OF_HABIT = re.compile(
    r"(?:\bI|['’]ve|['’]m| have| am| was|you|['’]re) (?:always|never)\b", re.IGNORECASE
)
"""Habits, which are no wishes: "I've never used it"."""


def says_it_lasts(sentence: str) -> bool:
    """Return whether a sentence has words that say for how long a wish holds: "from now on"."""
    wish = _OF_HABIT.sub(" ", sentence)
    return _phrases("lasting_words.txt").search(wish) is not None


def is_of_now(sentence: str) -> bool:
    """Return whether a sentence has words of what is at hand: "this draft", "tonight"."""
    return _phrases("momentary_words.txt").search(sentence) is not None


def speaks_of_asker(message: str) -> bool:
    """Return whether a message has a word of the first person: "What is my name?" asks of the past
    in words of small talk.
    """
    lowered = message.lower()
    if not ASKER_WORDS.isdisjoint(_WORDS.findall(lowered)):
        return True
    if lowered.isascii():
        return False
    spoken = _ADDRESSED.sub("", lowered)
    return any(sign in spoken for sign in _ASKER_SIGNS)


def says_little(message: str) -> bool:
    """Return whether a message is a greeting, thanks or a bare yes or no, which nothing from the
    past can help with.
    """
    words = re.findall(r"\w+", message.lower().replace("'", ""))
    return len(words) <= _MOST_LITTLE and all(word in SMALL_TALK for word in words)
