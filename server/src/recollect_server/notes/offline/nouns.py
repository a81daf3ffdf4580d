"""The phrases that a conversation comes back to: the offline topics, and what a title names.

Nothing here knows a dictionary. A noun is recognised by what stands beside it, in each language its
own way: an article or the like before it, a preposition, a particle behind it, a capital, a script.
Words that several messages have side by side are a phrase, whatever they are. What nothing tells is
no topic: rather none than a wrong one.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from math import log

import Stemmer

from recollect_server.notes.notes import topic_of
from recollect_server.notes.offline.sentences import Sentence, says_little
from recollect_server.text.languages import ENGLISH, question_stop_words, stop_words
from recollect_server.text.text import runs
from recollect_server.text.topics import is_filler

MOST = 6  # topics of a conversation, before those are left out that its space has everywhere
_LONG = 4_000  # characters for each further time that a topic must be said
_SURE = 0.4  # share of a word's places in which it must look like a noun
_PAIR = 1.6  # factor for a phrase of two words
_UNSURE = 0.4  # factor for a phrase of which only its repetition tells that it is one
_MOST_SUBJECTS, _BESIDE = 3, 0.35  # of a title, and the share of the best one's score that each has
_STEMMERS = {
    "ar": "arabic", "de": "german", "en": "english", "es": "spanish", "fr": "french", "hi": "hindi",
    "it": "italian", "nl": "dutch", "pl": "polish", "pt": "portuguese", "ru": "russian",
}  # fmt: skip
_WORD = re.compile(
    "[^\\W\\d_](?:[^\\W\\d_]|[\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0955-\u0963]"
    '|(?<=\\w)-(?=[^\\W\\d_]))*|[.!?:«»„“"(,;]'
)
_ELIDED = re.compile(r"\b(?:[ldjmtscn]|qu|dell|all|nell|dall|sull|un|gli)['’](?=\w)", re.IGNORECASE)
_BEFORE = {
    "en": "a an the my your his her our their this these those of in on for from at about per",
    "fr": "un une le la les du des au aux mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs ce cet cette"
    " ces l d deux trois quatre chaque quel quelle quels quelles",
    "es": "un una unos unas el la los las del al mi mis tu tus su sus nuestro nuestra este esta estos estas dos tres"
    " cada qué",
    "it": "un uno una il lo la i gli le del dello della dei degli delle al allo alla ai agli alle nel nella nei nelle"
    " sul sulla dal dalla mio mia tuo tua suo sua questo questa quel quella due tre ogni quale l dell all nell dall sull",
    "pt": "um uma uns umas o a os as do da dos das ao à aos às no na nos nas pelo pela meu minha seu sua este esta"
    " esse essa dois duas três cada qual",
    "nl": "een de het mijn jouw je uw ons onze hun dit dat deze die twee drie elk elke welk welke",
    "ru": "в во на с со к ко по для из от о об обо за у без до при под над про перед через между",
    "pl": "w we na z ze do od ode dla po przy o za bez u przez pod nad przed między",
    "ar": "في من إلى على عن مع بين بعد قبل عند حول",
}
"""Words before a noun: of some languages its articles and the like, of others prepositions."""
_BEHIND = {
    "hi": frozenset(["का", "की", "के", "को", "से", "में", "पर", "तक", "ने", "वाला", "वाली", "वाले"])
}
_NO_NOUN = re.compile(r"(?:ly|ing|ed|ть|тся|ет|ит|ый|ой|ая|ые|ого|ć|ują|uje|ych|ego|ना|ने|ता|ते|ती)$")
_ARABIC = re.compile(r"^(?:[وفبكل]?ال|لل)(?=\w{3})")
_JAPANESE = re.compile(
    "([\u4e00-\u9fff々ヶ]{2,8}|[\u30a1-\u30faー]{3,14})(?=[はがをにのでともへや、。]|から|まで|$)"
)
_KOREAN = re.compile(
    "([\uac00-\ud7a3]{2,8}?)(?:은|는|이|가|을|를|에서|에는?|으로|의|와|과)(?![\uac00-\ud7a3])"
)
_CHINESE_CUTS = re.compile(
    "[怎这那]么[办样]?|什么|我们|你们|没有|不要|可以|应该|需要|已经|最近|一[点些下个]|[两三四五六七八九十几百千万月年日号][个天种次元]?"
    "|[我你您他她它的了着过吗呢吧啊在是有和与跟把被给对从到去来要会能想不没很最都也就还又再这那些说用上下里加换住等及看点请让做]"
)


Word = tuple[str, str, bool]
"""Stem of a word, the word as it stands, and whether it looks like a noun there."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A word, or two that follow each other."""

    form: str
    """As it stands most often."""
    stems: tuple[str, ...]
    messages: frozenset[int]
    score: float
    """Weight by how often it is said, and in how many messages."""
    count: int
    nouns: int
    """Places in which its last word looks like a noun."""

    is_plain: bool
    """True if no word of it looks like a verb or an adverb, or says little."""

    @property
    def is_noun(self) -> bool:
        return self.nouns >= _SURE * self.count and len(self.form) > 1


def phrases_of(sentences: Sequence[Sentence], speakers: set[str], language: str) -> list[Phrase]:
    """Return the phrases of a conversation that name something and nobody who speaks."""
    places: defaultdict[tuple[str, ...], list[tuple[str, int, bool]]] = defaultdict(list)
    for sentence in sentences:
        for run in _runs(unicodedata.normalize("NFC", sentence.text), language):
            for words in chain(zip(run, strict=True), pairwise(run)):
                form = " ".join(word for _, word, _ in words)
                stems = tuple(stem for stem, _, _ in words)
                places[stems].append((form, sentence.message, words[-1][2]))
    if language == "zh":  # no cut is between some words, so each piece is looked for in others
        places = _everywhere(sentences, {form for (form,) in places})
    phrases: list[Phrase] = []
    for stems, occurrences in places.items():
        named = [form for form, _, is_noun in occurrences if is_noun]
        is_english = language == ENGLISH  # others inflect a noun by what stands before it
        forms = Counter((is_english and named) or [form for form, _, _ in occurrences])
        form = min(forms, key=lambda it: (-forms[it], len(it), it))
        parts = form.lower().split()
        if speakers.isdisjoint(parts) and not (
            says_little(parts[-1], language) or is_filler(topic_of(form))
        ):
            messages = frozenset(message for _, message, _ in occurrences)
            score = log(1 + len(occurrences)) * log(1 + len(messages)) * _PAIR ** (len(stems) - 1)
            is_plain = (is_english or bool(named)) and not any(
                _NO_NOUN.search(it) or says_little(it, language) for it in parts
            )
            phrases.append(
                Phrase(form, stems, messages, score, len(occurrences), len(named), is_plain)
            )
    return phrases


def _everywhere(
    sentences: Sequence[Sentence], forms: set[str]
) -> defaultdict[tuple[str, ...], list[tuple[str, int, bool]]]:
    """Return where pieces of a script without spaces stand, none of them over itself. Each place is
    looked at once, however many pieces there are.
    """
    lengths = sorted({len(it) for it in forms})
    places: defaultdict[tuple[str, ...], list[tuple[str, int, bool]]] = defaultdict(list)
    for sentence in sentences:
        text, ends = sentence.text, defaultdict[str, int](int)
        for start in range(len(text)):
            for end in (start + it for it in lengths):
                piece = text[start:end]
                if piece in forms and start >= ends[piece]:
                    ends[piece] = end
                    places[(piece,)].append((piece, sentence.message, True))
    return places


def topics_of(phrases: Sequence[Phrase], characters: int) -> tuple[str, ...]:
    """Return the nouns that a conversation of so many characters says most, in more than one
    message.
    """
    least = min(5, 2 + characters // _LONG)
    nouns = {
        it.form.lower(): it.score
        for it in phrases
        if len(it.stems) == 1 and it.is_noun and it.count >= least and len(it.messages) > 1
    }
    ranked = sorted(nouns, key=lambda it: (-nouns[it], it))
    return tuple(it for it in ranked if not any(it != more and it in more for more in ranked))[
        :MOST
    ]


def subjects_of(phrases: Sequence[Phrase]) -> list[Phrase]:
    """Return the phrases that say most of what a conversation is about, the best first; no word is
    in two of them.

    A phrase counts if it looks like a noun and is said again, or stands in the first message that
    names something; or if its two words stand side by side in three messages.
    """
    first = min((min(it.messages) for it in phrases if it.is_noun), default=0)
    scores: dict[Phrase, float] = {}
    for it in phrases:
        is_pair = len(it.stems) > 1
        is_sure = it.is_noun or it.nouns > (not is_pair) or (is_pair and it.is_plain)
        if (
            (is_sure and len(it.messages) > 1)
            or (it.is_noun and first in it.messages)
            or (is_pair and len(it.messages) > 2)
        ):
            scores[it] = it.score * (1 if is_sure else _UNSURE)
    named = [it for it in phrases if len(it.stems) > 1 and it.is_plain and first in it.messages]
    chosen = [max(named, key=lambda it: it.score)] if named else []
    for it in sorted(scores, key=lambda it: (-scores[it], it.form)):
        if sum(len(other.stems) for other in chosen) > 1 and scores[it] < _BESIDE * max(
            scores.values()
        ):
            break
        if all(set(it.stems).isdisjoint(other.stems) for other in chosen):
            chosen.append(it)
    return chosen[:_MOST_SUBJECTS]


def _runs(text: str, language: str) -> Iterator[list[Word]]:
    """Yield the words of a text that follow each other with no mark or stop word between them."""
    if language == "ja":
        yield from ([(it, it, True)] for it in _JAPANESE.findall(text))
    elif language == "ko":
        yield from ([(it, it, True)] for it in _KOREAN.findall(text))
    elif language == "zh":
        yield from (
            [(it, it, True)]
            for run in runs(text)
            for it in _CHINESE_CUTS.split(run)
            if 1 < len(it) < 6
        )
    else:
        yield from _spaced(text, language)


def _spaced(text: str, language: str) -> Iterator[list[Word]]:
    stops = question_stop_words(language)
    leads, follows = frozenset(_BEFORE.get(language, "").split()), _BEHIND.get(language, ())
    breaks = stops | stop_words(language) | leads
    stemmer = _stemmer(language)
    words = _WORD.findall(_ELIDED.sub(lambda it: f"{it.group()[:-1]} ", text))
    run: list[Word] = []
    around = [".", *words, "."]
    for place, word in enumerate(words):
        before, after = around[place], around[place + 2]
        low = word.lower()
        if low in breaks or (len(low) < 3 and not word.isupper()) or not low[0].isalnum():
            yield run
            run = []
            continue
        is_noun = (word[0].isupper() and before[0].isalpha()) or after in follows
        if language == "ar" and (article := _ARABIC.match(low)):
            word = low = low[article.end() :]
            is_noun = True
        if language not in ("de", "hi") and not is_noun and not _NO_NOUN.search(low):
            # English puts adjectives between, and nouns before nouns: its noun ends the phrase.
            ends = language != "en" or after.lower() in stops or not after[0].isalpha()
            led = words[max(0, place - 2) : place] if language == "en" else [before]
            is_noun = ends and not leads.isdisjoint(it.lower() for it in led)
        run.append((stemmer.stemWord(low) if stemmer else low, word, is_noun))
    yield run


@cache
def _stemmer(language: str) -> "Stemmer.Stemmer | None":
    return Stemmer.Stemmer(_STEMMERS[language]) if language in _STEMMERS else None
