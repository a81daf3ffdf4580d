"""Titles in the words of a conversation: the request that says most of what it is about, shortened
at a phrase's end.
"""

import re
from collections import Counter
from collections.abc import Sequence
from math import log

from recollect_server.domain.languages import ENGLISH, STOP_WORDS, language_of, stop_words
from recollect_server.domain.message import Message, Role
from recollect_server.domain.notes import MAX_TITLE_WORDS, title_of
from recollect_server.domain.text import UNSPACED_RUN
from recollect_server.inference.chatter import CHATTER
from recollect_server.inference.clauses import asked, opens_with_clause, without_clause
from recollect_server.inference.everyday import everyday_nouns
from recollect_server.inference.own_words import is_letter
from recollect_server.inference.phrases import (
    CHATTER_QUESTION,
    CORRECTION,
    NEGATION,
    Phrases,
    phrases_of,
)
from recollect_server.inference.sentences import (
    Sentence,
    asks,
    opened,
    split,
    spoken,
    topical,
)

_MAX_CHARACTERS = 64  # of a title: it stands in a list
_MAX_UNSPACED = 24  # characters of a title in a script without spaces
_MAX_CANDIDATES = 400
_REQUEST = 1.7  # how much more a request is worth than a statement
_FIRST = 2.0  # what the first message adds to 1; the second a half of it, and so on
# Between people who talk to one another, questions keep the talk going and the subject comes later.
_REQUEST_IN_CHAT, _FIRST_IN_CHAT = 0.6, 0.4
_LEANING = 0.5  # what a title is worth that points to something outside of it
_FEW_WORDS = 8  # of a whole first message: more are seldom a request by themselves
_LETTER = 0.8  # what a line of a pasted letter is worth, wherever it stands: it is of somebody else
_MAX_OPERANDS = 2  # between two words of code
_CLAUSE = 0.4  # what a title is worth that is a subordinate clause
# what a sentence of the agent is worth: it names the subject where the user's requests do not
_ANSWER = 0.35
_ABOUT_NOTHING, _MOST_ABOUT = 0.8, 1.2  # what a title is worth by the subjects that it names
_CORRECTED = 0.25  # what a title is worth that names what was corrected later
_DECIDED = 0.5  # what was decided is seldom what was asked for
_OPENING, _OPENING_ELSEWHERE = 8, 6  # characters of a beginning that makes a request
_MARKS = " .!?…:;,¿¡。！？؟،।-–—"  # around a sentence
_VERB_LAST = {"hi", "ja", "ko", "tr"}  # a request ends with what is asked for
_VAGUE = frozenset(
    "happened since talked lots last week congratulations hear heard stuff "  # noqa: SIM905 - a list would be a word a line
    "again anyway bit case check confirm continue details detail exactly fine finish first "
    "focus forward honestly "
    "information list long main moment move moving next now okay option options point question questions quick "
    "ready single sound start started starting step steps sure task tasks thing tired today together tomorrow "
    "tonight try understand update updated wait work working year years mean guys people person stuff whole say "
    "said tell talk talking put exciting happening experience favorite share sharing special crazy "
    "recommendations chatted looking find use used using lately recently sounds wondering guess super course give "
    "idk pls ppl lol "
    "ask big real everyone anyone nothing alright without".split()
)
"""Words that say what one does in any conversation."""
_ANY_SUBJECT = frozenset(
    "achieve approach aspects avoid balance changes choice common consider considering correct "  # noqa: SIM905 - a list would be a word a line
    "confused correctly cover curious decide decision discuss effective effectively ensure excited "
    "expect explain factors goal goals guide handle hesitant highlight implications improve "
    "include issue key kinda latest maintain manage meet prepare prioritize problem progress "
    "properly risk situation stay strategies strategy stressed strike stuck suggest support "
    "tips torn track ways worried worth".split()
)
"""Words of a request about anything, beside `_VAGUE`."""
_FEELING = re.compile(
    r"(?:i(?:'m|’m| am| feel| was| trust| appreciate| guess| hope)|my (?:boss|day|apologies)|you(?:'re|’re| are)"
    r"|(?:really )?appreciate)\b",
    re.IGNORECASE,
)
_FELT = re.compile(
    r"i(?:'m|’m| am| was| feel|(?:'ve|’ve| have) been)(?: (?:currently|also|still|now|just))?"
    r"(?: (?:kinda|kind of|sort of|pretty|really|so|very|quite|a bit|a little))?"
    r" (?:(?:worried|concerned|stressed(?: out)?|anxious|nervous|curious|confused|unsure|uncertain|excited"
    r"|overwhelmed|stuck|torn) (?:about|on|with|by|of|over|between)"
    r"|thinking (?:of|about)|looking (?:for(?:ward to)?|at|into)|trying to|struggling (?:to|with)|interested in|considering"
    r"|working on|writing (?:to you )?(?:about|regarding|concerning))"
    r" (?:the fact that )?",
    re.IGNORECASE,
)
"""Feelings and doings that lead to a subject, which follows."""
_BESIDE = re.compile(
    r"(?:, (?:and|so|but|since|because|as|especially|who|which)| because| and (?=i\b|my\b))\b"
    r"(?! (?:not|no|never)\b).*",
    re.IGNORECASE,
)
"""Clauses behind a subject."""
_RESUMED = {
    ENGLISH: re.compile(
        r"(?:(?:get|go|come|jump|circle) back (?:to|into)|return to|continue(?: on)? with|carry on with"
        r"|keep going with|proceed with|move on (?:to|with)|discuss|(?:talk|chat)(?: more)? about) ",
        re.IGNORECASE,
    ),
    "fr": re.compile(
        r"(?:(?:on )?(?:continu|repren)(?:e|d|ons|er|dre)(?: avec)?(?= (?:la|les?|l['’]|un|une|mon|ma|mes|notre|nos)\b)"
        r"|(?:parl|discut)(?:er|ons) d[eu]|reven(?:ir|ons) (?:à|aux?)) ",
        re.IGNORECASE,
    ),
    "es": re.compile(
        r"(?:(?:sigamos|seguimos|seguir|continuemos|continuar) con|habl(?:ar|emos) (?:del?|sobre)"
        r"|volv(?:er|amos) al?(?= (?:las?|los|el|mis?|nuestr\w+)\b)) ",
        re.IGNORECASE,
    ),
    "pt": re.compile(
        r"(?:(?:seguir|seguimos|continuemos|continuar) com|(?:falar|conversar) (?:d[eoa]|sobre)) ",
        re.IGNORECASE,
    ),
    "it": re.compile(
        r"(?:(?:continu|prosegu)(?:are|ire|iamo) con|and(?:are|iamo) avanti con|parl(?:are|iamo) d(?:i|el|ella)) ",
        re.IGNORECASE,
    ),
    "nl": re.compile(
        r"(?:(?:verder ?gaan|doorgaan) met|(?:praten|het hebben) over) ", re.IGNORECASE
    ),
    "zh": re.compile(r"(?:继续|接着)(?:讨论|聊聊?|做|写)?|讨论(?:一下)?|聊聊|回到"),
}
"""Words that say that a subject is taken up, which follows."""
_JOINING = frozenset(["and", "but", "so", "because", "since"])
_SUBJECTS = frozenset(["i", "we", "it", "he", "she", "they"])
_ASIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}|[\"“”«»„]")
_FILLER = re.compile(
    r"(?:(?<=^)|(?<=[\s,]))(?:um+|uh+|erm?|hmm+|mm+|y'know|you know)\b\s*,?\s*", re.IGNORECASE
)
_BARE_GREETING = re.compile(
    r"(?:hey|hi|hello|hiya|heya|yo)(?: (?:there|guys|all|team))? "
    r"(?=(?:i|im|i['’]m|ive|i['’]ve|id|i['’]d|my|our|we|can|could|would|will|what|whats|how|hows|why|when|where|wheres"
    r"|which|who|is|are|do|does|did|should|need|please|pls|so|just|quick|got|looking|any|there|this|if|u|you)\b)"
    r"|(?:hallo|hi|hey|moin|servus|guten (?:tag|morgen|abend)|bonjour|bonsoir|salut|coucou|hola|buenas|buen(?:os|as)"
    r" (?:días|dias|tardes|noches)|olá|oi|bom dia|boa (?:tarde|noite)|ciao|buongiorno|buonasera|salve|привет"
    r"|здравствуй(?:те)?|добрый (?:день|вечер)|hoi|hej|cześć|dzień dobry|merhaba|selam)"
    r" (?=(?-i:[a-zà-ÿąćęłńóśźżа-яёçğıöşü])\S* \S)",
    re.IGNORECASE,
)
"""A greeting that no mark sets off: in English before a word that begins a sentence, elsewhere
before lower case.
"""
_WITHOUT_APOSTROPHE = re.compile(
    r"\b(?:(?P<i>(?-i:[Ii]))(?P<i_end>m|ve)|(?P<what>what|how|where|who|that|there|she|he)(?P<s>s)"
    r"|(?P<not>do|does|did|is|are|was|were|has|have|had|would|could|should|ca|wo)nt)\b",
    re.IGNORECASE,
)
_REPLIES = re.compile(
    r"(?:ok|okay|great|good|cool|nice|perfect|awesome|haha\w*|lol|yeah|yes|yep|no|nah|hmm+|oh|ah|ugh|oof|wow|thanks|thx|ty)"
    r" (?:and|but|so|also|now|then|that|that['’]?s|its|it['’]?s|i|im|i['’]m|ill|i['’]ll|he|she|they|we|when)\b",
    re.IGNORECASE,
)
"""The beginning of a reply that no mark sets off."""
_QUOTED_AFTER = re.compile(r"(?P<request>[^:\n\"“”«»„]{8,}):\s*[\"“«„].{15,}", re.DOTALL)
"""A request that names a text, and the text."""
_DETERMINERS = frozenset(
    "a an the my your our his her its their this that these those some any me you us them i we it he she they be "  # noqa: SIM905 - a list would be a word a line
    "been not der die das den dem des ein eine einen einem mein meine dein deine le la les un une mon ma mes ton "
    "ta tes son sa ses du el los las unos unas mi mis tu tus su sus of o os as um uma uns umas meu minha lo gli "
    "il uno una".split()
)
"""No phrase ends before one of these: a verb and what it is done to belong together."""
_POINTER = re.compile(
    r"\b(?:it|this|that|them|these|those|he|she|him|they|here|there|its|their|one)\b", re.IGNORECASE
)
_POINTS_BACK = re.compile(
    r"\b(?:it|this|them|these|those|which one)\b|^(?:one|some\w+|any\w+) that\b"
    r"|\b(?:about|around|address|avoid|confirm|do|for|from|in|include|of|on|stop|to|with) that\b|\bthat$",
    re.IGNORECASE,
)
"""Pronouns, without those that open a relative clause."""
_DEMONSTRATIVES = frozenset(["that", "this", "these", "those"])
_HOW = re.compile(
    r"how (?:can|do|could|should|would|might|to)(?: (?:i|we|you|one))?(?: best)?(?= \w)",
    re.IGNORECASE,
)
_LATER_REQUEST = re.compile(
    r"(?:(?:[,;:–—]|\s-)\s*(?:(?:and|so|but|or|then)\s+)?"
    r"|\s(?:and|so|but)\s+(?=(?:can|could|would|will) (?:you|u)\b))"
    r"(?=(?:(?:can|could|would|will) (?:you|u|we|i)|how (?:can|do"
    r"|should|would|to)|what(?:'s|’s| is| are| should"
    r"| would| can)|where (?:can|do|should)|help me|please |any (?:tips|ideas|advice|suggestions)|i (?:want|need"
    r"|would like)|i'd like|i’d like"
    r"|kannst du|können sie|könntest du|wie |was |welche|wann (?:muss|kann|soll|darf|ist|geht)|peux-tu"
    r"|pouvez-vous|comment |quel(?:le)?s? |puedes|¿"
    r"|cómo |qué |você pode|como |qual )\b)",
    re.IGNORECASE,
)
_STATEMENT_OR_OPTION = re.compile(r"SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|--?[a-zA-Z][\w=:./-]*")
_TAKES_OPERAND = re.compile(
    r"SELECT|FROM|WHERE|AND|ON|JOIN|BY|HAVING|LIMIT|INTO|VALUES|UPDATE|SET|TABLE|.*="
)
_CODE_WORD = re.compile(
    rf"{_STATEMENT_OR_OPTION.pattern}|{_TAKES_OPERAND.pattern}|GROUP|ORDER|\S*(?:[{{}}<>=;|\\^*]|\$[\w({{]|\w\(|::|->|~\d)\S*"
)
"""A word of a command line or of a statement of SQL: a keyword, an option, or one with a mark of
code.
"""
_OPERAND = re.compile(r"[~.]{0,2}/\S*|\S*\w[@/.:_]\w\S*|[\"']\S*|\S+,|\d+")
_SUBJECT_LINE = re.compile(
    r"(?:subject|betreff|objet|asunto|assunto|oggetto|onderwerp) ?: *(?:(?:re|fwd?|aw|wg) ?: *)*(?=\S)",
    re.IGNORECASE,
)
"""The beginning of the line that names what a letter is about."""
_JAPANESE_PARTICLE = re.compile(r"(?<=[^ぁ-ん])(?:は|が|を|に|で|と|の|へ|から|まで|について)")


def headline(
    messages: Sequence[Message], sentences: Sequence[Sentence], subjects: Sequence[str] = ()
) -> tuple[str, Sentence | None]:
    """Return a title, empty if none can be made, and the sentence it comes from. `subjects`: the
    conversation's topics, the best first; a title that names one is preferred.

    Each sentence of the user (of everybody, where senders are named) gives a candidate. The best
    one has the words that most messages share, is a request, comes early and needs no other
    sentence to be understood. As the conversation goes on, a request that more of it is about takes
    the place of the first.
    """
    language = language_of(message.content for message in spoken(messages))
    phrases = phrases_of(language)
    named = sum(bool(message.sender) for message in messages) > len(messages) // 2
    shares: Counter[str] = Counter()
    by_message: dict[int, set[str]] = {}
    for sentence in sentences:
        by_message.setdefault(sentence.message, set()).update(sentence.words)
    for words in by_message.values():
        shares.update(words)
    aside = {
        place
        for place, message in enumerate(spoken(messages))
        if message.content.lstrip().startswith(("[", "("))
    }
    theirs = [
        it for it in sentences if it.message not in aside and not it.text.startswith(("[", "("))
    ]
    places = {
        message: place for place, message in enumerate(dict.fromkeys(it.message for it in theirs))
    }
    letters = {
        place
        for place, message in enumerate(spoken(messages))
        if message.role is Role.USER and not message.sender and is_letter(message.content)
    }
    alone = [it for it in theirs if it.message == 0]
    # "gift ideas for my mum": what somebody types alone, as in a search, is what is asked for
    typed_alone = (
        not named
        and len(alone) == 1
        and alone[0].text[-1:].isalnum()
        and len(spoken(messages)[0].content.split()) <= _FEW_WORDS
    )
    speakers = {word for message in messages for word in topical(message.sender)}
    vague = _VAGUE if language == ENGLISH else everyday_nouns(language)
    stops = stop_words(language)
    corrected = {
        word for it in theirs if it.role is Role.USER for word in _corrected(it.text, language)
    }
    best, best_score, source = "", 0.0, None
    for sentence in _candidates(theirs):
        whole, is_request = requested(sentence.text, phrases, language)
        text = _cut(whole, language)
        if CHATTER_QUESTION.search(sentence.text):
            continue
        if typed_alone and sentence is alone[0] and sentence.role is Role.USER:
            is_request = is_request or _subject_words(text, language) > 1
        title = title_of(text, language)
        title_words = [
            word
            for word in dict.fromkeys(topical(text, language))
            if word not in speakers and word not in vague and not stops.issuperset(word.split("-"))
        ]
        if not title or not title_words:
            continue
        score = (
            sum(log(1 + shares[word]) for word in title_words)
            / (len(title_words) + 2)
            * (1 if len(title_words) > 1 else 0.5)
        )
        if is_request:
            score *= _REQUEST_IN_CHAT if named else _REQUEST
        if sentence.message in letters and not _SUBJECT_LINE.match(sentence.text):
            score *= _LETTER
        else:
            score *= 1 + (_FIRST_IN_CHAT if named else _FIRST) / (1 + places[sentence.message])
        if phrases.leaning.match(text) or (language == ENGLISH and _POINTER.search(text)):
            score *= _LEANING if len(title_words) < 4 else 0.8
        if opens_with_clause(text, language):
            score *= _CLAUSE
        if CORRECTION.match(sentence.text) or _REPLIES.match(sentence.text):
            score *= _LEANING
        if not corrected.isdisjoint(topical(title, language)):
            score *= _CORRECTED
        if language == ENGLISH and _FEELING.match(text):
            score *= 0.6
        if not sentence.whole or title.count(" ") == 1:
            score *= 0.6
        if not named and sentence.role is not Role.USER:
            score *= _ANSWER
        if subjects:
            score *= _about(text, subjects)
        if language != ENGLISH and phrases.decision.match(sentence.text):
            score *= _DECIDED
        if score > best_score:
            best, best_score, source = title, score, sentence
            best = title_of(_cut(_named(whole, language), language), language) or title
    return best, source


def _corrected(text: str, language: str) -> list[str]:
    """Return the words that a correction takes back: "no wait, I meant Ghent, not Bruges"."""
    if not CORRECTION.match(text):
        return []
    denials = [it for it in NEGATION.finditer(text) if it.start() > 0]
    return topical(text[denials[-1].end() :], language)[:2] if denials else []


def _named(text: str, language: str) -> str:
    """Return what a text is about: without "continue with", and in English without a feeling that
    leads to it, and without a demonstrative, which points to nothing in a list of titles.
    """
    if (
        (resumed := _RESUMED.get(language))
        and (match := resumed.match(text))
        and _subject_words(rest := text[match.end() :], language) > 0
    ):
        text = rest
    if language != ENGLISH:
        return text
    if feeling := _FELT.match(text):
        text = text[feeling.end() :]
        plain = _BESIDE.sub("", text)
        text = plain if " " in plain else text
    first, _, rest = text.partition(" ")
    next_word, _, more = rest.partition(" ")
    points = first.lower() in _DEMONSTRATIVES and more and next_word.lower() not in STOP_WORDS
    return rest if points else text


def _about(text: str, subjects: Sequence[str]) -> float:
    """Return how much more a title is worth for the subjects that it names, in whatever form."""
    low = text.lower()
    named = sum(
        1 / place
        for place, subject in enumerate(subjects, start=1)
        if subject[: max(4, len(subject) - 3)] in low
    )
    return min(_MOST_ABOUT, _ABOUT_NOTHING + 0.4 * named)


def opening_title(messages: Sequence[Message]) -> str:
    """Return a title from the first words that anybody said, for a conversation of small talk."""
    language = language_of(message.content for message in messages)
    theirs = [message for message in messages if message.role is Role.USER] or messages
    for message in theirs:
        for text in split(message.content[:400]):
            if title := title_of(_cut(text, language), language):
                return title
    words = [word for message in theirs for word in message.content[:200].split()][:4]
    return title_of(" ".join(words), language) or "Small Talk"


def requested(text: str, phrases: Phrases, language: str) -> tuple[str, bool]:
    """Return what a sentence asks for, and whether it is a request."""
    is_request = asks(text)
    if subject := _SUBJECT_LINE.match(text):
        is_request, text = True, text[subject.end() :]
    if quoted := _QUOTED_AFTER.fullmatch(text):
        text = quoted["request"]
    text = " ".join(_ASIDE.sub(" ", _without_code(text)).split())
    text = opened(_FILLER.sub("", text) if language == ENGLISH else text)
    text = _BARE_GREETING.sub("", text, count=1) if _BARE_GREETING.match(text) else text
    if language == ENGLISH:
        text = _WITHOUT_APOSTROPHE.sub(_with_apostrophe, text)
    text, opens = _asked_for(text, phrases, language)
    is_request = is_request or opens
    if language == ENGLISH and (how := _HOW.match(text)):
        is_request, text = True, f"how to{text[how.end() :]}"
    shorter = phrases.tail.sub("", text)
    if any(it.end() == len(shorter) for it in NEGATION.finditer(shorter)):
        shorter = text  # "नहीं चाहिए" is "not wanted"
    is_request = is_request or (language in _VERB_LAST and shorter != text)
    return shorter if len(shorter) > 5 else text, is_request


def _without_code(text: str) -> str:
    """Return a sentence without the commands and the statements of SQL within it, each from its
    first word of code to its last one or to the operand of that.
    """
    if text.isupper():  # "WHERE IS MY ORDER FROM MAY"
        return text
    words = text.split()
    bare = [word.strip("\"'`,.?!") for word in words]
    runs: list[range] = []
    for at in (at for at, word in enumerate(bare) if _CODE_WORD.fullmatch(word)):
        between = words[runs[-1].stop : at] if runs else []
        if runs and len(between) <= _MAX_OPERANDS and STOP_WORDS.isdisjoint(between):
            runs[-1] = range(runs[-1].start, at + 1)
        else:
            runs.append(range(at, at + 1))
    for run in reversed(runs):
        marks = [word for word in bare[run.start : run.stop] if _CODE_WORD.fullmatch(word)]
        if len(marks) < 2 or not any(map(_STATEMENT_OR_OPTION.fullmatch, marks)):
            continue
        end = run.stop
        takes_operand = _TAKES_OPERAND.fullmatch(bare[end - 1])
        while end < len(words) and (takes_operand or _OPERAND.fullmatch(words[end])):
            takes_operand = None
            end += 1
        del words[run.start : end], bare[run.start : end]
    return " ".join(words)


def _with_apostrophe(word: re.Match[str]) -> str:
    if word["i"]:
        return f"I'{word['i_end']}"
    return f"{word['what']}'s" if word["what"] else f"{word['not']}n't"


def _asked_for(text: str, phrases: Phrases, language: str) -> tuple[str, bool]:
    """Return what a sentence asks for, and whether it is a request: the last of several requests;
    of English the last one that names its subject, or else what stands before them all.
    """
    requests: dict[str, int] = {}
    beginning = ""
    for later in _LATER_REQUEST.finditer(text):
        beginning = beginning or text[: later.start()]
        request, _ = _without_opening(text[later.end() :], phrases, language)
        if not phrases.leaning.match(request) and len(topical(request, language)) > 1:
            requests[request] = _subject_words(request, language)
    named = max(requests.values(), default=0)
    if language == ENGLISH and named < 2:
        beginning, opens = _without_opening(beginning, phrases, language)
        if _subject_words(_named(beginning, language), language) > named:
            return beginning, opens
    telling = [request for request, words in requests.items() if words > 1 or named < 2]
    return (telling[-1], True) if telling else _without_opening(text, phrases, language)


def _subject_words(text: str, language: str) -> int:
    """Return how many words name a subject of their own in what a title has room for; none of a
    text that points to something outside of it.
    """
    text = _cut(text, language)
    if language == ENGLISH and _POINTS_BACK.search(text):
        return 0
    return len({*topical(text, language)} - (_VAGUE | _ANY_SUBJECT))


def _without_opening(text: str, phrases: Phrases, language: str) -> tuple[str, bool]:
    """Return a sentence without the words and the clauses that lead to what it asks for, and
    whether they are those of a request.
    """
    text = text.strip(_MARKS)
    is_request = False
    for _ in range(5):
        if (main := without_clause(text, phrases, language)) != text:
            text = main.strip(_MARKS)
        match = phrases.request.match(text)
        rest = text[match.end() :] if match else ""
        if (
            match is None
            or not match.group()
            or len(rest) < 4
            or not (UNSPACED_RUN.search(rest) or " " in rest)
        ):
            break
        is_request = is_request or len(match.group()) > (
            _OPENING if language == ENGLISH else _OPENING_ELSEWHERE
        )
        is_indirect = language == ENGLISH and match.group().rstrip().endswith((" if", " whether"))
        text = asked(rest) if is_indirect else rest
    return text, is_request


def _candidates(sentences: list[Sentence]) -> list[Sentence]:
    """Return the sentences to try: of very many those of the beginning and of the end, and some of
    between.
    """
    if len(sentences) <= _MAX_CANDIDATES:
        return sentences
    half = _MAX_CANDIDATES // 3
    middle = sentences[half:-half]
    return [*sentences[:half], *middle[:: -(-len(middle) // half)], *sentences[-half:]]


def _cut(text: str, language: str) -> str:
    """Return the text, or its beginning up to the end of a phrase that a title has room for."""
    text = text.strip(_MARKS)
    if (run := UNSPACED_RUN.search(text)) and len(run.group()) > 3:
        return _cut_unspaced(text)
    words = text.split()
    if len(words) <= MAX_TITLE_WORDS and len(text) <= _MAX_CHARACTERS:
        return text
    fits = [
        n
        for n in range(2, min(len(words), MAX_TITLE_WORDS) + 1)
        if len(" ".join(words[:n])) <= _MAX_CHARACTERS
    ]
    stops = stop_words(language)

    def says_little(word: str) -> bool:
        low = word.lower().strip("\"'“”‘’.,;:!?()").replace("’", "'")
        return (
            low in STOP_WORDS
            or low in stops
            or (low in CHATTER and "'" in low)
            or low in ("will", "less", "kind", "sort", "since", "without")
            or (language == "pt" and low in ("pra", "pro"))
        )

    def ends_at(n: int) -> bool:
        """Return whether a title may end after n words: not before a negation, nor with a figure
        without what it counts, nor within a name.
        """
        last = words[n - 1]
        if says_little(last) or n == len(words):
            return not says_little(last)
        following = words[n].strip(".,;:!?")
        if last.isdigit():  # "the iPhone 16 for", but not "bake 20 muffins"
            is_range = following in ("to", "until")
            return n > 2 and not (words[n - 2].islower() or is_range) and says_little(following)
        is_abbreviated = last.endswith(".") and not last.endswith("..")  # "Mrs."
        is_numbered = n > 1 and not last.islower() and last.isalnum() and following.isdigit()
        return not (NEGATION.fullmatch(following) or is_abbreviated or is_numbered)

    if language == ENGLISH and (clause := _new_clause(words[: fits[-1] + 1 if fits else 0])):
        return " ".join(words[:clause]).strip(_MARKS)
    ends = [n for n in fits if ends_at(n)]
    clauses = [
        n
        for n in ends
        if (n > 3 and words[n - 1].endswith((",", ";", ":", ".", "!", "?", "،")))
        or (n < len(words) and words[n] in "-–—")
    ]
    phrases = [
        n
        for n in ends
        if n > 2
        and n < len(words)
        and says_little(words[n])
        and words[n].lower() not in _DETERMINERS
    ]
    best = max(clauses or phrases or ends or fits, default=0)
    if best < 4 and not clauses:  # "Common cases": too little
        best = max(ends or fits, default=0)
    return " ".join(words[:best]).strip(" .!?…:;,،-–—")


def _new_clause(words: list[str]) -> int:
    """Return the number of words before a second main clause, which a title has no room to finish:
    "Finalize my will, and I used". 0 where there is none, or where it denies something.
    """
    for n in range(2, len(words) - 1):
        joined = words[n].lower() in _JOINING
        subject = words[n + 1 if joined else n].lower().replace("’", "'").split("'")[0]
        # "Wyatt and I co-led" has one subject
        begins = words[n - 1].endswith(",") or (joined and words[n - 1].islower())
        if begins and subject in _SUBJECTS:
            named = topical(" ".join(words[:n]))
            denied = NEGATION.search(" ".join(words[n:]))
            return 0 if denied or len(named) < 2 else n
    return 0


def _cut_unspaced(text: str) -> str:
    if len(text) <= _MAX_UNSPACED:
        return text
    marks = [at for at in range(6, _MAX_UNSPACED) if text[at] in "、，,；;：: "]
    if marks:
        return text[: marks[0]]
    particles = [match.start() for match in _JAPANESE_PARTICLE.finditer(text, 8, _MAX_UNSPACED)]
    return text[: particles[-1]] if particles else f"{text[: _MAX_UNSPACED - 1]}…"
