"""Lasting facts that a user states plainly about himself, in the first person and of the present:
the anchors of the offline rule.

Precision comes first, so a rule matches a whole clause of a known form, and its value must end
where the clause ends. What is asked, supposed, planned, past, denied, or told of somebody else is
no fact. The keys are those that a model is asked for (see `prompts`): one value holds for `name`,
`preferred_name`, `location`, `origin`, `occupation`, `employer`, `diet`, `birthday` and `partner`;
of `allergy`, `avoids`, `language`, `child`, `sibling`, `pet` and `preference` there may be many,
each with its own name after the dot. Every confidence lies below `anchors.TENTATIVE`.
"""

# ruff: noqa: E501 - a pattern reads better whole

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from recollect_server.domain.message import Message, Role
from recollect_server.domain.notes import FoundAnchor, topic_of
from recollect_server.inference.own_words import own_sentences

_SURE, _FAIR = 0.45, 0.35  # both below `anchors.TENTATIVE`

Values = Iterator[tuple[str, str]]
"""Keys and values."""


class _Rule(NamedTuple):
    """A form of clause, and what its match says."""

    pattern: str
    read: Callable[[re.Match[str]], Values]
    confidence: float = _SURE
    anywhere: bool = False
    """The match need not begin a clause: `dinner with my wife Ana`."""


class _Section:
    """Rules that can only match a sentence with one of these words, lower case."""

    def __init__(self, cues: str, rules: list[_Rule]) -> None:
        self.cues = frozenset(cues.split())
        self.rules = rules


# Parts of patterns --------------------------------------------------------------------------------

_UPPER = r"(?-i:[A-ZÀ-ÖØ-ÞĀŁŚŠŽČİ])"
_PART = rf"(?:(?-i:St|Ste|Sta|Mt|Dr)\. )?{_UPPER}[\w'’.-]*[\w]"
_NAME = rf"({_PART}(?: (?:(?-i:van|von|de|da|dos|di|der|den|del|la|bin|al) )*{_PART}){{0,2}})"
_FIRST = rf"({_PART})"
_PLACE = (
    rf"((?:(?-i:the|der|die|den|le|la|los|las) )?{_PART}"
    rf"(?:(?:,? (?:(?-i:de|do|da|del|di|am|an der|sur|sous|upon|of|the|la|le|los|las|den|aan|ob der) ){{0,2}}){_PART}){{0,3}})"
)
_END = r"(?=\s*(?:$|[.,;:!…()–—]| - | (?:and|but|so|since|because|with|now|these days|at the moment|right now|by the way|btw|too|as well|though" \
    r"|for (?:\d+|[a-z]+) years|und|aber|mit|jetzt|seit|depuis|desde|sinds|et|mais|avec|y|pero|con|e|mas|com|ma|en|maar|met)\b))"  # fmt: skip
_NOW = r"(?:(?:currently|now|still|both|actually|presently|also|all|already) )*"
_I_AM = r"(?:i ?['’]m|im|i am)"
_WE_ARE = r"(?:i ?['’]m|im|i am|we ?['’]re|we are)"
_HAVE = r"(?:i ?['’]ve|ive|i have|we ?['’]ve|we have)"
_MONTH = (
    r"(?:jan(?:uary|uar|vier|eiro)?|feb(?:ruary|ruar|rero|braio|ruari)?|f[ée]v(?:rier|ereiro)?|mar(?:ch|s|zo|ço)?|märz|maart|apr(?:il|ile)?|avril|abril|may|mai|mayo"
    r"|maio|maggio|mei|june?|juni|juin|junio|junho|giugno|july?|juli|juillet|julio|julho|luglio|aug(?:ust|ustus)?|août|agosto"
    r"|sept?(?:ember|embre|iembre)?|setembro|settembre|o[ck]t(?:ober|obre|ubre)?|outubro|ottobre|nov(?:ember|embre|iembre|embro)?"
    r"|de[czs](?:ember|embre|iembre)?|décembre|dezember|dezembro|dicembre|diciembre|enero|gennaio|janvier)"
)
_DAY = r"(?:the )?(?:[12]?\d|3[01])(?:st|nd|rd|th|er|º|°|\.)?"
_DATE = (
    rf"((?:{_DAY}(?: of| de|-)?[ -]?{_MONTH}|{_MONTH}\.? {_DAY})(?:,?(?: de| of)? (?:19|20)\d\d)?"
    r"|(?:19|20)\d\d-\d\d-\d\d|\d{1,2}[./]\d{1,2}(?:[./](?:(?:19|20)?\d\d)?)?)(?!\w)"
)
_ADJECTIVES = r"(?:(?:very|really|highly|severely|deathly|mildly|quite|super|extremely|slightly|badly|also|a bit|pretty|seriously|still|unfortunately|sadly) )*"
_WORDS = r"[^\W\d_][\w'’-]*"

_DAYS = frozenset(
    [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "tomorrow",
        "today",
        "tonight",
        "later",
        "back",
        "maybe",
        "when",
        "soon",
        "again",
        "now",
        "anytime",
        "asap",
        "christmas",
        "easter",
        "halloween",
        "yesterday",
        "heute",
        "morgen",
        "montag",
        "dienstag",
        "mittwoch",
        "donnerstag",
        "freitag",
        "samstag",
        "sonntag",
    ]
)
_TIMES = _DAYS | frozenset(
    [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ]
)
_NO_RELATIVES = _DAYS | frozenset(
    [
        "i",
        "the",
        "a",
        "an",
        "my",
        "your",
        "this",
        "that",
        "not",
        "just",
        "so",
        "if",
        "and",
        "or",
        "but",
        "ok",
        "okay",
        "please",
        "google",
        "alexa",
        "siri",
        "claude",
        "gpt",
        "chatgpt",
    ]
)
_NO_NAMES = (
    _TIMES
    | _NO_RELATIVES
    | frozenset(
        [
            "crazy",
            "old",
            "paranoid",
            "stupid",
            "naive",
            "weird",
            "dumb",
            "biased",
            "lazy",
            "picky",
            "cynical",
            "mad",
            "silly",
            "ishmael",
            "irresponsible",
            "american",
            "german",
            "french",
            "dutch",
            "english",
            "british",
            "irish",
            "scottish",
            "italian",
            "spanish",
            "mexican",
            "indian",
            "canadian",
            "australian",
            "russian",
            "polish",
            "swedish",
            "danish",
            "norwegian",
            "finnish",
            "greek",
            "turkish",
            "chinese",
            "japanese",
            "korean",
            "brazilian",
            "portuguese",
            "christian",
            "muslim",
            "jewish",
            "hindu",
            "buddhist",
            "catholic",
            "protestant",
            "gay",
            "straight",
            "bi",
            "trans",
            "aries",
            "taurus",
            "gemini",
            "cancer",
            "leo",
            "virgo",
            "libra",
            "scorpio",
            "sagittarius",
            "capricorn",
            "aquarius",
            "pisces",
            "gen",
            "swiss",
            "austrian",
            "belgian",
            "vegan",
            "vegetarian",
            "european",
            "african",
            "asian",
            "arab",
            "latino",
            "hispanic",
            "republican",
            "democrat",
            "agnostic",
            "atheist",
            "infj",
            "infp",
            "intj",
            "intp",
            "enfp",
        ]
    )
)
_NO_LOWER_NAMES = _NO_NAMES | frozenset(
    [
        "wrong",
        "hard",
        "long",
        "rare",
        "short",
        "common",
        "unusual",
        "unique",
        "mud",
        "plain",
        "difficult",
        "spelt",
        "spelled",
        "legion",
        "easy",
        "nice",
        "funny",
        "strange",
        "already",
        "public",
    ]
)
_NO_PLACES = _TIMES | frozenset(
    [
        "excel",
        "slack",
        "jira",
        "vim",
        "emacs",
        "outlook",
        "notion",
        "god",
        "jesus",
        "christ",
        "hell",
        "angst",
        "sorge",
        "furcht",
        "miete",
        "untermiete",
        "trennung",
        "scheidung",
        "armut",
        "frieden",
        "freiheit",
        "hoffnung",
        "liebe",
        "las",
        "los",
    ]
)
# What people live in that is no place, where nothing is written with a capital.
_STATES = frozenset(
    [
        "fear",
        "pain",
        "hope",
        "denial",
        "peace",
        "hell",
        "misery",
        "luxury",
        "poverty",
        "sin",
        "style",
        "constant",
        "total",
        "complete",
        "chaos",
        "shame",
        "dread",
        "harmony",
        "limbo",
        "isolation",
        "secret",
        "exile",
        "hostels",
        "hotels",
        "dorms",
        "sweatpants",
        "jeans",
        "pyjamas",
        "pajamas",
        "squalor",
        "terror",
        "debt",
        "love",
        "anger",
        "grief",
        "darkness",
        "silence",
        "filth",
        "excel",
        "vim",
        "emacs",
        "cities",
        "town",
        "suburbs",
        "suburbia",
        "apartments",
        "student",
        "shared",
        "rented",
        "temporary",
        "a",
        "an",
        "the",
        "my",
        "his",
        "her",
        "their",
        "our",
        "your",
        "this",
        "that",
        "one",
        "two",
        "such",
        "constant",
        "perpetual",
        "real",
        "moment",
        "worry",
        "solitude",
        "anticipation",
        "here",
        "there",
    ]
)
_NO_ALLERGENS = frozenset(
    [
        "mornings",
        "morning",
        "exercise",
        "work",
        "people",
        "bullshit",
        "stupidity",
        "drama",
        "nonsense",
        "losing",
        "hard",
        "commitment",
        "fun",
        "mondays",
        "monday",
        "sports",
        "cardio",
        "cleaning",
        "cooking",
        "winning",
        "boredom",
        "it",
        "that",
        "this",
        "these",
        "those",
        "them",
        "something",
        "anything",
        "everything",
        "nothing",
        "the",
        "my",
        "his",
        "her",
        "their",
        "you",
        "your",
        "what",
        "which",
        "him",
        "her",
        "me",
        "us",
        "one",
        "both",
        "all",
        "any",
        "some",
    ]
)
_LANGUAGES = (
    "english german french spanish portuguese italian dutch swedish norwegian danish finnish icelandic polish czech slovak hungarian"
    " romanian bulgarian greek turkish arabic hebrew persian farsi hindi urdu bengali tamil telugu malayalam kannada marathi gujarati"
    " punjabi nepali sinhala thai vietnamese indonesian malay tagalog filipino chinese mandarin cantonese japanese korean russian"
    " ukrainian serbian croatian bosnian slovene slovenian albanian macedonian lithuanian latvian estonian catalan basque galician welsh"
    " irish swahili yoruba igbo hausa zulu xhosa afrikaans amharic somali armenian georgian kazakh uzbek mongolian"
    " deutsch englisch französisch spanisch italienisch portugiesisch niederländisch türkisch polnisch russisch arabisch"
    " français anglais allemand espagnol italien portugais arabe español inglés francés alemán italiano portugués"
    " português inglês francês alemão espanhol inglese francese tedesco spagnolo nederlands engels duits frans spaans"
)
_LANGUAGE = rf"(?:{'|'.join(sorted(set(_LANGUAGES.split()), key=lambda word: (-len(word), word)))})"
_JOBS = (
    "teacher nurse doctor physician surgeon paediatrician pediatrician psychologist psychiatrist therapist physiotherapist dentist pharmacist"
    " vet veterinarian midwife paramedic carer caregiver engineer developer programmer designer architect scientist researcher professor"
    " lecturer tutor physicist chemist biologist mathematician statistician economist historian philosopher linguist analyst accountant"
    " auditor bookkeeper actuary banker broker trader consultant lawyer solicitor barrister attorney paralegal judge notary manager"
    " administrator secretary assistant receptionist clerk librarian journalist reporter editor writer author novelist poet translator"
    " interpreter copywriter photographer videographer filmmaker illustrator painter sculptor musician singer pianist violinist guitarist"
    " composer actor actress dancer chef cook baker butcher barista bartender waiter waitress farmer gardener florist fisherman carpenter"
    " plumber electrician welder mechanic machinist builder roofer mason tradie technician technologist driver trucker courier pilot sailor"
    " firefighter policeman policewoman detective soldier officer guard cleaner janitor hairdresser barber tailor seamstress cashier"
    " shopkeeper salesman saleswoman salesperson realtor contractor freelancer entrepreneur founder businessman businesswoman hustler"
    " student undergraduate postgraduate postdoc apprentice intern trainee coach trainer instructor recruiter marketer planner surveyor"
    " geologist astronomer pastor priest minister rabbi imam civil-servant homemaker housewife pensioner retiree sysadmin admin devops"
    " director producer dj streamer youtuber influencer podcaster optician optometrist radiologist cardiologist dermatologist neurologist"
    " anaesthetist anesthesiologist oncologist podiatrist nutritionist dietitian osteopath chiropractor sommelier curator archivist"
    " ceo cto cfo coo executive representative specialist superintendent principal headteacher stockbroker underwriter"
)
_JOB = rf"(?:{'|'.join(sorted(_JOBS.split(), key=lambda word: (-len(word), word)))}|social worker|flight attendant|civil servant|phd candidate)"
# Somebody who is `a terrible cook` cooks, and that is all.
_NO_MODIFIERS = (
    r"(?!(?:[\w'’-]+ )*?(?:bad|terrible|horrible|good|great|decent|better|best|big|huge|awful|lousy|mediocre|slow|fast|natural|born|aspiring"
    r"|wannabe|would-be|future|former|ex|hopeless|keen|avid|passionate|amateur|hobby|home|enthusiastic|lazy|nervous|funny|careful|worse|poor"
    r"|model|straight-a|visual|quick|fake|real|proud|sore|bit|little|kind|sort|not|no|dead|different|former) )"
)
_BUSINESS = (
    r"(?:bakery|shop|store|caf[eé]|restaurant|bar|pub|company|business|startup|start-up|farm|studio|agency|salon|clinic|practice|firm|hotel"
    r"|guesthouse|bookshop|bookstore|gallery|gym|school|nursery|brewery|winery|garage|workshop|dance studio|online store|clothing store)"
)
_FOODS = (
    r"(?:gluten|wheat|dairy|lactose|milk|cheese|eggs?|nuts|peanuts|tree nuts|soy|shellfish|seafood|fish|meat|red meat|pork|beef|lamb|chicken"
    r"|poultry|sugar|alcohol|animal products|mushrooms|onions?|garlic|tomato(?:es)?|sesame|caffeine|coffee|spicy food)"
)
_RELATIVE = r"(?:'s|’s| is|)"


# How matches are read -----------------------------------------------------------------------------


def _one(
    key: str, *, refused: frozenset[str] = frozenset(), title: bool = False
) -> Callable[[re.Match[str]], Values]:
    """Return a reader of the first group as the value of a key, unless its first word is
    refused.
    """

    def read(match: re.Match[str]) -> Values:
        value = match[1].strip(" ,.'’-").removesuffix("'s")
        if value and value.split()[0].lower() not in refused and not value.isupper():
            yield key, " ".join(map(_capital, value.split())) if title else value

    return read


def _capital(word: str) -> str:
    return word if len(word) < 3 else word[:1].upper() + word[1:]


def _many(
    key: str, *, refused: frozenset[str] = frozenset(), spelt: str = "{}"
) -> Callable[[re.Match[str]], Values]:
    """Return a reader of the first group as a list, each item with a key of its own."""

    def read(match: re.Match[str]) -> Values:
        for item in re.split(r",|;|/| (?:and|or|und|oder|et|ou|y|o|e|en|of) ", match[1]):
            value = re.sub(
                r"^(?:and|or|to|all kinds of|most|the|any|also|some|certain) ",
                "",
                item.strip(" .'’-"),
                flags=re.I,
            )
            if (
                value
                and len(value.split()) <= 3
                and value.split()[0].lower() not in refused
                and (name := _slug(value))
            ):
                yield f"{key}.{name}", spelt.format(value)

    return read


def _fixed(key: str, value: str) -> Callable[[re.Match[str]], Values]:
    def read(match: re.Match[str]) -> Values:  # noqa: ARG001 - that it matched says it
        yield key, value

    return read


def _languages(match: re.Match[str]) -> Values:
    for language in re.findall(rf"\b{_LANGUAGE}\b", match[0], re.IGNORECASE):
        yield f"language.{language.lower()}", language[:1].upper() + language[1:]


def _relative(kind: str) -> Callable[[re.Match[str]], Values]:
    """Return a reader of a relative or a pet: the first group says which, the others are names."""

    def read(match: re.Match[str]) -> Values:
        for name in re.split(r",| and | & ", " and ".join(filter(None, match.groups()[1:]))):
            if (
                (name := name.strip().removesuffix("'s"))
                and _slug(name)
                and name.lower() not in _NO_RELATIVES
                and not name.isupper()
            ):
                yield f"{kind}.{_slug(name)}", f"{name} ({match[1].lower()})" if match[1] else name

    return read


def _introduction(match: re.Match[str]) -> Values:
    if match["name"].split()[0].lower() not in _NO_NAMES:
        yield "name", match["name"]
        yield from _job(match)
        if match["origin"]:
            yield "origin", match["origin"].strip(" ,.'’-")


def _job(match: re.Match[str]) -> Values:
    """Read an occupation, and who employs."""
    groups = match.groupdict()
    if (job := groups.get("job")) and not re.match(
        r"(?:team|whole|unit|pair|family|couple|group|result|side|means|way|duo|one)\b", job
    ):
        yield "occupation", re.sub(r"^\d+-years?-old ", "", job.strip())
    if employer := groups.get("employer"):
        yield from _employer(employer)


def _employer(value: str) -> Values:
    value = value.strip(" ,.'’-")
    if (value and value.split()[0].lower() not in _TIMES | {"the"}) or " " in value:
        yield "employer", value.removeprefix("the ")


_SLOTS = [
    ("spelling", r"(?:british|american|uk|us) (?:english|spelling)"),
    ("units", r"metric|imperial|celsius|fahrenheit|kilomet(?:er|re)s?|miles|kilos?|pounds"),
    ("time-format", r"24[- ]?hours?|12[- ]?hours?|am/pm|iso dates?|date format"),
    ("emojis", r"emojis?|emoticons?"),
    ("language", rf"(?:in|auf|en|em|in het) (?:{_LANGUAGE})"),
    ("answer-length", r"(?:short|brief|concise|succinct|terse|long|longer|shorter|detailed|thorough|in-depth|to the point)\b|\b(?:sentences?|words|lines|paragraphs?)\b|\bbrief"),
    ("format", r"bullet(?:s| points?)?|lists|tables?|markdown|plain text|headings|headers|code comments?|step[- ]by[- ]step"),
    ("tone", r"formal(?:ly)?|informal(?:ly)?|casual(?:ly)?|polite(?:ly)?|blunt(?:ly)?|honest(?:ly)?|direct(?:ly)?|friendly|jargon|simple words|plain (?:english|language)|small talk|sugar-?coat\w*"),
    ("currency", r"euros?|dollars?|pounds sterling|usd|eur|gbp|yen|francs?|rupees?"),
]  # fmt: skip
_SLOT = [(name, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for name, words in _SLOTS]
_INSTRUCTION_VERB = r"(?:answer|reply|respond|write|use|give|keep|speak|talk|address|include|avoid|explain|show|format|add|be|send|quote|convert|text|message|tell)"


def _slug(text: str) -> str:
    """Return a text as the last part of a key: ASCII, in kebab-case; empty if nothing of it is
    left.
    """
    plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    return topic_of(plain)


def _slot(text: str) -> str:
    return next((name for name, words in _SLOT if words.search(text)), "")


def _instruction(match: re.Match[str]) -> Values:
    """Read a standing instruction about how to answer; one that is about anything else is for the
    task at hand.
    """
    value = re.sub(
        r",? (?:please|thanks|thank you|ok(?:ay)?)$", "", match[1].strip(), flags=re.IGNORECASE
    )
    if (slot := _slot(value)) and len(value) <= 100:
        yield f"preference.{slot}", value


def _preference(match: re.Match[str]) -> Values:
    value = re.sub(
        r",? (?:please|always|generally|usually|in general|overall)$",
        "",
        match[1].strip(),
        flags=re.IGNORECASE,
    )
    first = value.split()[0].lower() if value else "the"
    if slot := _slot(value):
        yield f"preference.{slot}", value
    elif (
        first not in _POINTING
        and not first.endswith("ing")
        and not re.search(
            r"\b(?:this|that|these|those|it|one|ones|option|version|first|second|latter|former)\b",
            value,
        )
    ):
        thing = re.split(r" (?:over|to|rather than|instead of) ", value)[0]
        if len(thing.split()) <= 3 and (name := _slug(thing)):
            yield f"preference.{name}", value


_POINTING = frozenset(
    [
        "the",
        "this",
        "that",
        "these",
        "those",
        "it",
        "its",
        "to",
        "not",
        "if",
        "when",
        "my",
        "your",
        "his",
        "her",
        "their",
        "our",
        "a",
        "an",
        "one",
        "both",
        "neither",
        "either",
        "option",
        "something",
        "someone",
        "being",
        "having",
        "going",
        "doing",
        "getting",
        "you",
        "we",
        "them",
        "him",
        "what",
        "how",
        "more",
        "less",
        "no",
    ]
)


# Rules --------------------------------------------------------------------------------------------


_CONDITION = r"(?:coeliac|celiac)(?: disease)?"
_VEG = r"(vegan|vegetarian|pescatarian|pescetarian|flexitarian|lacto-vegetarian|plant-based|gluten[- ]free|dairy[- ]free)"
_DIET_END = r"(?=\s*(?:$|[.,;:!…()–—]| - | (?:and|but|so|since|because|now|btw|by the way|who|too|myself|these days|for)\b))"
_CHILD = r"((?:(?:older|younger|oldest|youngest|eldest|middle|little|only|baby|[\w-]+-year-old|\d+ ?yo) )?(?:son|daughter|kid|child|baby|baby boy|baby girl|toddler|stepson|stepdaughter)(?! in-law))"
_PET = r"((?:(?:old|little|new|rescue) )?(?:dog|puppy|cat|kitten|rabbit|bunny|parrot|hamster|horse|pony|tortoise))"
_CALLED = r"(?:,? | is called | is named |['’]s (?:called|named) |['’]s name is | whose name is | named | called )"

_SECTIONS = [
    _Section(  # Names
        "name names call calls called known go hi hey hello morning afternoon evening m im am",
        [
            _Rule(rf"my (?:full |first |given |real )?name(?:'s|’s|s| is)(?: actually| really)? {_NAME}{_END}", _one("name", refused=_NO_NAMES)),
            _Rule(
                r"(?-i:my name is|my names|my name's) ((?-i:[a-z]{3,15}))(?=\s*(?:$|[.,!]$|,? (?:from|and i)\b))(?<!ing)(?<!ed)(?<!ly)",
                _one("name", refused=_NO_LOWER_NAMES, title=True),
                _FAIR,
            ),
            _Rule(
                (rf"(?:please |just |simply |so )*(?:(?:(?:every(?:one|body)|my friends|friends|people|folks|most people|my family)(?: just| usually)? calls?"
                    rf"|you (?:can|may|should)(?: just| also)? call|call|but call|just call) me|i(?: usually| mostly)? go by|i like to be called|"
                    rf"i(?:'d| would) (?:prefer|like) to be called|i prefer to be called|i(?:'m| am) (?:also )?(?:known|called)(?: as)?) (?:the name )?{_FIRST}{_END}"),
                _one("preferred_name", refused=_NO_NAMES),
            ),
            _Rule(
                r"(?:please|just|you can|you may)(?: just| please)? call me ((?-i:[a-z]{2,15}))(?=\s*(?:$|[.,!]))",
                _one("preferred_name", refused=_NO_NAMES, title=True),
                _FAIR,
            ),
            _Rule(rf"(?:hi|hey|hello|good (?:morning|afternoon|evening))(?: there| all)?[,!.]? (?:i ?['’]m|i am) {_NAME}(?=\s*(?:$|[.,;!–—]| from\b| and\b| - ))", _one("name", refused=_NO_NAMES)),
            _Rule(
                rf"{_I_AM} (?P<name>{_NAME[1:-1]}), an? {_NO_MODIFIERS}(?P<job>(?:[\w'’/-]+ ){{0,4}}?{_JOB})(?: (?:in|at) {_PLACE[1:-1]})?(?: from (?P<origin>{_PLACE[1:-1]}))?(?=\s*(?:$|[.,;:!…()–—]| (?:and|but|with|from|who|based|living)\b))",
                _introduction,
            ),
            _Rule(rf"{_I_AM} {_NAME}(?=, (?:and )?(?:i|we|my)\b)", lambda match: _one("name", refused=_NO_NAMES)(match) if match.start() == 0 else iter(()), _FAIR),
            _Rule(rf"{_I_AM} {_NAME}(?=,? (?:an? (?:[\w'’-]+ ){{0,4}}?{_JOB}|from {_UPPER}|(?:\d\d|[a-z]+-[a-z]+),? (?:years old|from|and))\b)", _one("name", refused=_NO_NAMES)),
        ],
    ),
    _Section(  # Home
        "live living reside based located residing settled moved home house flat apartment from lived come hail",
        [
            _Rule(
                rf"(?:i|we|{_I_AM} \d\d(?: years old)?,? and(?: i)?) {_NOW}(?:live|reside)(?: together| alone| here| just)? (?:in|near|outside|close to|on|at) {_PLACE}{_END}",
                _one("location", refused=_NO_PLACES),
            ),
            _Rule(rf"{_HAVE} (?:lived|been living) (?:here )?in {_PLACE}(?= (?:for|since)\b)", _one("location", refused=_NO_PLACES)),
            _Rule(rf"{_WE_ARE} {_NOW}(?:living|based|located|residing|settled)(?: here| now)? (?:in|near|outside|out of) {_PLACE}{_END}", _one("location", refused=_NO_PLACES)),
            _Rule(
                r"(?-i:(?:i|we) (?:(?:currently|now|still) )?live in|(?:i'm|im|we're) (?:currently )?(?:living|based) in) ((?-i:[a-zà-ÿ]{3,}(?: [a-zà-ÿ]{3,})?))(?=\s*(?:$|[.,!;]| (?:and|but|so|now|with)\b))",
                _one("location", refused=_STATES, title=True),
                _FAIR,
            ),
            _Rule(
                rf"(?:(?:{_HAVE}|i|we) (?:just|recently|finally|now|only just) )moved (?:back |over |out )?(?:here )?to {_PLACE}{_END}",
                _one("location", refused=_NO_PLACES),
            ),
            _Rule(rf"(?:{_HAVE}|i|we) moved (?:back |over )?to {_PLACE}(?= (?:last|this) (?:week|month|year|spring|summer|autumn|fall|winter)\b| (?:a few|two|three|\d) (?:weeks|months|days) ago| recently)", _one("location", refused=_NO_PLACES)),
            _Rule(rf"(?:my|our) (?:home|house|flat|apartment|home town now) is (?:in |near |outside )((?:an? (?:[a-z]+ ){{1,3}}(?:near|outside|in) )?{_PLACE[1:]}{_END}", _one("location", refused=_NO_PLACES)),
            _Rule(rf"home (?:for me )?is {_PLACE}{_END}", _one("location", refused=_NO_PLACES)),
            _Rule(rf"(?:{_I_AM}|i (?:originally )?(?:come|hail)) (?:originally )?from {_PLACE}{_END}", _one("origin", refused=_NO_PLACES)),
        ],
    ),
    _Section(  # Work
        "work working works worked employed employer company run own manage living title occupation profession trade been teach m im am",
        [
            _Rule(
                (r"(?:i (?:(?:currently|now|also|still|mostly) )?work(?: nights| part[- ]time| full[- ]time| freelance| remotely| here| there)*|i ?['’]m (?:currently |now )?(?:working|employed)|i am (?:currently |now )?(?:working|employed)|i ?['’]ve been working) as (?:an?|the) "
                    rf"(?P<job>[^.,;:!?()\n]{{2,60}}?(?: in {_UPPER}[\w'’-]+)?)(?: (?:at|for|with) (?P<employer>(?:the )?{_PLACE[1:-1]}))?"
                    r"(?=\s*(?:$|[.,;:!…()–—]| (?:and|but|so|at|for|with|because|while|since|from|on|in|which|who|now|these)\b))"),
                _job,
            ),
            _Rule(
                (rf"{_I_AM} {_NOW}(?:an? |the |(?={_JOB}\b)){_NO_MODIFIERS}(?P<job>(?:[\w'’/&-]+ ){{0,4}}?{_JOB}(?: and (?:[\w'’-]+ ){{0,2}}{_JOB})?(?: in {_UPPER}[\w-]+)?)"
                    rf"(?: (?:at|with|for) (?P<employer>(?:the )?{_PLACE[1:-1]}))?"
                    r"(?=\s*(?:$|[.;:!…()–—]|,(?! not\b)| (?:and|but|so|at|for|with(?! a (?:focus|passion))|because|since|from|on|now|these days|by profession|by trade|in|who|working)\b))(?! (?:at heart|in my|in this|in the making|in training|by training|for (?:the day|a day|now|halloween)|and not\b))"),
                _job,
            ),
            _Rule(rf"{_HAVE} (?:been|worked as) (?:an? ){_NO_MODIFIERS}(?P<job>(?:[\w'’-]+ ){{0,3}}?{_JOB})(?: (?:at|with) (?P<employer>{_PLACE[1:-1]}))? (?=(?:for|since)\b)", _job),
            _Rule(
                rf"(?:i|we) (?:(?:currently|now|still|both|also) )?work (?:for|at) ((?:the (?:[a-z]+ (?:of )?)?)?{_PLACE[1:]}{_END[:-1]}| in\b| as\b)",
                lambda match: (it for it in _employer(match[1]) if match[1].split()[0].lower() not in _TIMES),
            ),
            _Rule(r"i (teach (?!you\b|him\b|her\b|them\b|my\b|people\b|it\b)[a-z]+(?: [a-z]+)? (?:at|in|to) (?:an? |the )?[^.,;:!?()\n]{3,40}?)(?=\s*(?:$|[.,;:!]| (?:and|but|so|with)\b))", _one("occupation")),
            _Rule(rf"my (?:employer|company) is {_PLACE}{_END}", _one("employer", refused=_NO_NAMES)),
            _Rule(r"i ((?:run|own|manage|co-own) (?:an?|my own|our) (?:(?!(?:big|risk|lot)\b)[\w'’-]+ ){0,3}?" + _BUSINESS + rf"(?: (?:in|near) {_PLACE[1:-1]})?)(?=\s*(?:$|[.,;:!()–—]| (?:and|but|so|with|where|that|called|named|from|since)\b))", _one("occupation")),
            _Rule(r"i ((?!do\b|live\b|work\b|am\b|was\b|have\b|want\b|need\b|never\b|don|can)[a-z]+ (?:[\w'’-]+ ){1,4}?)for a living", _one("occupation")),
            _Rule(r"my (?:job title|occupation|profession|trade) is (?:an? )?([a-z][\w' -]{2,40}?)(?=\s*(?:$|[.,;!]| at\b| and\b))", _one("occupation", refused=frozenset(["not", "the", "very", "so"]))),
            _Rule(rf"{_I_AM} (?:now |currently |fully )?((?:self-employed|retired|unemployed)){_END}", _one("occupation")),
        ],
    ),
    _Section(  # Allergies and diet
        "allergic allergy allergies intolerant intolerance celiac coeliac vegan vegetarian vegans vegetarians pescatarian pescetarian flexitarian lacto plant gluten dairy eat have drink tolerate digest touch keep follow stick",
        [
            _Rule(
                rf"{_I_AM} {_ADJECTIVES}allergic to ([^.;:!?()…–—\n]{{2,60}}?)(?=\s*(?:$|[.;:!…()–—]| - |, (?:so|but|and i|and my|please|which|can|could|what|is|do|any|how|and (?:also )?(?:lactose|vegetarian|vegan))\b| (?:so|but|which|since|because|though|too|as well|by the way|btw|please|and (?:i|my|we|also i|have|can)\b|, by the way)\b))",
                _many("allergy", refused=_NO_ALLERGENS),
            ),
            _Rule(
                (r"(?:i (?:do )?(?:have|suffer from)|i ?['’]ve|ive)(?: got)? (?:an? |this )?(?:(?:severe|serious|bad|mild|strong|life-threatening|slight|terrible|nasty) )?(?!food |no |allerg|any |some |many |bad |seasonal |lots )"
                    r"((?:tree |bee |wasp |cat |dog |dust |grass )?[a-z]+) (?:allergy|allergies)(?! (?:test|appointment|medic|season|doctor|pills?))"),
                _many("allergy", refused=_NO_ALLERGENS),
            ),
            _Rule(rf"(?:i have|i ?['’]ve(?: got)?) an? (?:[a-z]+ )?(?:allergy|intolerance) to ([a-z' -]{{2,40}}?){_END}", _many("allergy", refused=_NO_ALLERGENS)),
            _Rule(rf"{_I_AM} {_ADJECTIVES}(lactose|gluten|fructose|histamine|dairy)[ -]intolerant", _many("allergy", spelt="{} (intolerance)")),
            _Rule(r"i have (?:an? )?(lactose|gluten|fructose|histamine|dairy) intolerance", _many("allergy", spelt="{} (intolerance)")),
            _Rule(rf"(?:i (?:have|['’]ve got)|{_I_AM}(?: an?)?) {_CONDITION}{_DIET_END}", _fixed("allergy.gluten", "gluten (coeliac disease)")),
            _Rule(
                rf"{_WE_ARE} (?:all )?(?:(?:now|both|also|strictly|strict|mostly|a|an|lifelong|fully|still|currently|basically|committed|on a|eating) )*{_VEG}s?(?: diet| household| family)?{_DIET_END}",
                _one("diet"),
            ),
            _Rule(rf"(?:i|we) (?:only |always |strictly )?(?:eat|keep|follow|am on|stick to) (?:only |an? )?(?:strict(?:ly)? )?(vegan|vegetarian|pescatarian|halal|kosher|keto|paleo|low-carb|low-fodmap|gluten[- ]free|plant-based|mediterranean)(?: diet| food| meals)?{_DIET_END}", _one("diet")),
            _Rule(rf"(?:i|we) (?:do not|don['’]?t|never|cannot|can ?['’]?t|can not) (?:eat|have|drink|tolerate|digest|touch)(?: any)? ({_FOODS}(?:(?:,| or| and|, or) {_FOODS})*)(?=\s*(?:$|[.,;:!…()–—]| (?:and|but|so|because|since|at all|anymore|any more|at home|for (?:religious|health|medical))\b))", _many("avoids", spelt="no {}")),
            _Rule(r"i (?:do not|don['’]?t|never) drink(?: at all| any more| anymore)?(?=\s*(?:$|[.,;!]))", _fixed("avoids.alcohol", "no alcohol"), _FAIR),
        ],
    ),
    _Section(  # Birthday
        "birthday bday b date dob birth birthdate born turn turning ll will",
        [
            _Rule(rf"my (?:birthday|bday|b-day|date of birth|dob|birth date|birthdate)(?:['’]?s| is|:)(?: on| always on)? ?{_DATE}", _one("birthday")),
            _Rule(rf"i was born(?: on)? {_DATE}", _one("birthday")),
            _Rule(rf"(?:i turn|i['’]m turning|i am turning|i['’]ll be|i['’]ll turn|i will be|i will turn) \d\d on {_DATE}", _one("birthday")),
            _Rule(rf"{_DATE} is my (?:birthday|bday)", _one("birthday")),
        ],
    ),
    _Section(  # Languages
        "tongue language native speak fluent bilingual",
        [
            _Rule(rf"my (?:mother tongue|native (?:language|tongue)|first language)(?:['’]s| is) (?:\w+ )?{_LANGUAGE}\b", _languages),
            _Rule(rf"{_I_AM} an? (?:native {_LANGUAGE}(?:[ -]speaker)?|{_LANGUAGE} native(?: speaker)?|native speaker of {_LANGUAGE})\b", _languages),
            _Rule(
                (rf"(?:i|we) (?:(?:also|only|both|mostly|natively|fluently|mainly) )*speak (?:(?:fluent|some|a little|only|both|native|good|basic|a bit of|mostly) )*"
                    rf"{_LANGUAGE}\b(?:(?: at \w+| with \w+ \w+)?(?:,| and| &|, and| as well as| fluently) (?:(?:some|a little|fluent|a bit of|also) )*{_LANGUAGE}\b)*"),
                _languages,
            ),
            _Rule(rf"{_I_AM} (?:\w+ )?(?:fluent|bilingual) in {_LANGUAGE}\b(?:(?:,| and|, and) {_LANGUAGE}\b)*", _languages),
        ],
    ),
    _Section(  # Family and pets
        "wife husband partner girlfriend boyfriend fiance fiancé fiancee fiancée spouse married engaged son daughter kid kids child children baby boy boys girl girls sons daughters toddler stepson stepdaughter brother sister dog puppy cat kitten rabbit bunny parrot hamster horse pony tortoise",
        [
            _Rule(
                rf"my (?:lovely |dear |wonderful )?(?:wife|husband|partner|girlfriend|boyfriend|fianc[eé]e?|spouse){_CALLED}{_FIRST}",
                _one("partner", refused=_NO_RELATIVES),
                anywhere=True,
            ),
            _Rule(rf"{_I_AM} (?:happily )?(?:married|engaged) to {_FIRST}\b", _one("partner", refused=_NO_RELATIVES)),
            _Rule(rf"(?:my|our) {_CHILD}{_CALLED}{_FIRST}", _relative("child"), anywhere=True),
            _Rule(
                rf"(?:i|we) (?:have|['’]ve got) (?:two|three|four|five|2|3|4|5) (?:(?:small|little|young|lovely|beautiful|wonderful|grown|grown-up) )?()(?:kids|children|sons|daughters|boys|girls)(?:,|:| called| named| -| –| \()? {_FIRST}(?:, {_FIRST})?(?:, {_FIRST})?,? (?:and|&) {_FIRST}",
                _relative("child"),
            ),
            _Rule(rf"(?:i|we) (?:have|['’]ve got) (?:an?|one) {_CHILD}{_CALLED}{_FIRST}", _relative("child")),
            _Rule(rf"(?:my|our) (?:kids|children|sons|daughters)(?:['’] names are|,| are(?: called)?)? (){_FIRST}(?:, {_FIRST})?,? (?:and|&) {_FIRST}", _relative("child"), anywhere=True),
            _Rule(rf"my ((?:(?:older|younger|big|little|twin|baby) )?(?:brother|sister)){_CALLED}{_FIRST}", _relative("sibling"), anywhere=True),
            _Rule(rf"(?:my|our) {_PET}{_CALLED}{_FIRST}", _relative("pet"), anywhere=True),
            _Rule(rf"(?:i|we) (?:have|['’]ve got|own) (?:an?|one) {_PET}{_CALLED}{_FIRST}", _relative("pet")),
        ],
    ),
    _Section(  # Preferences
        "always never now future forward rule default answers replies responses time timezone prefer rather like want pronouns",
        [
            _Rule(rf"(?:please )?((?:always|never) {_INSTRUCTION_VERB}\b(?! (?:it|this|that) )(?! as\b)[^.;!?\n…]{{2,90}})", _instruction),
            _Rule(r"(?:please )?(keep (?:your |all |all your )?(?:answers|replies|responses) [^.,;!?\n…]{2,60})", _instruction),
            _Rule(rf"(?:from now on|in (?:the )?future|going forward|as a rule|by default|for all (?:future )?(?:answers|replies)),? (?:please )?(?:always )?((?:never )?(?:{_INSTRUCTION_VERB}|do not|don['’]t|stop|no)\b(?! as\b)[^.;!?\n…]{{2,90}})", _instruction),
            _Rule(rf"(?:please )?((?:{_INSTRUCTION_VERB}|do not {_INSTRUCTION_VERB}|don['’]t {_INSTRUCTION_VERB})\b(?! as\b)[^.;!?\n…]{{2,80}}? (?:from now on|in future|in the future|every time|going forward|by default))", _instruction),
            _Rule(r"i (?:always |generally |usually |much |really |strongly |would )?(?:prefer|want|like)(?: it when)? (you to (?:always |never )(?:answer|reply|respond|write|speak|talk|keep|be|use|address)[^.;!?\n…]{2,80})", _instruction),
            _Rule(r"i(?:'d|’d| would) (?:rather|prefer)(?: it)?(?: if)? (you (?:kept|keep|gave|answered|answer|replied|used|wrote|spoke|didn['’]t|did not|not)[^.;!?\n…]{2,80})", _instruction),
            _Rule(r"i (?:(?:always|generally|usually|really|normally|strongly|much) )*prefer (?:getting |having |to get |to have |receiving )?([^.,;:!?()…\n]{2,60}?)(?=\s*(?:$|[.;:!]|, (?:always|please|so|and|but|in general)\b| (?:because|since|so|but|and i)\b))", _preference, _FAIR),
            _Rule(r"my (?:time ?zone|pronouns) (?:is|are) ([\w/+:-]{2,30})", lambda match: iter([("timezone" if "zone" in match[0].lower() else "pronouns", match[1])])),
        ],
    ),
    _Section(  # German, French, Spanish, Portuguese, Italian, Dutch
        "ich wir mein meine unser unsere nenn nenne nennt bitte antworte schreib sprich je j nous on mon ma notre appelle appelez réponds me mi vivo vivimos resido soy trabajo nací hablo llamame llámame nuestro nuestra responde respondeme eu meu minha moro moramos vivemos sou nasci chamo chama pode trabalho falo nosso nossa responda io mio mia abito abitiamo viviamo sono lavoro parlo chiamami nostro nostra il rispondi rispondimi ik wij we mijn onze noem antwoord",
        [
            _Rule(rf"(?:ich heiße|ich heisse|mein name ist|je m'appelle|mon nom est|me llamo|mi nombre es|(?:eu )?me chamo|chamo-me|(?:o )?meu nome é|mi chiamo|il mio nome è|ik heet|mijn naam is) {_NAME}{_END}", _one("name", refused=_NO_NAMES)),
            _Rule(rf"(?:nenn(?:e|t)? mich|appelle[- ]moi|appelez[- ]moi|ll[aá]mame|chama-me|me chame de|pode me chamar de|chiamami|noem me|noem mij) (?:bitte |einfach |simplemente |maar |gewoon )?{_FIRST}{_END}", _one("preferred_name", refused=_NO_NAMES)),
            _Rule(
                (rf"(?:(?:ich|wir) (?:wohnen?|leben?) (?:jetzt |derzeit |momentan |inzwischen |seit \w+ |zurzeit |nun |hier )*in|(?:j'habite|nous habitons|je vis|nous vivons|on habite) (?:maintenant |actuellement )?(?:à|en|au|aux)|j'habite"
                    rf"|(?:vivo|vivimos|resido) (?:ahora |actualmente )?en|(?:moro|moramos|vivo|vivemos) (?:agora |atualmente )?(?:em|no|na|nos)|(?:vivo|viviamo|abito|abitiamo) (?:ora |adesso )?(?:a|ad|in)"
                    rf"|(?:ik woon|wij wonen|we wonen|ik leef) (?:nu |tegenwoordig |momenteel )?in) {_PLACE}{_END}"),
                _one("location", refused=_NO_PLACES),
            ),
            _Rule(rf"(?:ich bin|wir sind) (?:\w+ )?nach {_PLACE} (?:umgezogen|gezogen)", _one("location", refused=_NO_PLACES)),
            _Rule(
                (r"(?:ich bin (?:(?!nicht|kein)\w+ )?allergisch (?:gegen|auf)|je suis (?:(?!pas)\w+ )?allergique (?:à la |à l'|aux |au |à )|soy (?:muy )?al[eé]rgic[oa] (?:a las|a los|a la|al|a)|(?:eu )?sou al[eé]rgic[oa] (?:às|aos|à|ao|a)"
                    r"|sono allergic[oa] (?:alle|agli|alla|allo|all'|ai|al|a)|ik ben (?:(?!niet)\w+ )?allergisch voor) ?([^.;:!?()…\n]{2,50}?)(?=\s*(?:$|[.;:!…()–—]| - |, (?:also|bitte|aber|donc|mais|así|pero|por|então|mas|quindi|ma|dus|maar)\b| (?:aber|mais|pero|mas|ma|maar)\b))"),
                _many("allergy"),
            ),
            _Rule(
                (rf"(?:(?:ich bin|wir sind) (?:seit \w+ \w+ |jetzt |strikte[r]? |überzeugte[r]? )*(vegetarier(?:in)?|veganer(?:in)?|vegetarisch|vegan)|je suis (vég[ée]tarien(?:ne)?|vegan|végane?)|soy (vegetarian[oa]|vegan[oa])"
                    rf"|(?:eu )?sou (vegetarian[oa]|vegan[oa])|sono (vegetarian[oa]|vegan[oa])|ik ben (?:een )?(vegetari[eë]r|veganist(?:e)?|vegetarisch|veganistisch)|ich (?:esse|ernähre mich) (vegetarisch|vegan)|ik eet (vegetarisch|veganistisch|vegan)){_END}"),
                lambda match: iter([("diet", next(filter(None, match.groups())))]),
            ),
            _Rule(
                (r"(?:ich arbeite (?:derzeit |jetzt )?als|je travaille comme|trabajo (?:como|de)|(?:eu )?trabalho como|lavoro come|ik werk als) (?:eine? |une? |uma? |un[ao]? |een )?(?P<job>[^.,;:!?()\n]{2,50}?)"
                    r"(?=\s*(?:$|[.,;:!…()]| (?:und|aber|bei|in|im|seit|et|mais|chez|à|dans|depuis|y|pero|en|desde|e|mas|em|no|na|ma|da|presso|a|maar|bij|sinds|für|pour|para|por|per|voor)\b))"),
                _job,
            ),
            _Rule(rf"(?:ich arbeite (?:derzeit |jetzt )?bei|je travaille chez|ik werk (?:nu )?bij) (?:der |dem |la |le |de )?{_PLACE}{_END}", _one("employer", refused=_NO_PLACES)),
            _Rule(
                (rf"(?:mein geburtstag ist (?:am |der )?|ich (?:wurde|bin) am (?=.{{3,20}} geboren)|ich habe am (?=.{{3,20}} geburtstag)|mon anniversaire est le |je suis née? le |mi cumpleaños es el |nací el |(?:o )?meu (?:aniversário|aniversario) é (?:no dia |em |dia )?"
                    rf"|(?:eu )?nasci (?:em|no dia|a) |il mio compleanno è (?:il |l')|sono nat[oa] (?:il |l')|mijn verjaardag is (?:op )?|ik ben jarig op |ik ben geboren op |ik ben op (?=.{{3,20}} (?:jarig|geboren))) ?{_DATE}"),
                _one("birthday"),
            ),
            _Rule(
                (rf"(?:meine (?:frau|freundin|verlobte|partnerin)|mein (?:mann|freund|verlobter|partner)|ma (?:femme|compagne|copine)|mon (?:mari|compagnon|copain)|mi (?:esposa|esposo|mujer|marido|novia|novio|pareja)|(?:a )?minha (?:esposa|mulher|namorada)|(?:o )?meu (?:marido|esposo|namorado)"
                    rf"|mia moglie|mio marito|mijn (?:vrouw|man|vriendin|vriend|partner))(?:,? | heißt | s'appelle | se llama | se chama | si chiama | heet ){_FIRST}(?!\w)"),
                _one("partner", refused=_NO_RELATIVES),
                anywhere=True,
            ),
            _Rule(
                rf"(?:(?:unsere?|meine?) (sohn|tochter)|(?:mon|ma|notre) (fils|fille)|(?:mi|nuestr[oa]) (hijo|hija)|(?:o |a )?(?:meu|minha|noss[oa]) (filho|filha)|(?:mi[oa]|nostr[oa]) (figlio|figlia)|(?:mijn|onze) (zoon|dochter))(?:,? | heißt | s'appelle | se llama | se chama | si chiama | heet ){_FIRST}(?!\w)",
                lambda match: iter([(f"child.{_slug(match[7])}", f"{match[7]} ({next(filter(None, match.groups())).lower()})")]),
                anywhere=True,
            ),
            _Rule(rf"(?:meine muttersprache ist|ma langue maternelle est|mi lengua materna es|minha língua materna é|la mia lingua madre è|mijn moedertaal is)(?: le| l'| el| o| a| il| het)? ?{_LANGUAGE}\b|(?:ich spreche|je parle|hablo|(?:eu )?falo|parlo|ik spreek) (?:\w+ )?{_LANGUAGE}\b(?:(?:,| und| et| y| e| en) (?:\w+ )?{_LANGUAGE}\b)*", _languages),
            _Rule(r"(?:bitte )?((?:antworte|antworten sie|schreib|sprich)(?: mir)?(?: bitte)? immer [^.;!?\n]{2,60}|réponds(?:[- ]moi)? toujours [^.;!?\n]{2,60}|responde(?:me)? siempre [^.;!?\n]{2,60}|respond[ae](?:-me)? sempre [^.;!?\n]{2,60}|rispondi(?:mi)? sempre [^.;!?\n]{2,60}|antwoord altijd [^.;!?\n]{2,60})", _instruction),
        ],
    ),
]  # fmt: skip

# Guards -------------------------------------------------------------------------------------------

# Anywhere before a clause these put it in doubt, or in somebody else's mouth.
_DOUBT_BEFORE = re.compile(
    r"\b(?:if|unless|suppose|supposing|imagin\w*|pretend\w*|wish\w*|used to|say|says|said|saying|told|tells?|telling|asked|wrote|writes?"
    r"|claims?|claimed|believes?|believed|mentioned|heard|according|quot\w+|e\.g|example|for instance|character|story|scene|novel|game|dream\w*"
    r"|scenario|joke|template|movie|film|song|lyrics|not because|not that|as though|hypothetical\w*|back then|years ago|formerly"
    r"|wenn|falls|als ob|cuando|quand|quando|caso|toen|indien|when|whenever|sagt\w*|dit|dice|disse|zei|zegt)\b",
    re.IGNORECASE,
)
# These do within their own part of a sentence.
_DOUBT_BESIDE = re.compile(
    r"\b(?:would|whether|asks?|thinks?|thought|assum\w*|once|until|feel like|like i|plan\w*|hop(?:e|es|ing)|going to|gonna|might|may|could|should"
    r"|doubt|lie|lied|fake|before|he|she|they|als|ob|si)\b",
    re.IGNORECASE,
)
_DOUBT_AFTER = re.compile(
    r"^[^.;!?]{0,12}\b(?:no longer|no more|any ?more|lol jk|jk|just kidding|kidding|unless|until|temporarily|for now|for the (?:week|month|summer|winter|season|moment|time being)"
    r"|for (?:a|the next) (?:few|couple|week|month|year)|used to be|i wish|in (?:the|this|my) (?:game|story|dream|movie|novel|play|show)|nicht mehr|più|plus)\b"
    r"|^ (?:not|never|was)\b|^,? (?:not any ?more|not now|not really)\b"
    r"|^[,.]? ?[\"”’]?\b(?:he|she|they|"
    + _PART
    + r") (?:said|says|wrote|writes|replied|told|asked|thinks?|claims?)\b"
    r"|[,\"”’] ?(?:he|she|they) (?:said|says|wrote|replied|told|asked)\b"
    r"|^,? (?:i|we) (?:said|told|wrote|would say|could say|used to say)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"(?:\b(?:and|but|so|because|since|as|cause|cuz|plus|also|well|hi|hey|hello|there|yes|yeah|yep|no|nope|ok|okay|btw|by the way|fyi|actually|anyway|now"
    r"|oh|sorry|please|just so you know|for the record|for your information|for context|remember|note|keep in mind|bear in mind|mind|know|be aware"
    r"|don['’]t forget|never forget|given|although|though|while|however|today|again|right|look|listen|honestly|unfortunately|luckily|basically|personally|myself"
    r"|too|mate|thanks|thank you|reminder|about me|background|as you know|you know|you should know|first|then|finally|and then|that"
    r"|und|aber|weil|da|also|ja|nein|hallo|übrigens|bitte|et|mais|car|parce que|bonjour|salut|oui|non|y|pero|porque|hola|sí|e|mas|pois|olá|oi|sim"
    r"|ma|perché|ciao|buongiorno|en|maar|want|omdat|hoi|dag|yo|eu|io|ik|moi|ich)\b[\s,.!:]*)+$",
    re.IGNORECASE,
)
_SAID_BEFORE = re.compile(
    r"\b(?:as|like) i(?:['’]ve| have)? (?:said|mentioned|told you|wrote)(?: before| already| earlier| above)?,? ",
    re.IGNORECASE,
)
_EMBEDDED_THAT = re.compile(
    r"(?:remember|note|mind|know|aware|forget|fact|reminder|record|information)(?: also)? that\s*$",
    re.IGNORECASE,
)
_BOUNDARY = re.compile(r"(?:[,;(–—!.]|…| -)\s*$")
_DENIED = re.compile(
    r"\b(?:no|not|never|non|não|nunca|jamais|mai|nie|nicht|kein|niet|nooit|ne|n['’])\s*$",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r"^\s*(?:[,;–—]| - )|[,;–—]| (?:so|and|but) ")
_ASKING = re.compile(
    r"(?:^|[,;–—]\s*|\b(?:and|but|so)\s+)(?:what|how|why|which|whom?|whose|where|do|does|did|can|could|is|are|am|was|were|should|would|will|have"
    r"|has|may|might|any)\b",
    re.IGNORECASE,
)
_MAX_SENTENCE = 600  # characters


def anchors_in(messages: Sequence[Message]) -> tuple[FoundAnchor, ...]:
    """Return the facts in the user's words, in order. A conversation with several users has none:
    whose they are is not known.
    """
    spoken = [message for message in messages if message.role is Role.USER]
    if len({message.sender for message in spoken if message.sender}) > 1:
        return ()
    facts = {
        (message.sequence, key, value): confidence
        for message in spoken
        for sentence in own_sentences(message.content)
        for key, value, confidence in _facts(sentence)
    }
    return tuple(
        FoundAnchor(key, value, confidence, sequence)
        for (sequence, key, value), confidence in facts.items()
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a rule's pattern when a sentence first needs it: all of them together take a third of
    a server's start.
    """
    return re.compile(pattern, re.IGNORECASE)


def _facts(sentence: str) -> Iterator[tuple[str, str, float]]:
    if len(sentence) > _MAX_SENTENCE:
        return
    sentence = _SAID_BEFORE.sub("", sentence).replace("’", "'")
    asks = sentence.endswith(("?", "？"))
    words = frozenset(re.findall(r"[^\W\d_]+", sentence.lower()))
    for rule in (
        rule
        for section in _SECTIONS
        if not section.cues.isdisjoint(words)
        for rule in section.rules
    ):
        for match in _compiled(rule.pattern).finditer(sentence):
            if _stated(sentence, match, anywhere=rule.anywhere, asks=asks):
                yield from ((key, value, rule.confidence) for key, value in rule.read(match))


def _stated(sentence: str, match: re.Match[str], *, anywhere: bool, asks: bool) -> bool:
    """Return whether a match is a statement of its own, which nothing around it puts in doubt."""
    before, after = sentence[: match.start()], sentence[match.end() :]
    if (
        before[-1:].isalnum()
        or before[-1:] in ("'", "-")
        or (after[:1].isalnum() and match[0][-1:].isalnum())
    ):
        return False
    if (
        _DENIED.search(before)
        or _DOUBT_BEFORE.search(before)
        or _DOUBT_BESIDE.search(re.split(r"[,;–—]", before)[-1])
        or _DOUBT_AFTER.search(after)
    ):
        return False
    # `I'm vegan, what can I eat?` states a fact and asks something else.
    if asks and not anywhere and (not _GOES_ON.search(after) or _ASKING.search(before)):
        return False
    if anywhere or not before.strip():
        return True
    lead = _LEAD.search(before)
    rest = before[: lead.start()] if lead else before
    if (
        lead
        and re.search(r"\bthat\W*$", before, re.IGNORECASE)
        and not _EMBEDDED_THAT.search(before)
    ):
        return False
    return (
        not rest.strip()
        or bool(_BOUNDARY.search(rest))
        or bool(
            lead
            and re.search(
                r"\b(?:and|but|so|because|since|as|und|aber|weil|et|mais|y|pero|porque|e|mas|ma|en|maar)\b",
                lead.group(),
                re.IGNORECASE,
            )
        )
    )
