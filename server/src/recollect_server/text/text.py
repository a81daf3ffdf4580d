"""Text helpers: put text on one line, cut it into sentences, and into words where the index's
tokeniser cannot.

Scripts that are written without spaces are what it cannot.

SQLite's `unicode61` takes a whole run of Chinese or Japanese as one word. Here every run of such a
script becomes its overlapping pairs of characters and its last character: `北京大学` ->
`北京 京大 大学 学`. A word of two characters or more is then found by its pairs and a
single character by prefix, in the same index and with the same BM25 as everything else. A trigram
index beside it, the other usual way, cannot find words of two characters, which most
Chinese words are.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache

from recollect_server.text.openings import opens_as_question

# Han, Hiragana, Katakana, Hangul, Bopomofo, their extensions and half-width forms; Thai, Lao,
# Khmer, Myanmar.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u3130-\u318f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U000323af"
)
UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_NO_CONTENT = re.compile(
    "[^\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]+|为什么|怎么样?|什么时候|什么|哪里|哪儿|哪个|哪|多少|多|几|谁"
    "|为何|如何|我们|你们|他们|她们|我|你|您|他|她|它|自己|的|了|着|过|吗|嗎|呢|吧|啊|在|是|有没有|没有|有|和|与|跟|把|被|给|对|从|到|去|来"
    "|要|会|能|可以|想|不|没|很|最|都|也|就|还|又|再|这|那|這|個|个|些|时候|時候|叫|说|用|上|下|里|裡|请|帮|什麼|怎麼|哪裡|為什麼|誰|們|會|說|何"
)
"""Function words of Chinese, and what is not Chinese."""
SENTENCE_END = re.compile(
    r"(?<![.!?…؟۔।])[.!?…؟۔।]++[\"'”’»)\]]*+(?=\s|$)|[。！？｡]+[”’」』）]*|\n+"
)
"""The marks that may end a sentence, with the quotation marks and brackets that close there. A full
stop inside a word ends none.

`sentence_ends` leaves out those after an abbreviation, an initial or an ordinal.
"""


_MARKED = [chr(code) for code in range(0xC0, 0x250)]
_UNDECOMPOSED = dict(zip("ıłŁøØ’ʼ", "illoo''", strict=True))
_BASES = {it: unicodedata.normalize("NFD", it.lower())[0] for it in _MARKED} | _UNDECOMPOSED
_FOLDING = str.maketrans({chr(code): chr(code).lower() for code in range(0x41, 0x5B)} | _BASES)

# Characters that are written alike. Other signs would stick to the words beside them: `20°`.
_INVISIBLE = "\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef"
_EMOJI = "\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f0ff\U0001f1e6-\U0001faff"
_SIGNS = (
    "\u00a6\u00a9\u00ae\u00b0\u2100\u2101\u2103-\u2106\u2108\u2109\u2114\u2117\u2118\u211e-\u2123"
    "\u2190-\u22ff\u2400-\u25ff\u2800-\u2aff\uffe8-\uffee\ufffc\ufffd"
)
_DASHES = "\u02d7\u058a\u2010-\u2015\u2043\u2212\ufe58\ufe63\uff0d"
_QUOTES = "\u02b9\u02bb\u02bc\u2018-\u201b\u2032\uff07"
_DOUBLE_QUOTES = "\u00ab\u00bb\u201c-\u201f\u2033\uff02"


def _characters(ranges: str) -> Iterator[str]:
    for it in re.finditer("(.)(?:-(.))?", ranges):
        yield from map(chr, range(ord(it[1]), ord(it[2] or it[1]) + 1))


# Points and marks of Hebrew, with which a text for children or of a prayer is written.
_HEBREW_POINTS = "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\ufb1e"
_POINTS = frozenset(_characters(_HEBREW_POINTS))


def _without_points(letter: str) -> str:
    return "".join(it for it in unicodedata.normalize("NFKC", letter) if it not in _POINTS)


_UNIFIED = str.maketrans(
    dict.fromkeys(_characters(_INVISIBLE + _HEBREW_POINTS))
    | {it: _without_points(it) for it in _characters("\ufb1d\ufb1f-\ufb4f")}
    | {it: f" {it} " for it in _characters(_EMOJI)}
    | dict.fromkeys(_characters(_SIGNS), " ")
    | dict.fromkeys(_characters(_DASHES), "-")
    | dict.fromkeys(_characters(_QUOTES), "'")
    | dict.fromkeys(_characters(_DOUBLE_QUOTES), '"')
)
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_AFTER_ARABIC = re.compile("(?<=[\u0600-\u06ff])\u200c")
"""Zero-width non-joiner, between the parts of a Persian word: each is a word of the index."""
_LINE_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters, and those that begin a new line or paragraph."""
_JOINERS = "\u200c\u200d"  # invisible, and part of how Persian words and many emoji are spelt
_ZERO_WIDTH_JOINER = "\u200d"
_FLAG_LETTERS = "".join(_characters("\U0001f1e6-\U0001f1ff"))
_SKIN_TONES = "".join(_characters("\U0001f3fb-\U0001f3ff"))


_WORD = re.compile(r"\w+")
# Figures, one Latin letter alone or again and again, six and more letters without a vowel (shorter
# ones may be an abbreviation), or letters and figures that change three times, as in a hash.
_MEANINGLESS = re.compile(
    r"[\d_]+|([a-z])\1*|[b-df-hj-np-tv-xz]{6,}"
    r"|(?=\w{7})(?:[a-z]*(?:\d+[a-z]+){2,}\d*|[a-z]+\d+[a-z]+\d+)",
    re.IGNORECASE,
)


_TURN = re.compile(r"[A-Z](?:(?<=[a-z][A-Z])|[A-Z][a-z])[^\W_]*")
"""A turn from small to large letters in a word, as in HttpRequestParser and parseHTTPHeader,
to the end of the word. It begins with a set of letters, which the engine looks for at once.
"""
_LEAST_IDENTIFIER, _MOST_IDENTIFIER = 6, 64
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LEAST_PART = 3


_BEFORE = re.compile(r"(?:(\S+)[ \u00a0]+)?(\S+)$")
# Before a name or a figure: never the end of a sentence.
_OPENING_ABBREVIATIONS = frozenset(
    "dr mr mrs ms prof st mt rev hon capt sgt lt e.g i.e cf vs viz approx fig figs eq vol pp hr fr bzw z.b d.h "  # noqa: SIM905 - a list would be a word a line
    "u.a s.o s.u ca vgl inkl zzgl evtl ggf sog nr str tel dipl ing m mm mme mlle mgr p.ex sr sra srta sres dña "
    "p.ej ej núm pág av exmo exma sig dott г ул стр т.е напр гр тыс млн млрд".split()
)
# They also stand last: the end of a sentence unless a small letter or a digit follows.
_CLOSING_ABBREVIATIONS = frozenset(
    "etc usw u.s.w a.m p.m inc ltd co corp jr no nos dept est min max jan feb mar apr jun jul aug sep sept oct "  # noqa: SIM905 - a list would be a word a line
    "okt nov dec dez mon tue wed thu fri sat sun ext т.д т.п др руб коп н.э u.v.m".split()
)
GERMAN_MONTH = r"(?:Jan|Jän|Feb|März|Apr|Mai\b|Juni\b|Juli\b|Aug|Sept|Okt|Nov|Dez)"
"""The beginning of a month's name after an ordinal. Other languages write them small."""
_MONTH = re.compile(GERMAN_MONTH)
_BEFORE_ORDINAL = frozenset(
    "am vom zum bis im beim ab seit der die das den dem des ein einen einem eine eines einer mein dein sein ihr "  # noqa: SIM905 - a list would be a word a line
    "unser jeder jedes jeden jede erst nach und".split()
)


def breaks_line(text: str) -> bool:
    """Return whether a text has control characters or line ends, which no name has."""
    return bool(_LINE_BREAKING.search(text))


def one_line(text: str) -> str:
    """Return the text on one line, without control characters and invisible ones that turn it
    around.
    """
    if not (text.isascii() or text.isprintable()):
        text = "".join(it for it in text if it in _JOINERS or unicodedata.category(it) != "Cf")
    return " ".join(_LINE_BREAKING.sub(" ", text).split())


def quoted(text: str) -> str:
    """Return the text on one line in quotation marks, which nothing in it can end."""
    escaped = one_line(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def is_gibberish(text: str) -> bool:
    """Return whether no word of a text has a meaning: it has no word, only figures, single letters,
    hashes or keys that seem to be hit at random. Embedding models place such a text beside anything
    short.
    """
    return all(_MEANINGLESS.fullmatch(word) for word in _WORD.findall(text))


def normal_form(text: str) -> str:
    """Return the text in the one form in which it is indexed, asked and compared.

    NFKC: some systems write `が`, `서` or `ế` as two or three characters, half-width or full-width;
    PDFs have ligatures. Invisible characters of pasted text would divide words. Dashes and
    quotation marks are written alike, Hebrew has no points, and an emoji is a word of its own.
    """
    if text.isascii():
        return text
    # `translate` looks each character up, and ASCII stays as it is
    unified = _NOT_ASCII.sub(lambda run: run[0].translate(_UNIFIED), _AFTER_ARABIC.sub(" ", text))
    return unicodedata.normalize("NFKC", unified)


def places_of_form(text: str) -> tuple[str, Sequence[int]]:
    """Return the text in `normal_form`, and where in the text each of its characters and its end
    come from.
    """
    form = normal_form(text)
    if form == text:
        return form, range(len(text) + 1)
    parts: list[str] = []
    places: list[int] = []
    for cluster in _clusters().finditer(text):
        parts.append(normal_form(cluster[0]))
        places += [cluster.start()] * len(parts[-1])
        if len(parts[-1]) > 1 and parts[-1][-1] == " ":  # behind an emoji
            places[-1] = cluster.end()
    return "".join(parts), [*places, len(text)]


@cache
def _clusters() -> re.Pattern[str]:
    """Return what matches a character with those that compose with it, or are left out behind it:
    vowels of Hangul, half-width voiced marks, and all marks.
    """
    marks = (it for it in map(chr, range(0x300, 0xFE30)) if unicodedata.category(it)[0] == "M")
    return re.compile(f"(?s).[{_INVISIBLE}\u1160-\u11ff\uff9e-\uffdc{''.join(marks)}]*")


def belongs_to_before(text: str, at: int) -> bool:
    """Return whether the character at a place, not the first, is part of one that stands before it:
    a mark, a vowel of Hangul, or more of an emoji or a flag.
    """
    if text[at] in _FLAG_LETTERS:
        before = text[:at]
        return (len(before) - len(before.rstrip(_FLAG_LETTERS))) % 2 == 1
    if text[at - 1] == _ZERO_WIDTH_JOINER or text[at] in _SKIN_TONES:
        return True
    cluster = _clusters().match(text, at - 1)
    return cluster is not None and cluster.end() > at


def folded(text: str) -> str:
    """Return the text in small letters, Latin ones without their accents. Every character keeps its
    place.
    """
    lowered = text.translate(_FOLDING)
    return (
        lowered
        if lowered.isascii()
        else "".join(it if len(small := it.lower()) != 1 else small for it in lowered)
    )


def parts_of_identifiers(text: str) -> list[tuple[int, int]]:
    """Return where the words stand that identifiers in a text are made of: Http, Request and Parser
    of HttpRequestParser. Those of `http_request_parser` are words already.

    Names are written so too. McDonald, iPhone and GmbH have no two such words, YouTube has.
    """
    spans: list[tuple[int, int]] = []
    for turn in _TURN.finditer(text):
        start, end = turn.span()
        while start and end - start <= _MOST_IDENTIFIER and text[start - 1].isalnum():
            start -= 1
        if _LEAST_IDENTIFIER <= end - start <= _MOST_IDENTIFIER:
            spans += _parts(text[start:end], start)
    return spans


def _parts(word: str, start: int) -> list[tuple[int, int]]:
    spans = [it.span() for it in _PART.finditer(word)]
    long = [(start + at, start + end) for at, end in spans if end - at >= _LEAST_PART]
    # of two parts the first may be short if it begins small and is more than a letter: isReady
    is_one = len(long) > 1 or (len(long) == 1 and len(spans) > 1 and word[:2].islower())
    return long if is_one else []


def segment(text: str) -> str:
    """Return a text in normal form with every run of an unspaced script cut into pairs."""
    if text.isascii():
        return text
    return UNSPACED_RUN.sub(lambda run: f" {' '.join(pairs(run.group()))} ", normal_form(text))


def runs(text: str) -> list[str]:
    """Return the runs of unspaced scripts in a text, in normal form."""
    return UNSPACED_RUN.findall(normal_form(text))


def pairs(run: str) -> list[str]:
    """Return the overlapping pairs of a run, and its last character."""
    return [run[i : i + 2] for i in range(len(run))]


def single_words(run: str) -> list[str]:
    """Return the Chinese characters of a question that are words by themselves: each between
    function words, kana or the ends of the run (`书` in `书在哪里`, `猫` in `猫はどこ`).

    No pair of the run is in a text that has the word beside other characters.
    """
    return [piece for piece in _NO_CONTENT.split(run) if len(piece) == 1 and len(run) > 2]


CLOSING = "\"'”’»)]」』）"
"""Quotation marks and brackets that close behind the mark which ends a sentence."""
_QUESTION_MARKS = ("?", "？", "؟")
# Particles that end a question without a mark: of Chinese, and of polite Japanese and Korean.
_PARTICLES = ("吗", "嗎", "ですか", "ますか", "ませんか", "습니까", "나요", "까요")


def sentence_ends(text: str) -> list[int]:
    """Return the positions at which the sentences of a text end.

    An abbreviation, an initial or an ordinal (`z. B.`, `J. Smith`, `am 1. Oktober`) ends none, nor
    does an ellipsis before a small letter.
    """
    return [match.end() for match in SENTENCE_END.finditer(text) if not _continues(text, match)]


def is_question(sentence: str) -> bool:
    """Return whether a sentence ends with a question mark, or a particle that stands for it, or
    begins as a question that has no mark.
    """
    end = sentence.rstrip(f"{CLOSING}!！ \n")
    return (
        end.endswith(_QUESTION_MARKS)
        or end.rstrip("。.").endswith(_PARTICLES)
        or opens_as_question(sentence)
    )


def asks(text: str) -> bool:
    """Return whether a sentence of a text asks."""
    return any(map(is_question, sentences(text)))


def sentences(text: str) -> list[str]:
    """Return the non-empty sentences of a text with their final marks, without space around
    them.
    """
    ends = sentence_ends(text)
    parts = (
        text[start:end].strip() for start, end in zip([0, *ends], [*ends, len(text)], strict=True)
    )
    return [part for part in parts if part]


def _continues(text: str, end: re.Match[str]) -> bool:
    """Return whether the sentence goes on after a mark that may end one."""
    after = text[end.end() : end.end() + 12].lstrip(" \u00a0")
    if end.group() in ("...", "…"):
        return after[:1].islower()
    if end.group() != "." or not after or after[0] == "\n":
        return False
    before = _BEFORE.search(text[max(0, end.start() - 40) : end.start()])
    if before is None:
        return False
    word = before[2].lstrip("([{\"'“„«¿¡")
    low = word.lower()
    if low in _OPENING_ABBREVIATIONS:
        return True
    small = after[0].islower() or after[0].isdigit()
    if low in _CLOSING_ABBREVIATIONS:
        return small
    if len(word) == 1 and word.isalpha():  # an initial, or a part of `z. B.`
        return small or (word != "I" and after[0].isupper())
    if word.isdigit() and len(word) < 4:
        return (
            after[0].islower()
            or bool(_MONTH.match(after))
            or (before[1] or "").lower() in _BEFORE_ORDINAL
        )
    return False
