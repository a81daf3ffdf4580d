"""The nouns that a conversation says again: the offline topics.

Nothing here knows a dictionary. A noun is recognised by what stands beside it, in each language its
own way: an article or the like before it, a preposition, a particle behind it, a capital, a script.
What nothing tells is no topic: rather none than a wrong one.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import log

import Stemmer

from recollect_server.notes.offline.sentences import Sentence, says_little
from recollect_server.text.languages import question_stop_words, stop_words
from recollect_server.text.text import runs

MOST = 6  # nouns of a conversation, before those are left out that its space has everywhere
_LONG = 4_000  # characters for each further time that a noun must be said
_SURE = 0.4  # share of a word's places in which it must look like a noun
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


def nouns_of(
    sentences: Sequence[Sentence], speakers: Iterable[str], language: str
) -> tuple[str, ...]:
    """Return the nouns that a conversation says most, in more than one message."""
    places: defaultdict[str, set[int]] = defaultdict(set)
    counts: Counter[str] = Counter()
    nouns: Counter[str] = Counter()
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        for stem, form, is_noun in _words(unicodedata.normalize("NFC", sentence.text), language):
            places[stem].add(sentence.message)
            counts[stem] += 1
            nouns[stem] += is_noun
            forms[stem][form] += 1
    if language == "zh":  # no cut is between some words, so each piece is looked for in the others
        for stem in counts:
            counts[stem] = nouns[stem] = sum(it.text.count(stem) for it in sentences)
            places[stem] = {it.message for it in sentences if stem in it.text}
    least = min(5, 2 + sum(len(it.text) for it in sentences) // _LONG)
    stops = stop_words(language) | question_stop_words(language) | set(speakers)
    scores: dict[str, float] = {}
    for stem, count in counts.items():
        form = min(forms[stem], key=lambda it: (-forms[stem][it], len(it), it))
        if (
            count >= least
            and len(places[stem]) > 1
            and nouns[stem] >= _SURE * count
            and len(form) > 1
            and not any(it in stops or says_little(it, language) for it in forms[stem])
        ):
            scores[form] = log(1 + count) * log(1 + len(places[stem]))
    ranked = sorted(scores, key=lambda it: (-scores[it], it))
    return tuple(it for it in ranked if not any(it != more and it in more for more in ranked))[
        :MOST
    ]


def _words(text: str, language: str) -> Iterator[tuple[str, str, bool]]:
    """Yield each word of a text by its stem and its form, and whether it looks like a noun."""
    if language == "ja":
        yield from ((it, it, True) for it in _JAPANESE.findall(text))
    elif language == "ko":
        yield from ((it, it, True) for it in _KOREAN.findall(text))
    elif language == "zh":
        yield from (
            (it, it, True)
            for run in runs(text)
            for it in _CHINESE_CUTS.split(run)
            if 1 < len(it) < 6
        )
    else:
        yield from _spaced(text, language)


def _spaced(text: str, language: str) -> Iterator[tuple[str, str, bool]]:
    stops = question_stop_words(language)
    leads, follows = frozenset(_BEFORE.get(language, "").split()), _BEHIND.get(language, ())
    stemmer = _stemmer(language)
    words = _WORD.findall(_ELIDED.sub(lambda it: f"{it.group()[:-1]} ", text))
    for place, word in enumerate(words):
        low = word.lower()
        if low in stops or low in leads or len(low) < 3:
            continue
        before = words[place - 1].lower() if place else "."
        after = words[place + 1].lower() if place + 1 < len(words) else "."
        is_name = word[0].isupper() and before[0].isalpha()
        is_noun = is_name or after in follows
        if language == "ar" and (article := _ARABIC.match(low)):
            low, is_noun = low[article.end() :], True
        if language not in ("de", "hi") and not is_noun and not _NO_NOUN.search(low):
            # English puts adjectives between, and nouns before nouns: its noun ends the phrase.
            led = words[max(0, place - 2) : place] if language == "en" else [before]
            ends = language != "en" or after in stops or not after[0].isalpha()
            is_noun = ends and not leads.isdisjoint(it.lower() for it in led)
        yield stemmer.stemWord(low) if stemmer else low, low, is_noun


@cache
def _stemmer(language: str) -> "Stemmer.Stemmer | None":
    return Stemmer.Stemmer(_STEMMERS[language]) if language in _STEMMERS else None
