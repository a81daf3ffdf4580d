"""Topics of conversations in other languages than English: the nouns that are said again.

Nothing here knows a dictionary. A noun is recognised by what stands beside it, which each language
has its own way of: an article before it (French, Spanish, Italian, Portuguese, Dutch), a
capital (German), a preposition before it (Russian, Polish, Arabic), a particle on it (Korean) or
after it (Hindi), its ending (Turkish), its script (Japanese), or that it stands alone between
function words (Chinese). What nothing tells is no topic: rather none than a wrong one.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import log

import Stemmer

from recollect_server.domain.languages import question_stop_words, stop_words
from recollect_server.domain.notes import MAX_TOPICS
from recollect_server.domain.text import UNSPACED_RUN
from recollect_server.inference.everyday import everyday_nouns
from recollect_server.inference.sentences import Sentence

_STEMMERS = {
    "ar": "arabic", "de": "german", "es": "spanish", "fr": "french", "hi": "hindi", "it": "italian",
    "nl": "dutch", "pl": "polish", "pt": "portuguese", "ru": "russian", "tr": "turkish",
}  # fmt: skip
_LEAST = 2
"""Times that a topic is said."""
_LONG = 4_000
"""Characters of a conversation for each further time that a topic must be said."""
_MOST_LEAST = 5
_SURE = 0.3
"""Share of a word's places in which it must look like a noun."""
_SURE_BY_ENDINGS = 0.51  # where endings alone tell
_NAME_SCORE = 1.3
_AS_NOUN = 1000  # German's form to show is that of places in which the word has a capital

_WORD = re.compile(
    "[^\\W\\d_](?:[^\\W\\d_]|[\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0955-\u0963]"
    "|(?<=\\w)-(?=[^\\W\\d_]))*"
)
_ELIDED = re.compile(
    r"\b(?:[ldjmtscnLDJMTSCN]|[Qq]u|[Dd]ell|[Aa]ll|[Nn]ell|[Dd]all|[Ss]ull|[Uu]n|[Cc]|[Gg]li)['’](?=\w)"
)
_STOP = re.compile(r"[.!?:«»„“\"(]")
_TURKISH_ENDING = re.compile(r"['’]\w+")

_DETERMINERS = {
    "fr": "un une le la les du des au aux mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs ce cet"
    " cette ces l deux trois quatre chaque quel quelle quels quelles",
    "es": "un una unos unas el la los las del al mi mis tu tus su sus nuestro nuestra este esta estos estas ese"
    " esa dos tres cuatro cada qué",
    "it": "un uno una il lo la i gli le del dello della dei degli delle al allo alla ai agli alle nel nella nei"
    " nelle sul sulla dal dalla mio mia miei mie tuo tua suo sua questo questa quel quella due tre quattro ogni"
    " quale l dell all nell dall sull",
    "pt": "um uma uns umas o a os as do da dos das ao à aos às no na nos nas pelo pela meu minha meus minhas seu"
    " sua teu tua este esta esse essa dois duas três quatro cada qual",
    "nl": "een de het mijn jouw je uw ons onze hun dit dat deze die twee drie vier elke elk welke welk",
}  # fmt: skip
_PREPOSITIONS = {
    "ru": "в во на с со к ко по для из от о об обо за у без до при под над про перед через между",
    "pl": "w we na z ze do od ode dla po przy o za bez u przez pod nad przed między",
    "ar": "في من إلى على عن مع بين بعد قبل عند حول",
}
_NO_NOUNS = {
    "ru": r"(?:ть|ться|тся|чь|ешь|ишь|ете|ите|йте|ает|яет|еет|уют|ают|яют|ую|юсь|лась|лось|лись|лся"
    r"|(?:ес|то|ор|од|ав|уш|уч|ат|ид|ищ)ит|[жчшщ]у|[дч]ет|ый|ой|ая|яя|ое|ее|ые|ого|его|ому|ему|ыми|ых|ую|юю|овать|ует|нужн\w|долж\w+)",
    "pl": r"(?:ć|ują|uje|ają|amy|emy|imy|ego|emu|ych|ich|ymi|owy|owa|owe|nej|ony|ona|one|cie|łam|łem|łaś|łeś)",
    "tr": r"(?:m[ae]k|[ıiuü]yor\w*|[ae]c[ae][kğ]\w*|[dt][ıiuü](?:[kmn]|l[ae]r)?|m[ıiuü]ş\w*|[ae]bilir\w*|m[ae]l[ıi]\w*"
    r"|s[ıiuü]n(?:[ıiuü]z)?|[ae]l[ıi]m|[ae]y[ıi]m|[ae]r[ıi]z|[ıiuü]nc[ae]|ken|[ıiuü]p|m[ae]d[ae]n|[ae]l[ıi]"
    r"|l[ıiuü]|[ıiuü][ln][ıiuü]r)",
    "ar": r"(?:ها|هم|ين|ون|كم|نا)",
    "hi": r"(?:ग[ाीे]|ना|ने|नी|ूँगा|ूँगी|ेगा|ेगी|ेंगे|इए|िए|ता|ते|ती|कर|कीजिए)",
}
_HINDI_AFTER = frozenset(["का", "की", "के", "को", "से", "में", "पर", "तक", "ने", "वाला", "वाली", "वाले"])
_TURKISH_ENDINGS = re.compile(
    "(?:l[ae]r)?(?:[ıiuü]m(?:[ıiuü]z)?|[ıiuü]n(?:[ıiuü]z)?|s?[ıiuü])?(?:n?[dt][ae]n?|n?[ıiuü]n|[yn]?[ae]|[yn]?[ıiuü]|y?l[ae])?"
)
_ARABIC_PREFIX = re.compile(r"^(?:[وفبكل]?ال|لل)(?=\w{3})")
_ARABIC_JOINED = re.compile(r"^[وف](?=\w{4})")
_JAPANESE = re.compile(
    "[\u4e00-\u9fff々ヶ]{2,8}|[\u30a1-\u30faー]{3,14}|[\u4e00-\u9fff]{1,4}[\u30a1-\u30faー]{2,8}"
)
_JAPANESE_AFTER = re.compile("\\s*(?:[はがをにのでともへやか、。・！？」』]|から|まで|$)")
_HAN = re.compile("[\u4e00-\u9fff]+")
_HANGUL = re.compile("[\uac00-\ud7a3]+")
_CHINESE_CUTS = re.compile(
    "这么办?|那么办?|这样|那样|如果|因为|所以|但是|不过|而且|或者|还是|以及|关于|怎么办|怎么样|怎么|什么|为什么|哪里|哪个|多少|我们|你们|他们|她们|自己|没有|不要|不用|不能|可以|应该"
    "|需要|已经|可能|每次|每天|每晚|总是|最近|大约|一共|附近|左右|以后|以前|之后|之前|第.天?|一[点些下个]|[两三四五六七八九十几][个天种次]|请问|谢谢|好的|你好"
    "|推荐|决定|参观|预订|包括|帮我|制定|喜欢|觉得|知道|时候|比较|时间|短一点|好处|吃饭"
    "|[我你您他她它的了着过吗呢吧啊在是有和与跟把被给对从到去来要会能想不没很最都也就还又再这那个些说用上下里加换住逛吃跑家新每晚请让做等及及看点]"
)
_JOSA = tuple(
    "이라고 이라는 으로는 에서는 에서도 에게서 한테서 까지는 부터는 이라서 으로 에서 에게 한테"  # noqa: SIM905 - a list would be long
    " 께서 까지 부터 처럼 보다 이나 라고 이란"
    " 밖에 마다 조차 이고 이면 이며 은 는 이 가 을 를 에 의 로 와 과 도 만 랑".split()
)
"""Particles, the longest first."""
_KOREAN_VERB = re.compile(
    "(?P<noun>.{2,}?)(?:했|하[고는면며지려여기]|해[요서야]?$|합니|할|한다|하세|하시|하신|되|됩|돼|된)"
)
_KOREAN_ENDING = re.compile(
    "(?:니다|습니까|세요|어요|아요|여요|예요|에요|네요|나요|군요|까요|을까|지요|죠|는데|은데|지만|어서|아서|려고|으면|면서|거나|으니|니까|았|었|겠|던|다"
    "|싶|있는?|없는?|않|좋은?|큽|갈|낀|낄|날|때)"
)


@cache
def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class _Term:
    """A word of a conversation in all its forms."""

    __slots__ = ("count", "forms", "names", "nouns")

    def __init__(self) -> None:
        self.count = 0
        self.nouns = 0
        """Places in which it looks like a noun."""
        self.names = 0
        self.forms: Counter[str] = Counter()


def subjects_of(
    sentences: Sequence[Sentence], speakers: Iterable[str], language: str
) -> tuple[tuple[str, ...], Counter[str]]:
    """Return the topics of a conversation in another language than English, the best first, and how
    often each word was said.
    """
    texts = [unicodedata.normalize("NFC", sentence.text) for sentence in sentences]
    terms: defaultdict[str, _Term] = defaultdict(_Term)
    for text in texts:
        for key, form, is_noun, is_name in _terms(text, language):
            term = terms[key]
            term.count += 1
            term.nouns += is_noun
            term.names += is_name
            term.forms[form] += _AS_NOUN if is_noun and language == "de" else 1
    if language == "zh":
        _join_chinese(terms, texts)
    elif language == "tr":
        _join_turkish(terms)
    least = min(_MOST_LEAST, _LEAST + sum(map(len, texts)) // _LONG)
    left_out = {it.lower() for it in speakers}
    everyday = everyday_nouns(language)
    sure = {
        "hi": 0.0,
        "de": 0.5,
        "ru": _SURE_BY_ENDINGS,
        "pl": _SURE_BY_ENDINGS,
        "tr": _SURE_BY_ENDINGS,
    }.get(language, _SURE)
    scores: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for term in terms.values():
        form = _form(term)
        counts[form] += term.count
        if (
            term.count < least
            or term.nouns < max(1, sure * term.count)
            or left_out.intersection(term.forms)
            or everyday.intersection(term.forms)
        ):
            continue
        score = (1 + log(term.count)) * (
            1 + min(len(form) * (3 if _is_dense(form) else 1), 12) / 60
        )
        if term.names * 2 > term.count and language != "de":
            score *= _NAME_SCORE
        scores[form] = score
    ranked = sorted(scores, key=lambda form: (-scores[form], form))
    return tuple(ranked[:MAX_TOPICS]), counts


def _is_dense(form: str) -> bool:
    return UNSPACED_RUN.match(form) is not None


def _form(term: _Term) -> str:
    """Return the form of a word to show: the most frequent, of equals the shortest."""
    return min(term.forms, key=lambda form: (-term.forms[form], len(form), form))


_Place = tuple[str, str, bool, bool]
"""A word at a place: its stem, its form, and whether it looks like a noun and like a name there."""


def _terms(text: str, language: str) -> Iterator[_Place]:
    match language:
        case "ja":
            yield from _japanese(text)
        case "zh":
            yield from _chinese(text)
        case "ko":
            yield from _korean(text)
        case _:
            yield from _spaced(text, language)


def _spaced(text: str, language: str) -> Iterator[_Place]:
    """Yield the words of a text in an alphabet with spaces."""
    if language in {"fr", "it"}:
        text = _ELIDED.sub(lambda match: f"{match.group()[:-1]} ", text)
    elif language == "tr":
        text = _TURKISH_ENDING.sub(" ", text)
    stops = stop_words(language) | question_stop_words(language)
    determiners = _words(_DETERMINERS.get(language, ""))
    prepositions = _words(_PREPOSITIONS.get(language, ""))
    no_noun = _no_noun(language)
    stemmer = _stemmer(language)
    words = list(_WORD.finditer(text))
    for place, match in enumerate(words):
        word = match.group()
        low = word.replace("İ", "i").replace("I", "ı").lower() if language == "tr" else word.lower()
        if low in stops or low in determiners or len(low) < 3:
            continue
        before = words[place - 1] if place else None
        # A mark between two words parts them.
        is_beside = before is not None and not text[before.end() : match.start()].strip()
        previous = before.group().lower() if before is not None and is_beside else ""
        is_name = (
            before is not None
            and word[0].isupper()
            and not _STOP.search(text, before.end(), match.start())
        )
        is_noun = is_name
        if language == "ar":
            low, is_noun = _arabic(low, previous, prepositions)
        elif language == "hi":
            after = words[place + 1] if place + 1 < len(words) else None
            is_noun = after is not None and after.group() in _HINDI_AFTER
        elif language == "tr":
            is_noun = True
        elif determiners:
            is_noun = is_name or previous in determiners
        elif prepositions:
            is_noun = is_name or previous in prepositions or not no_noun.search(low)
        if is_noun and not is_name and no_noun.search(low):
            is_noun = False
        yield stemmer.stemWord(low) if stemmer else low, low, is_noun, is_name


def _arabic(low: str, previous: str, prepositions: frozenset[str]) -> tuple[str, bool]:
    """Return a word without its article and what is written together with it, and whether it looks
    like a noun.
    """
    low = re.sub("[\u064b-\u065f\u0670]", "", low)
    if article := _ARABIC_PREFIX.match(low):
        return low[article.end() :], True
    if joined := _ARABIC_JOINED.match(low):
        return low[joined.end() :], False
    return low, previous in prepositions


@cache
def _no_noun(language: str) -> re.Pattern[str]:
    """Return the endings of what is no noun; a pattern that nothing matches where none tell."""
    return re.compile(rf"{_NO_NOUNS[language]}$" if language in _NO_NOUNS else r"(?!)")


@cache
def _stemmer(language: str) -> "Stemmer.Stemmer | None":
    return Stemmer.Stemmer(_STEMMERS[language]) if language in _STEMMERS else None


def _japanese(text: str) -> Iterator[_Place]:
    everyday = everyday_nouns("ja")
    for match in _JAPANESE.finditer(text):
        word = match.group()
        if word not in everyday and not re.match("[一二三四五六七八九十百千万何毎各]", word):
            yield word, word, _JAPANESE_AFTER.match(text, match.end()) is not None, False


def _chinese(text: str) -> Iterator[_Place]:
    """Yield the pieces of a text between function words, and all that they contain."""
    for run in _HAN.findall(text):
        for piece in _CHINESE_CUTS.split(run):
            if len(piece) > 1:
                yield piece, piece, True, False


def _join_chinese(terms: defaultdict[str, _Term], texts: Sequence[str]) -> None:
    """Count pieces within longer pieces too, and leave out those that only stand in longer ones."""
    text = "\n".join(texts)
    pieces = sorted((it for it in terms if 1 < len(it) < 7), key=len, reverse=True)
    everyday = everyday_nouns("zh")
    for piece in [it for it in terms if len(it) > 6 or it in everyday]:
        del terms[piece]
    remaining: list[str] = []
    for piece in pieces:
        if piece not in terms:
            continue
        count = text.count(piece)
        # Within a longer one that is said as often it says nothing of its own.
        if any(piece in longer and terms[longer].count >= count for longer in remaining):
            del terms[piece]
            continue
        terms[piece].count = terms[piece].nouns = count
        remaining.append(piece)


def _join_turkish(terms: defaultdict[str, _Term]) -> None:
    """Count forms with endings, which the stemmer leaves apart, as the shorter form that is said
    too.
    """
    forms = sorted(terms, key=lambda key: (len(_form(terms[key])), key))
    for at, key in enumerate(forms):
        form = _form(terms[key])
        for other in forms[:at]:
            if other not in terms or len(short := _form(terms[other])) < 3:
                continue
            if form.startswith(short) and _TURKISH_ENDINGS.fullmatch(form, len(short)):
                term, joined = terms[other], terms.pop(key)
                term.count += joined.count
                term.nouns += joined.nouns
                term.names += joined.names
                term.forms = Counter({short: term.count})
                break


def _korean(text: str) -> Iterator[_Place]:
    everyday = everyday_nouns("ko") | stop_words("ko")
    for word in _HANGUL.findall(text):
        if word in everyday or (len(word) == 2 and word.endswith("를")):  # a noun of one syllable
            continue
        if verb := _KOREAN_VERB.match(word):
            noun = verb["noun"]
            for josa in ("을", "를"):
                noun = noun.removesuffix(josa) if len(noun) > 2 else noun
            if noun not in everyday:
                yield noun, noun, True, False
            continue
        if _KOREAN_ENDING.search(word):
            continue
        noun = word
        for josa in _JOSA:
            if word.endswith(josa) and len(word) - len(josa) > 1:
                noun = word.removesuffix(josa)
                break
        if len(noun) > 1 and noun not in everyday:
            yield noun, noun, True, False
