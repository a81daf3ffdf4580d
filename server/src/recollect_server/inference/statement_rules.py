"""Rules for statements that a user makes about himself: the forms of clause that state a lasting
fact.

The keys are those that a model is asked for (see `prompts`): one value holds for `name`,
`preferred_name`, `location`, `origin`, `occupation`, `employer`, `diet`, `birthday` and `partner`;
of `allergy`, `avoids`, `language`, `child`, `sibling`, `pet` and `preference` there may be many,
each with its own name after the dot. Every confidence lies below `anchors.TENTATIVE`.
"""

# ruff: noqa: E501 - a pattern reads better whole

import re
from collections.abc import Callable
from typing import NamedTuple

from recollect_server.inference.statement_values import (
    JOB,
    LANGUAGE,
    NO_ALLERGENS,
    NO_LOWER_NAMES,
    NO_NAMES,
    NO_PLACES,
    NO_RELATIVES,
    STATES,
    TIMES,
    Values,
    as_fixed,
    as_instruction,
    as_introduction,
    as_job,
    as_languages,
    as_list,
    as_preference,
    as_relative,
    as_value,
    employer_values,
    slug,
)

_SURE, _FAIR = 0.45, 0.35  # both below `anchors.TENTATIVE`


class Rule(NamedTuple):
    """A form of clause, and what its match says."""

    pattern: str
    read: Callable[[re.Match[str]], Values]
    confidence: float = _SURE
    anywhere: bool = False
    """The match need not begin a clause: `dinner with my wife Ana`."""


class Section:
    """Rules that can only match a sentence with one of these words, lower case."""

    def __init__(self, cues: str, rules: list[Rule]) -> None:
        self.cues = frozenset(cues.split())
        self.rules = rules


# Parts of patterns --------------------------------------------------------------------------------

_UPPER = r"(?-i:[A-ZÀ-ÖØ-ÞĀŁŚŠŽČİ])"
NAME_PART = rf"(?:(?-i:St|Ste|Sta|Mt|Dr)\. )?{_UPPER}[\w'’.-]*[\w]"
_NAME = (
    rf"({NAME_PART}(?: (?:(?-i:van|von|de|da|dos|di|der|den|del|la|bin|al) )*{NAME_PART}){{0,2}})"
)
_FIRST = rf"({NAME_PART})"
_PLACE = (
    rf"((?:(?-i:the|der|die|den|le|la|los|las) )?{NAME_PART}"
    rf"(?:(?:,? (?:(?-i:de|do|da|del|di|am|an der|sur|sous|upon|of|the|la|le|los|las|den|aan|ob der) ){{0,2}}){NAME_PART}){{0,3}})"
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
_INSTRUCTION_VERB = r"(?:answer|reply|respond|write|use|give|keep|speak|talk|address|include|avoid|explain|show|format|add|be|send|quote|convert|text|message|tell)"
_CONDITION = r"(?:coeliac|celiac)(?: disease)?"
_VEG = r"(vegan|vegetarian|pescatarian|pescetarian|flexitarian|lacto-vegetarian|plant-based|gluten[- ]free|dairy[- ]free)"
_VERB = (  # of a second statement: "allergisch gegen Nüsse und wohne in Hamburg"
    r"(?:(?:nicht|non|no|não|ich|je|j'|yo|eu|io|ik|wohne|lebe|arbeite|esse|trinke|bin|habe|mag|brauche|kann|möchte|suis|vivo|trabajo|como|soy|tengo|bebo"
    r"|moro|trabalho|sou|tenho|abito|lavoro|mangio|bevo|sono|ho|woon|werk|eet|drink|ben|heb|hou|kan) |j')"
)
_DIET_END = r"(?=\s*(?:$|[.,;:!…()–—]| - | (?:and|but|so|since|because|now|btw|by the way|who|too|myself|these days|for)\b))"
_CHILD = r"((?:(?:older|younger|oldest|youngest|eldest|middle|little|only|baby|[\w-]+-year-old|\d+ ?yo) )?(?:son|daughter|kid|child|baby|baby boy|baby girl|toddler|stepson|stepdaughter)(?! in-law))"
_PET = r"((?:(?:old|little|new|rescue) )?(?:dog|puppy|cat|kitten|rabbit|bunny|parrot|hamster|horse|pony|tortoise))"
_CALLED = r"(?:,? | is called | is named |['’]s (?:called|named) |['’]s name is | whose name is | named | called )"

SECTIONS = [
    Section(  # Names
        "name names call calls called known go hi hey hello morning afternoon evening m im am",
        [
            Rule(rf"my (?:full |first |given |real )?name(?:'s|’s|s| is)(?: actually| really)? {_NAME}{_END}", as_value("name", refused=NO_NAMES)),
            Rule(
                r"(?-i:my name is|my names|my name's) ((?-i:[a-z]{3,15}))(?=\s*(?:$|[.,!]$|,? (?:from|and i)\b))(?<!ing)(?<!ed)(?<!ly)",
                as_value("name", refused=NO_LOWER_NAMES, title=True),
                _FAIR,
            ),
            Rule(
                (rf"(?:please |just |simply |so )*(?:(?:(?:every(?:one|body)|my friends|friends|people|folks|most people|my family)(?: just| usually)? calls?"
                    rf"|you (?:can|may|should)(?: just| also)? call|call|but call|just call) me|i(?: usually| mostly)? go by|i like to be called|"
                    rf"i(?:'d| would) (?:prefer|like) to be called|i prefer to be called|i(?:'m| am) (?:also )?(?:known|called)(?: as)?) (?:the name )?{_FIRST}{_END}"),
                as_value("preferred_name", refused=NO_NAMES),
            ),
            Rule(
                r"(?:please|just|you can|you may)(?: just| please)? call me ((?-i:[a-z]{2,15}))(?=\s*(?:$|[.,!]))",
                as_value("preferred_name", refused=NO_NAMES, title=True),
                _FAIR,
            ),
            Rule(rf"(?:hi|hey|hello|good (?:morning|afternoon|evening))(?: there| all)?[,!.]? (?:i ?['’]m|i am) {_NAME}(?=\s*(?:$|[.,;!–—]| from\b| and\b| - ))", as_value("name", refused=NO_NAMES)),
            Rule(
                rf"{_I_AM} (?P<name>{_NAME[1:-1]}), an? {_NO_MODIFIERS}(?P<job>(?:[\w'’/-]+ ){{0,4}}?{JOB})(?: (?:in|at) {_PLACE[1:-1]})?(?: from (?P<origin>{_PLACE[1:-1]}))?(?=\s*(?:$|[.,;:!…()–—]| (?:and|but|with|from|who|based|living)\b))",
                as_introduction,
            ),
            Rule(rf"{_I_AM} {_NAME}(?=, (?:and )?(?:i|we|my)\b)", lambda match: as_value("name", refused=NO_NAMES)(match) if match.start() == 0 else iter(()), _FAIR),
            Rule(rf"{_I_AM} {_NAME}(?=,? (?:an? (?:[\w'’-]+ ){{0,4}}?{JOB}|from {_UPPER}|(?:\d\d|[a-z]+-[a-z]+),? (?:years old|from|and))\b)", as_value("name", refused=NO_NAMES)),
        ],
    ),
    Section(  # Home
        "live living reside based located residing settled moved home house flat apartment from lived come hail",
        [
            Rule(
                rf"(?:i|we|{_I_AM} \d\d(?: years old)?,? and(?: i)?) {_NOW}(?:live|reside)(?: together| alone| here| just)? (?:in|near|outside|close to|on|at) {_PLACE}{_END}",
                as_value("location", refused=NO_PLACES),
            ),
            Rule(rf"{_HAVE} (?:lived|been living) (?:here )?in {_PLACE}(?= (?:for|since)\b)", as_value("location", refused=NO_PLACES)),
            Rule(rf"{_WE_ARE} {_NOW}(?:living|based|located|residing|settled)(?: here| now)? (?:in|near|outside|out of) {_PLACE}{_END}", as_value("location", refused=NO_PLACES)),
            Rule(
                r"(?-i:(?:i|we) (?:(?:currently|now|still) )?live in|(?:i'm|im|we're) (?:currently )?(?:living|based) in) ((?-i:[a-zà-ÿ]{3,}(?: (?!(?:and|but|so|now|with|since|for|btw|atm|too|tho|though|again|currently|lol|already|right|because)\b)[a-zà-ÿ]{3,})?))(?=\s*(?:$|[.,!;]| (?:and|but|so|now|with|since|for \d|btw|atm|too|tho|though|again|currently|right now|because)\b))",
                as_value("location", refused=STATES, title=True),
                _FAIR,
            ),
            Rule(
                rf"(?:(?:{_HAVE}|i|we) (?:just|recently|finally|now|only just) )moved (?:back |over |out )?(?:here )?to {_PLACE}{_END}",
                as_value("location", refused=NO_PLACES),
            ),
            Rule(rf"(?:{_HAVE}|i|we) moved (?:back |over )?to {_PLACE}(?= (?:last|this) (?:week|month|year|spring|summer|autumn|fall|winter)\b| (?:a few|two|three|\d) (?:weeks|months|days) ago| recently)", as_value("location", refused=NO_PLACES)),
            Rule(rf"(?:my|our) (?:home|house|flat|apartment|home town now) is (?:in |near |outside )((?:an? (?:[a-z]+ ){{1,3}}(?:near|outside|in) )?{_PLACE[1:]}{_END}", as_value("location", refused=NO_PLACES)),
            Rule(rf"home (?:for me )?is {_PLACE}{_END}", as_value("location", refused=NO_PLACES)),
            Rule(rf"(?:{_I_AM}|i (?:originally )?(?:come|hail)) (?:originally )?from {_PLACE}{_END}", as_value("origin", refused=NO_PLACES)),
        ],
    ),
    Section(  # Work
        "work working works worked employed employer company run own manage living title occupation profession trade been teach m im am",
        [
            Rule(
                (r"(?:i (?:(?:currently|now|also|still|mostly) )?work(?: nights| part[- ]time| full[- ]time| freelance| remotely| here| there)*|i ?['’]m (?:currently |now )?(?:working|employed)|i am (?:currently |now )?(?:working|employed)|i ?['’]ve been working) as (?:an?|the) "
                    rf"(?P<job>[^.,;:!?()\n]{{2,60}}?(?: in {_UPPER}[\w'’-]+)?)(?: (?:at|for|with) (?P<employer>(?:the )?{_PLACE[1:-1]}))?"
                    r"(?=\s*(?:$|[.,;:!…()–—]| (?:and|but|so|at|for|with|because|while|since|from|on|in|which|who|now|these)\b))"),
                as_job,
            ),
            Rule(
                (rf"{_I_AM} {_NOW}(?:an? |the |(?={JOB}\b)){_NO_MODIFIERS}(?P<job>(?:[\w'’/&-]+ ){{0,4}}?{JOB}(?: and (?:[\w'’-]+ ){{0,2}}{JOB})?(?: in {_UPPER}[\w-]+)?)"
                    rf"(?: (?:at|with|for) (?P<employer>(?:the )?{_PLACE[1:-1]}))?"
                    r"(?=\s*(?:$|[.;:!…()–—]|,(?! not\b)| (?:and|but|so|at|for|with(?! a (?:focus|passion))|because|since|from|on|now|these days|by profession|by trade|in|who|working)\b))(?! (?:at heart|who (?:fan|episode|nerd)|in my|in this|in the making|in training|by training|for (?:the day|a day|now|halloween)|and not\b))"),
                as_job,
            ),
            Rule(rf"{_HAVE} (?:been|worked as) (?:an? ){_NO_MODIFIERS}(?P<job>(?:[\w'’-]+ ){{0,3}}?{JOB})(?: (?:at|with) (?P<employer>{_PLACE[1:-1]}))? (?=(?:for|since)\b)", as_job),
            Rule(
                rf"(?:i|we) (?:(?:currently|now|still|both|also) )?work (?:for|at) ((?:the (?:[a-z]+ (?:of )?)?)?{_PLACE[1:]}{_END[:-1]}| in\b| as\b)",
                lambda match: (it for it in employer_values(match[1]) if match[1].split()[0].lower() not in TIMES),
            ),
            Rule(r"i (teach (?!you\b|him\b|her\b|them\b|my\b|people\b|it\b)[a-z]+(?: [a-z]+)? (?:at|in|to) (?:an? |the )?[^.,;:!?()\n]{3,40}?)(?=\s*(?:$|[.,;:!]| (?:and|but|so|with)\b))", as_value("occupation")),
            Rule(rf"my (?:employer|company) is {_PLACE}{_END}", as_value("employer", refused=NO_NAMES)),
            Rule(r"i ((?:run|own|manage|co-own) (?:an?|my own|our) (?:(?!(?:big|risk|lot)\b)[\w'’-]+ ){0,3}?" + _BUSINESS + rf"(?: (?:in|near) {_PLACE[1:-1]})?)(?=\s*(?:$|[.,;:!()–—]| (?:and|but|so|with|where|that|called|named|from|since)\b))", as_value("occupation")),
            Rule(r"i ((?!do\b|live\b|work\b|am\b|was\b|have\b|want\b|need\b|never\b|don|can)[a-z]+ (?:[\w'’-]+ ){1,4}?)for a living", as_value("occupation")),
            Rule(r"my (?:job title|occupation|profession|trade) is (?:an? )?([a-z][\w' -]{2,40}?)(?=\s*(?:$|[.,;!]| at\b| and\b))", as_value("occupation", refused=frozenset(["not", "the", "very", "so"]))),
            Rule(rf"{_I_AM} (?:now |currently |fully )?((?:self-employed|retired|unemployed)){_END}", as_value("occupation")),
        ],
    ),
    Section(  # Allergies and diet
        "allergic allergy allergies intolerant intolerance celiac coeliac vegan vegetarian vegans vegetarians pescatarian pescetarian flexitarian lacto plant gluten dairy eat have drink tolerate digest touch keep follow stick",
        [
            Rule(
                rf"{_I_AM} {_ADJECTIVES}allergic to ([^.;:!?()…–—\n]{{2,60}}?)(?=\s*(?:$|[.;:!…()–—]| - |, (?:so|but|and i|and my|please|which|can|could|what|is|do|any|how|and (?:also )?(?:lactose|vegetarian|vegan))\b| (?:so|but|which|since|because|though|too|as well|by the way|btw|please|and (?:i|my|we|also i|have|can|cannot|am|live|work|speak|eat|drink|take|use|avoid|like|love|hate|want|need|prefer|never|do|don|was)\b|, by the way)\b))",
                as_list("allergy", refused=NO_ALLERGENS),
            ),
            Rule(
                (r"(?:i (?:do )?(?:have|suffer from)|i ?['’]ve|ive)(?: got)? (?:an? |this )?(?:(?:severe|serious|bad|mild|strong|life-threatening|slight|terrible|nasty) )?(?!food |no |allerg|any |some |many |bad |seasonal |lots )"
                    r"((?:tree |bee |wasp |cat |dog |dust |grass )?[a-z]+) (?:allergy|allergies)(?! (?:test|appointment|medic|season|doctor|pills?))"),
                as_list("allergy", refused=NO_ALLERGENS),
            ),
            Rule(rf"(?:i have|i ?['’]ve(?: got)?) an? (?:[a-z]+ )?(?:allergy|intolerance) to ([a-z' -]{{2,40}}?){_END}", as_list("allergy", refused=NO_ALLERGENS)),
            Rule(rf"{_I_AM} {_ADJECTIVES}(lactose|gluten|fructose|histamine|dairy)[ -]intolerant", as_list("allergy", spelt="{} (intolerance)")),
            Rule(r"i have (?:an? )?(lactose|gluten|fructose|histamine|dairy) intolerance", as_list("allergy", spelt="{} (intolerance)")),
            Rule(rf"(?:i (?:have|['’]ve got)|{_I_AM}(?: an?)?) {_CONDITION}{_DIET_END}", as_fixed("allergy.gluten", "gluten (coeliac disease)")),
            Rule(
                rf"{_WE_ARE} (?:all )?(?:(?:now|both|also|strictly|strict|mostly|a|an|lifelong|fully|still|currently|basically|committed|on a|eating) )*{_VEG}s?(?: diet| household| family)?{_DIET_END}",
                as_value("diet"),
            ),
            Rule(rf"(?:i|we) (?:only |always |strictly )?(?:eat|keep|follow|am on|stick to) (?:only |an? )?(?:strict(?:ly)? )?(vegan|vegetarian|pescatarian|halal|kosher|keto|paleo|low-carb|low-fodmap|gluten[- ]free|plant-based|mediterranean)(?: diet| food| meals)?{_DIET_END}", as_value("diet")),
            Rule(rf"(?:i|we) (?:do not|don['’]?t|never|cannot|can ?['’]?t|can not) (?:eat|have|drink|tolerate|digest|touch)(?: any)? ({_FOODS}(?:(?:,| or| and|, or) {_FOODS})*)(?=\s*(?:$|[.,;:!…()–—]| (?:and|but|so|because|since|at all|anymore|any more|at home|for (?:religious|health|medical))\b))", as_list("avoids", spelt="no {}")),
            Rule(r"i (?:do not|don['’]?t|never) drink(?: at all| any more| anymore)?(?=\s*(?:$|[.,;!]))", as_fixed("avoids.alcohol", "no alcohol"), _FAIR),
        ],
    ),
    Section(  # Birthday
        "birthday bday b date dob birth birthdate born turn turning ll will",
        [
            Rule(rf"my (?:birthday|bday|b-day|date of birth|dob|birth date|birthdate)(?:['’]?s| is|:)(?: on| always on)? ?{_DATE}", as_value("birthday")),
            Rule(rf"i was born(?: on)? {_DATE}", as_value("birthday")),
            Rule(rf"(?:i turn|i['’]m turning|i am turning|i['’]ll be|i['’]ll turn|i will be|i will turn) \d\d on {_DATE}", as_value("birthday")),
            Rule(rf"{_DATE} is my (?:birthday|bday)", as_value("birthday")),
        ],
    ),
    Section(  # Languages
        "tongue language native speak fluent bilingual",
        [
            Rule(rf"my (?:mother tongue|native (?:language|tongue)|first language)(?:['’]s| is) (?:\w+ )?{LANGUAGE}\b", as_languages),
            Rule(rf"{_I_AM} an? (?:native {LANGUAGE}(?:[ -]speaker)?|{LANGUAGE} native(?: speaker)?|native speaker of {LANGUAGE})\b", as_languages),
            Rule(
                (rf"(?:i|we) (?:(?:also|only|both|mostly|natively|fluently|mainly) )*speak (?:(?:fluent|some|a little|only|both|native|good|basic|a bit of|mostly) )*"
                    rf"{LANGUAGE}\b(?:(?: at \w+| with \w+ \w+)?(?:,| and| &|, and| as well as| fluently) (?:(?:some|a little|fluent|a bit of|also) )*{LANGUAGE}\b)*"),
                as_languages,
            ),
            Rule(rf"{_I_AM} (?:\w+ )?(?:fluent|bilingual) in {LANGUAGE}\b(?:(?:,| and|, and) {LANGUAGE}\b)*", as_languages),
        ],
    ),
    Section(  # Family and pets
        "wife husband partner girlfriend boyfriend fiance fiancé fiancee fiancée spouse married engaged son daughter kid kids child children baby boy boys girl girls sons daughters toddler stepson stepdaughter brother sister dog puppy cat kitten rabbit bunny parrot hamster horse pony tortoise",
        [
            Rule(
                rf"my (?:lovely |dear |wonderful )?(?:wife|husband|partner|girlfriend|boyfriend|fianc[eé]e?|spouse){_CALLED}{_FIRST}",
                as_value("partner", refused=NO_RELATIVES),
                anywhere=True,
            ),
            Rule(rf"{_I_AM} (?:happily )?(?:married|engaged) to {_FIRST}\b", as_value("partner", refused=NO_RELATIVES)),
            Rule(rf"(?:my|our) {_CHILD}{_CALLED}{_FIRST}", as_relative("child"), anywhere=True),
            Rule(
                rf"(?:i|we) (?:have|['’]ve got) (?:two|three|four|five|2|3|4|5) (?:(?:small|little|young|lovely|beautiful|wonderful|grown|grown-up) )?()(?:kids|children|sons|daughters|boys|girls)(?:,|:| called| named| -| –| \()? {_FIRST}(?:, {_FIRST})?(?:, {_FIRST})?,? (?:and|&) {_FIRST}",
                as_relative("child"),
            ),
            Rule(rf"(?:i|we) (?:have|['’]ve got) (?:an?|one) {_CHILD}{_CALLED}{_FIRST}", as_relative("child")),
            Rule(rf"(?:my|our) (?:(?:two|three|four|five|2|3|4|5) )?(?:(?:small|little|young|lovely|grown|grown-up) )?(?:kids|children|sons|daughters|boys|girls)(?:['’] names are|,| are(?: called)?)? (){_FIRST}(?:, {_FIRST})?,? (?:and|&) {_FIRST}", as_relative("child"), anywhere=True),
            Rule(rf"my ((?:(?:older|younger|big|little|twin|baby) )?(?:brother|sister)){_CALLED}{_FIRST}", as_relative("sibling"), anywhere=True),
            Rule(rf"(?:my|our) {_PET}{_CALLED}{_FIRST}", as_relative("pet"), anywhere=True),
            Rule(rf"(?:i|we) (?:have|['’]ve got|own) (?:an?|one) {_PET}{_CALLED}{_FIRST}", as_relative("pet")),
        ],
    ),
    Section(  # Preferences
        "always never now future forward rule default answers replies responses time timezone prefer rather like want pronouns",
        [
            Rule(rf"(?:please |pls )?((?:always|never) {_INSTRUCTION_VERB}\b(?! (?:it|this|that) )(?! as\b)[^.;!?\n…]{{2,90}})", as_instruction),
            Rule(r"(?:please |pls )?(keep (?:your |all |all your )?(?:answers|replies|responses) [^.,;!?\n…]{2,60})", as_instruction),
            Rule(rf"(?:from now on|in (?:the )?future|going forward|as a rule|by default|for all (?:future )?(?:answers|replies)),? (?:please |pls )?(?:always )?((?:never )?(?:{_INSTRUCTION_VERB}|do not|don['’]t|stop|no)\b(?! as\b)[^.;!?\n…]{{2,90}})", as_instruction),
            Rule(rf"(?:please |pls )?((?:{_INSTRUCTION_VERB}|do not {_INSTRUCTION_VERB}|don['’]t {_INSTRUCTION_VERB})\b(?! as\b)[^.;!?\n…]{{2,80}}? (?:from now on|in future|in the future|every time|going forward|by default))", as_instruction),
            Rule(r"i (?:always |generally |usually |much |really |strongly |would )?(?:prefer|want|like)(?: it when)? (you to (?:always |never )(?:answer|reply|respond|write|speak|talk|keep|be|use|address)[^.;!?\n…]{2,80})", as_instruction),
            Rule(r"i(?:'d|’d| would) (?:rather|prefer)(?: it)?(?: if)? (you (?:kept|keep|gave|answered|answer|replied|used|wrote|spoke|didn['’]t|did not|not)[^.;!?\n…]{2,80})", as_instruction),
            Rule(r"i (?:(?:always|generally|usually|really|normally|strongly|much) )*prefer (?:getting |having |to get |to have |receiving )?([^.,;:!?()…\n]{2,60}?)(?=\s*(?:$|[.;:!]|, (?:always|please|so|and|but|in general)\b| (?:because|since|so|but|and i)\b))", as_preference, _FAIR),
            Rule(r"my (?:time ?zone|pronouns) (?:is|are) ([\w/+:-]{2,30})", lambda match: iter([("timezone" if "zone" in match[0].lower() else "pronouns", match[1])])),
        ],
    ),
    Section(  # German, French, Spanish, Portuguese, Italian, Dutch
        "ich wir mein meine unser unsere nenn nenne nennt bitte antworte schreib sprich je j nous on mon ma notre appelle appelez réponds me mi vivo vivimos resido soy trabajo nací hablo llamame llámame nuestro nuestra responde respondeme eu meu minha moro moramos vivemos sou nasci chamo chama pode trabalho falo nosso nossa responda io mio mia abito abitiamo viviamo sono lavoro parlo chiamami nostro nostra il rispondi rispondimi ik wij we mijn onze noem antwoord",
        [
            Rule(rf"(?:ich heiße|ich heisse|mein name ist|je m'appelle|mon nom est|me llamo|mi nombre es|(?:eu )?me chamo|chamo-me|(?:o )?meu nome é|mi chiamo|il mio nome è|ik heet|mijn naam is) {_NAME}{_END}", as_value("name", refused=NO_NAMES)),
            Rule(rf"(?:nenn(?:e|t)? mich|appelle[- ]moi|appelez[- ]moi|ll[aá]mame|chama-me|me chame de|pode me chamar de|chiamami|noem me|noem mij) (?:bitte |einfach |simplemente |maar |gewoon )?{_FIRST}{_END}", as_value("preferred_name", refused=NO_NAMES)),
            Rule(
                (rf"(?:(?:ich|wir) (?:wohnen?|leben?) (?:jetzt |derzeit |momentan |inzwischen |seit \w+ |zurzeit |nun |hier )*in|(?:j'habite|nous habitons|je vis|nous vivons|on habite) (?:maintenant |actuellement )?(?:à|en|au|aux)|j'habite"
                    rf"|(?:vivo|vivimos|resido) (?:ahora |actualmente )?en|(?:moro|moramos|vivo|vivemos) (?:agora |atualmente )?(?:em|no|na|nos)|(?:vivo|viviamo|abito|abitiamo) (?:ora |adesso )?(?:a|ad|in)"
                    rf"|(?:ik woon|wij wonen|we wonen|ik leef) (?:nu |tegenwoordig |momenteel )?in) {_PLACE}{_END}"),
                as_value("location", refused=NO_PLACES),
            ),
            Rule(rf"(?:ich bin|wir sind) (?:\w+ )?nach {_PLACE} (?:umgezogen|gezogen)", as_value("location", refused=NO_PLACES)),
            Rule(
                (r"(?:ich bin (?:(?!nicht|kein)\w+ )?allergisch (?:gegen|auf)|je suis (?:(?!pas)\w+ )?allergique (?:à la |à l'|aux |au |à )|soy (?:muy )?al[eé]rgic[oa] (?:a las|a los|a la|al|a)|(?:eu )?sou al[eé]rgic[oa] (?:às|aos|à|ao|a)"
                    rf"|sono allergic[oa] (?:alle|agli|alla|allo|all'|ai|al|a)|ik ben (?:(?!niet)\w+ )?allergisch voor) ?([^.;:!?()…\n]{{2,50}}?)(?=\s*(?:$|[.;:!…()–—]| - |, (?:also|bitte|aber|donc|mais|así|pero|por|então|mas|quindi|ma|dus|maar)\b| (?:aber|mais|pero|mas|ma|maar)\b| (?:und|et|y|e|en) {_VERB}))"),
                as_list("allergy", refused=NO_ALLERGENS),
            ),
            Rule(
                (rf"(?:(?:ich bin|wir sind) (?:seit \w+ \w+ |jetzt |strikte[r]? |überzeugte[r]? )*(vegetarier(?:in)?|veganer(?:in)?|vegetarisch|vegan)|je suis (vég[ée]tarien(?:ne)?|vegan|végane?)|soy (vegetarian[oa]|vegan[oa])"
                    rf"|(?:eu )?sou (vegetarian[oa]|vegan[oa])|sono (vegetarian[oa]|vegan[oa])|ik ben (?:een )?(vegetari[eë]r|veganist(?:e)?|vegetarisch|veganistisch)|ich (?:esse|ernähre mich) (vegetarisch|vegan)|ik eet (vegetarisch|veganistisch|vegan)){_END}"),
                lambda match: iter([("diet", next(filter(None, match.groups())))]),
            ),
            Rule(
                (r"(?:ich arbeite (?:derzeit |jetzt )?als|je travaille comme|trabajo (?:como|de)|(?:eu )?trabalho como|lavoro come|ik werk als) (?:eine? |une? |uma? |un[ao]? |een )?(?P<job>[^.,;:!?()\n]{2,50}?)"
                    r"(?=\s*(?:$|[.,;:!…()]| (?:und|aber|bei|in|im|seit|et|mais|chez|à|dans|depuis|y|pero|en|desde|e|mas|em|no|na|ma|da|presso|a|maar|bij|sinds|für|pour|para|por|per|voor)\b))"),
                as_job,
            ),
            Rule(rf"(?:ich arbeite (?:derzeit |jetzt )?bei|je travaille chez|ik werk (?:nu )?bij) (?:der |dem |la |le |de )?{_PLACE}{_END}", as_value("employer", refused=NO_PLACES)),
            Rule(
                (rf"(?:mein geburtstag ist (?:am |der )?|ich (?:wurde|bin) am (?=.{{3,20}} geboren)|ich habe am (?=.{{3,20}} geburtstag)|mon anniversaire est le |je suis née? le |mi cumpleaños es el |nací el |(?:o )?meu (?:aniversário|aniversario) é (?:no dia |em |dia )?"
                    rf"|(?:eu )?nasci (?:em|no dia|a) |il mio compleanno è (?:il |l')|sono nat[oa] (?:il |l')|mijn verjaardag is (?:op )?|ik ben jarig op |ik ben geboren op |ik ben op (?=.{{3,20}} (?:jarig|geboren))) ?{_DATE}"),
                as_value("birthday"),
            ),
            Rule(
                (rf"(?:meine (?:frau|freundin|verlobte|partnerin)|mein (?:mann|freund|verlobter|partner)|ma (?:femme|compagne|copine)|mon (?:mari|compagnon|copain)|mi (?:esposa|esposo|mujer|marido|novia|novio|pareja)|(?:a )?minha (?:esposa|mulher|namorada)|(?:o )?meu (?:marido|esposo|namorado)"
                    rf"|mia moglie|mio marito|mijn (?:vrouw|man|vriendin|vriend|partner))(?:,? | heißt | s'appelle | se llama | se chama | si chiama | heet ){_FIRST}(?!\w)"),
                as_value("partner", refused=NO_RELATIVES),
                anywhere=True,
            ),
            Rule(
                rf"(?:(?:unsere?|meine?) (sohn|tochter)|(?:mon|ma|notre) (fils|fille)|(?:mi|nuestr[oa]) (hijo|hija)|(?:o |a )?(?:meu|minha|noss[oa]) (filho|filha)|(?:mi[oa]|nostr[oa]) (figlio|figlia)|(?:mijn|onze) (zoon|dochter))(?:,? | heißt | s'appelle | se llama | se chama | si chiama | heet ){_FIRST}(?!\w)",
                lambda match: iter([(f"child.{slug(match[7])}", f"{match[7]} ({next(filter(None, match.groups())).lower()})")]),
                anywhere=True,
            ),
            Rule(rf"(?:meine muttersprache ist|ma langue maternelle est|mi lengua materna es|minha língua materna é|la mia lingua madre è|mijn moedertaal is)(?: le| l'| el| o| a| il| het)? ?{LANGUAGE}\b|(?:ich spreche|je parle|hablo|(?:eu )?falo|parlo|ik spreek) (?:\w+ )?{LANGUAGE}\b(?:(?:,| und| et| y| e| en) (?:\w+ )?{LANGUAGE}\b)*", as_languages),
            Rule(r"(?:bitte )?((?:antworte|antworten sie|schreib|sprich)(?: mir)?(?: bitte)? immer [^.;!?\n]{2,60}|réponds(?:[- ]moi)? toujours [^.;!?\n]{2,60}|responde(?:me)? siempre [^.;!?\n]{2,60}|respond[ae](?:-me)? sempre [^.;!?\n]{2,60}|rispondi(?:mi)? sempre [^.;!?\n]{2,60}|antwoord altijd [^.;!?\n]{2,60})", as_instruction),
        ],
    ),
]  # fmt: skip
