"""Subordinate clauses that open a sentence: a condition, a reason, a time.

Cut to the length of a title such a sentence loses its main clause, and "If I wanted to calculate
the odds" is left. What it is about stands in the main clause, or, where the main clause only asks
"how would I do that?", in what the condition wishes for.
"""

import re
from dataclasses import dataclass

from recollect_server.domain.languages import ENGLISH
from recollect_server.inference.phrases import Phrases
from recollect_server.inference.sentences import topical


@dataclass(frozen=True, slots=True)
class _Clauses:
    """Patterns for one language."""

    opening: re.Pattern[str]
    """The beginning of a subordinate clause."""
    wish: re.Pattern[str]
    """A condition that is a wish of the asker; the group `thing` begins what is wished for."""


def _clauses(opening: str, wish: str, end: str = r"(?!\w)") -> _Clauses:
    return _Clauses(
        re.compile(f"(?:{opening}){end}", re.IGNORECASE), re.compile(wish, re.IGNORECASE)
    )


# Words that also ask ("when", "quand", "wann") open a clause only where no verb of a question
# follows; those that cannot be told apart are left out.
_BY_LANGUAGE = {
    ENGLISH: _clauses(
        r"even if|even though|if|when|whenever|while|since|because|as (?:i|we|you|it|they|soon|long|\w+ed)"
        r"|although|though|unless|once|after|before|until"
        r"|given|assuming|suppose|supposing|provided|based on|in case|by the time|seeing|with",
        r"(?:if|when|whenever|once|suppose|supposing) (?:i|we|you|one|someone)"
        r"(?:['’]d| would| ever| just| really)*"
        r" (?:wanted|want|wished|wish|needed|need|had|have|were|like|planned|plan|tried|try|decided|decide)"
        r" to (?P<thing>.+)",
        r"(?! (?:can|could|do|does|did|is|are|was|were|will|would|should|have|has|had|to|more|again|usual)\b)"
        r"(?![\w'’-])",
    ),
    "de": _clauses(
        r"wenn|falls|weil|obwohl|nachdem|bevor|sobald|während|sofern|da (?:ich|wir|es|du|sie)",
        r"(?:wenn|falls|sofern) (?:ich|wir|man) (?P<thing>[^,]+?)"
        r" (?:woll(?:te|en|ten)|will|möchten?|müssten?|muss|müssen|sollten?|würden?)(?=,|$)",
    ),
    "fr": _clauses(
        r"si|lorsqu(?:e|['’])|puisqu(?:e|['’])|parce qu(?:e|['’])|bien qu(?:e|['’])|vu qu(?:e|['’])|étant donné"
        r"|avant d(?:e|['’])|après avoir",
        r"si (?:je|nous|on|l['’]on) (?:voul(?:ais|ions|ait)|veux|voulons|veut|devais|devait|souhait(?:e|ais))"
        r" (?P<thing>.+)",
        "",
    ),
    "es": _clauses(
        r"si|aunque|porque|ya que|dado que|puesto que|después de|antes de",
        r"si (?:yo |nosotros )?(?:quisi(?:era|éramos)|quiero|queremos|tuviera que|tengo que|necesit(?:o|ara))"
        r" (?P<thing>.+)",
    ),
    "pt": _clauses(
        r"se|embora|porque|já que|dado que|visto que|depois de|antes de",
        r"se (?:eu |nós )?(?:quis(?:esse|er)|quero|queremos|precis(?:asse|ar)|tivesse que|tiver que)(?: de)?"
        r" (?P<thing>.+)",
    ),
    "it": _clauses(
        r"se|anche se|poiché|perché|dato che|visto che|siccome|dopo|prima di",
        r"se (?:io |noi )?(?:vol(?:essi|essimo)|voglio|vogliamo|dov(?:essi|essimo)|devo) (?P<thing>.+)",
    ),
    "nl": _clauses(
        r"als|indien|omdat|hoewel|nadat|voordat|zodra|terwijl",
        r"(?:als|indien) (?:ik|we|wij|je) (?P<thing>[^,]+?) (?:wil(?:len)?|wilde|moest|zou willen)(?=,|$)",
    ),
    "ru": _clauses(
        r"если|поскольку|так как|хотя|раз|потому что|прежде чем|после того",
        r"если (?:бы )?(?:(?:я|мы) )?(?:хочу|хотим|захочу|хотел[аи]?(?: бы)?|нужно|надо) (?P<thing>.+)",
    ),
    "pl": _clauses(
        r"jeśli|jeżeli|gdyby|ponieważ|chociaż|zanim|skoro",
        r"(?:jeśli|jeżeli) (?:chcę|chcemy|chciał(?:bym|abym)|muszę) (?P<thing>.+)",
    ),
    "tr": _clauses(r"eğer", r"(?!)"),
    "hi": _clauses(r"अगर|यदि|जब|क्योंकि|चूँकि", r"(?!)", ""),
    "zh": _clauses(
        r"如果|要是|假如|因为|由于|虽然|尽管|既然",
        r"(?:如果|要是|假如)(?:我们?|你|您)?(?:想要?|要|需要|打算)(?P<thing>[^，,]+)",
        "",
    ),
    "ar": _clauses(r"إذا|لو|عندما|بما أن|لأن", r"(?:إذا|لو) (?:أردت|أردنا)(?: أن)? (?P<thing>.+)"),
}
_MARK = re.compile(
    r"(?:[,;]\s+|[،，；]\s*)(?:(?:then|dann|alors|entonces|então|allora|dan|тогда|那么?)\s+)?|\s+then\s+"
)
_ANNOUNCED = re.compile(
    r"(?:regarding|concerning|as for|in terms of|with regards? to|when it comes to|speaking of|bezüglich|hinsichtlich"
    r"|concernant|quant (?:à|aux?)|en cuanto a|(?:con )?respecto a|quanto a|riguardo a|wat betreft|что касается)"
    r" (?P<thing>[^,;:]+?)(?:[,;:]|$)",
    re.IGNORECASE,
)
"""A subject that is named before something is said about it."""
_NO_MAIN_CLAUSE = re.compile(
    r"(?:and|or|but|like|such|which|who|whose|where|not|especially|including|in|on|at|for|from|to|und|oder|aber"
    r"|et|ou|mais|y|o|pero|e|mas|ma|en|of|maar|и|или|но|i|lub|ale)(?= )(?! (?:can|do|should|would) )"
    r"|[\w-]+, (?:and|or|und|oder|et|ou|y|o|e|en|of|и|или) "
    r"|(?:我?们?应?该|我|要|需要|又该)?(?:怎么|如何)[做办样]",
    re.IGNORECASE,
)
"""Beginnings of what stands behind a comma and still belongs to the clause, or names nothing."""
_INDIRECT = re.compile(
    r"(?P<who>i|we|you) (?P<verb>should|can|could|would|will|must)(?= )", re.IGNORECASE
)


def opens_with_clause(text: str, language: str) -> bool:
    """Return whether a text begins with a subordinate clause."""
    clauses = _BY_LANGUAGE.get(language)
    return clauses is not None and clauses.opening.match(text) is not None


def without_clause(text: str, phrases: Phrases, language: str) -> str:
    """Return the main clause of a sentence that opens with a subordinate one if it names
    something, else what the clause wishes for, else the text as it is; of "Regarding the roof, …"
    the subject.
    """
    if (announced := _ANNOUNCED.match(text)) and topical(announced["thing"], language):
        return announced["thing"]
    clauses = _BY_LANGUAGE.get(language)
    if clauses is None or not clauses.opening.match(text):
        return text
    wished = clauses.wish.match(text)
    least = 3 if wished else 2  # "would that be the same?" says less than the wish
    for mark in _MARK.finditer(text):
        rest = text[mark.end() :]
        if not (
            _NO_MAIN_CLAUSE.match(rest)
            or clauses.opening.match(rest)
            or phrases.leaning.match(rest)
            or len(topical(phrases.request.sub("", rest, count=1), language)) < least
        ):
            return rest
    return wished["thing"] if wished else text


def asked(text: str) -> str:
    """Return an indirect question of English, as it stands behind "if", as a direct one."""
    return _INDIRECT.sub(r"\g<verb> \g<who>", text, count=1) if _INDIRECT.match(text) else text
