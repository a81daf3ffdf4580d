"""Lasting facts that a user states plainly about himself, in the first person and of the present:
the anchors of the offline rule.

Precision comes first, so a rule (see `statement_rules`) matches a whole clause of a known form, and
its value must end where the clause ends. Questions, suppositions, plans, the past, denials and
statements about others are no facts.
"""

# ruff: noqa: E501 - a pattern reads better whole

import re
from collections.abc import Iterator, Sequence
from functools import cache

from recollect_server.domain.message import Message, Role
from recollect_server.domain.notes import FoundAnchor
from recollect_server.inference.own_words import own_sentences
from recollect_server.inference.sentences import is_question
from recollect_server.inference.statement_rules import NAME_PART, SECTIONS

_DIED = r"(?:has |have )?(?:just |recently |sadly )?(?:died|passed away|is dead)\b"
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
    rf"|^ {_DIED}"
    r"|^ (?:not|never|was)\b|^,? (?:not any ?more|not now|not really)\b"
    r"|^[,.]? ?[\"”’]?\b(?:he|she|they|"
    + NAME_PART
    + r") (?:said|says|wrote|writes|replied|told|asked|thinks?|claims?)\b"
    r"|[,\"”’] ?(?:he|she|they) (?:said|says|wrote|replied|told|asked)\b"
    r"|^,? (?:i|we) (?:said|told|wrote|would say|could say|used to say)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"(?:\b(?:and|but|so|because|since|as|cause|cuz|plus|also|well|hi|hey|hello|there|yes|yeah|yep|no|nope|ok|okay|btw|by the way|fyi|actually|anyway|now"
    r"|oh|sorry|please|pls|plz|just so you know|for the record|for your information|for context|remember|note|keep in mind|bear in mind|mind|know|be aware"
    r"|don['’]t forget|never forget|given|although|though|while|however|today|again|right|look|listen|honestly|unfortunately|luckily|basically|personally|myself"
    r"|too|mate|(?:it )?turns out|apparently|thanks|thank you|reminder|about me|background|as you know|you know|you should know|first|then|finally|and then|that"
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
_BOUNDARY = re.compile(
    r"(?:[,;(–—!.]|…| -)\s*$|\b(?:moved|umgezogen|déménagé|mudado?|mudé|mudei|trasferit[oa]|verhuisd)\b[^:]{0,20}:\s*$",
    re.IGNORECASE,
)
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
_FROM_NOW = re.compile(
    r",? (?:from now on|from today(?: on)?|instead|ab (?:jetzt|sofort)|von nun an|désormais|dorénavant|(?:a partir de|desde) (?:ahora|agora)"
    r"|de agora em diante|d'ora in poi|vanaf nu|voortaan)(?=\W*$)",
    re.IGNORECASE,
)
_DENIAL = re.compile(
    r"\b(?:no longer|(?:do|does)n't|(?:do|does) not|not|never|any ?more|any longer|after all|nicht mehr|nicht|keine?n?|mehr|doch"
    r"|ne|n'(?=\w)|plus|pas|finalement|ya no|no|al final|después de todo|já não|não|mais|afinal|non|più|alla fine|niet meer|niet|geen|meer|toch)(?!\w)",
    re.IGNORECASE,
)
"""Words without which a denial states what it denies, in seven languages."""
_NO_DENIAL = re.compile(
    r"\b(?:not|n't) (?:that|because|only|just|merely|saying|sure|even|mean)\b|\b(?:nicht nur|pas (?:seulement|que)|no s[oó]lo|não só|non solo|niet alleen)\b",
    re.IGNORECASE,
)
_CEASED = re.compile(
    r"\bI(?:'ve| have| just| recently)* (?:stopped|quit|gave up|given up) being\b", re.IGNORECASE
)
_MOURNED = re.compile(rf"([A-Z]\w+) {_DIED}")
_PARTED = re.compile(
    r"\b(?:and i|we|i)(?:'m|'re|'ve| am| are| have| just| recently| finally| got)*"
    r" (?:divorced|separated(?! (?:the|an?|my)\b)|brok(?:e|en) up(?! (?:the|an?|with that)\b)|split up)\b"
    r"|\b(?:ich bin|wir sind|ich habe mich|wir haben uns|und ich (?:haben uns|sind))(?: \w+)? (?:geschieden|getrennt|scheiden lassen)\b"
    r"|\b(?:j'ai divorcé|(?:nous avons|on a|et moi avons) divorcé|je suis divorcée?|nous (?:nous )?sommes séparés)(?!\w)"
    r"|\b(?:me divorcié|nos divorciamos|me he divorciado|nos hemos divorciado|estoy divorciad[oa]|nos separamos|me divorciei|divorciei-me|estou divorciad[oa])(?!\w)"
    r"|\b(?:(?:ho|abbiamo) divorziato|sono divorziat[oa]|ci siamo (?:lasciati|separati))\b|\b(?:ik ben|wij? zijn|en ik zijn)(?: \w+)? (?:gescheiden|uit elkaar)\b",
    re.IGNORECASE,
)
_LEFT = re.compile(
    rf"\bi(?: just| recently|'ve| have)* (?:quit|left|resigned from|got fired from|was laid off (?:by|from)|moved away from) (?:my job (?:at|with) )?({NAME_PART})"
    rf"|\bich habe bei ({NAME_PART}) (?:gekündigt|aufgehört)|\bj'ai (?:quitté|démissionné de) ({NAME_PART})|\b(?:dejé|renuncié a|he dejado) ({NAME_PART})"
    rf"|\b(?:saí d[aoe]|deixei a?) ({NAME_PART})|\bho lasciato (?:la )?({NAME_PART})|\bik ben weg bij ({NAME_PART})",
    re.IGNORECASE,
)
DENIAL_CONFIDENCE = 0.45  # that of a plain statement, below `anchors.TENTATIVE`
_MAX_SENTENCE = 600  # characters


def anchors_in(messages: Sequence[Message]) -> tuple[FoundAnchor, ...]:
    """Return the facts in the user's words, in order. A conversation with several users has none:
    whose they are is not known.
    """
    spoken = [message for message in messages if message.role is Role.USER]
    if len({message.sender for message in spoken if message.sender}) > 1:
        return ()
    facts = {
        (message.sequence, key, value, denied): FoundAnchor(
            key, value, confidence, message.sequence, denied
        )
        for message in spoken
        for sentence in own_sentences(message.content, is_mail="@" in message.sender)
        for key, value, confidence, denied in _found(sentence)
    }
    return tuple(facts.values())


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a rule's pattern when a sentence first needs it: all of them together take a third of
    a server's start.
    """
    return re.compile(pattern, re.IGNORECASE)


def _found(sentence: str) -> Iterator[tuple[str, str, float, str]]:
    """Yield what a sentence takes back, with no value and the denied one, and what it states.

    A denial takes back what the sentence would state without it: "I'm not vegan any more". What it
    states all the same is no denial: "I live in Ghent, not in Bruges".
    """
    sentence = _CEASED.sub("I'm not", sentence.replace("’", "'"))
    plain = _FROM_NOW.sub("", sentence)
    stated = list(_facts(sentence)) or list(_facts(plain))
    if not is_question(sentence) and not _NO_DENIAL.search(sentence):
        statements = {(key, value) for key, value, _ in stated}
        affirmed = " ".join(_DENIAL.sub(" ", plain.replace("Je n'", "J'")).split())
        affirmed = re.sub(r" (?=[.,;!])", "", affirmed)
        head, _, tail = affirmed.rpartition(": ")
        affirmed = affirmed if _DOUBT_BEFORE.search(head) else tail
        for key, value, confidence in _facts(affirmed) if affirmed != plain else ():
            if (key, value) not in statements:
                yield key, "", confidence, value
        if mourned := _MOURNED.search(sentence):
            for key, value, confidence in _facts(sentence[: mourned.end(1)]):
                if (key, value) not in statements:
                    yield key, "", confidence, value
        if _PARTED.search(sentence):
            yield "partner", "", DENIAL_CONFIDENCE, ""
        for place in _LEFT.finditer(sentence):
            for key in ("employer", "location"):
                yield key, "", DENIAL_CONFIDENCE, next(filter(None, place.groups()))
        if plain != sentence and any(key == "preferred_name" for key, _ in statements):
            yield "name", "", DENIAL_CONFIDENCE, ""
    yield from ((key, value, confidence, "") for key, value, confidence in stated)


def _facts(sentence: str) -> Iterator[tuple[str, str, float]]:
    if len(sentence) > _MAX_SENTENCE:
        return
    sentence = _SAID_BEFORE.sub("", sentence)
    asks = sentence.endswith(("?", "？"))
    words = frozenset(re.findall(r"[^\W\d_]+", sentence.lower()))
    for rule in (
        rule for section in SECTIONS if not section.cues.isdisjoint(words) for rule in section.rules
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
