"""The sentences of a message that are its sender's own words: without quotations, code and pasted
text.

Whatever may be somebody else's words is left out. A fact that is missed is met when it is said
again; a fact that is wrong stands in every context.
"""

# ruff: noqa: E501 - a pattern reads better whole

import re
from collections.abc import Iterator
from itertools import pairwise

from recollect_server.text.languages import says_little
from recollect_server.text.text import sentence_ends

LONGEST = 300
"""Characters of a sentence, at the most: a longer one is seldom a fact about somebody."""
MOST_TEXT = 4000
"""Characters of a message that are looked at, from its beginning."""

_CODE = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
_QUOTED_LINE = re.compile(r"^[ \t]*(?:>|&gt;).*$", re.MULTILINE)
_QUOTATION = re.compile(
    '"[^"]{20,}?"(?!\\w)|“[^”]{20,}?”|„[^“”]{20,}?[“”]|«[^»]{20,}?»|「[^」]{8,}?」|『[^』]{8,}?』'
)
"""Quotation of what somebody else said or wrote: longer than a name or a title."""
_OTHERS_FROM_HERE = re.compile(
    r"^[ \t]*(?:from|to|cc|subject|sent|date|von|an|betreff|gesendet|de|à|objet|para|asunto|assunto|oggetto|onderwerp) ?:\s.*\n"
    r"[ \t]*(?:from|to|cc|subject|sent|date|von|an|betreff|gesendet|de|à|objet|para|asunto|assunto|oggetto|onderwerp) ?:\s"
    r"|^[ \t]*(?:subject|betreff|objet|asunto|assunto|oggetto|onderwerp) ?:"
    r"|^.{0,120}\b(?:wrote|schrieb|a écrit|escribió|escreveu|ha scritto|schreef)(?: [^\n:]{0,60})?:[ \t]*$"
    r"|^[ \t]*-{2,} ?(?:original message|forwarded message|ursprüngliche nachricht)|^begin forwarded message"
    r"|^[ \t]*(?:dear|liebe[rs]?|sehr geehrte[rs]?|chère?|cher|estimad[oa]|querid[oa]|prezad[oa]|gentile|beste|geachte) [^\n]{1,60},[ \t]*$"
    r"|(?<=\n)[ \t]*(?:hi|hello|hey|good (?:morning|afternoon|evening)|hallo|guten (?:tag|morgen|abend)|moin|bonjour|bonsoir|salut|hola"
    r"|buen(?:os|as) (?:días|tardes|noches)|olá|oi|bom dia|boa (?:tarde|noite)|ciao|buongiorno|buonasera|salve|hoi|goede(?:morgen|middag))\b[^\n]{0,40},[ \t]*$"
    r"|^[ \t]*(?:-{3,}|={3,}|_{3,})[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
# Alone on its line, with the name of the addressee: people greet an agent otherwise.
_SALUTATION = re.compile(
    r"\A\s*(?:dear|liebe[rs]?|sehr geehrte[rs]?|chère?s?|cher|estimad[oa]s?|querid[oa]s?|prezad[oa]s?|car[oa]s?|gentil(?:e|issim[oa])|beste|geachte)"
    r" [^\n,:]{1,50}[,:][ \t]*\n",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?i:(?:with )?(?:(?:kind|kindest|best|warm|warmest|many) )?(?:regards|wishes)|yours(?: (?:sincerely|faithfully|truly))?|sincerely(?: yours)?"
    r"|best(?=,)|mit (?:freundlichen|besten|herzlichen|lieben|vielen) grüßen|(?:freundliche|viele|liebe|beste|herzliche|schöne) grüße|mfg|[lv]g"
    r"|(?:bien )?cordialement|bien à (?:vous|toi)|(?:meilleures|sincères) salutations|(?:un (?:cordial )?)?saludos?(?: cordiales)?|atentamente"
    r"|atenciosamente|(?:com os melhores )?cumprimentos|(?:cordiali|distinti) saluti|(?:met )?vriendelijke groet(?:en)?|groet(?:en|jes)|с уважением"
    r"|z poważaniem|pozdrawiam|saygılarımla)[,.!]?(?: [^\W\d_a-zß-ÿ].{0,30})?"
)
_SIGNATURE_LINES, _SIGNATURE_WIDTH = 6, 60  # at most, with the formula
_SPEAKER = re.compile(
    r"^[ \t]*(?:\[?\(?\d{1,2}:\d\d(?::\d\d)?|(?:[A-Z][\w.'’-]*(?: [A-Z\d][\w.'’-]*){0,2}|me|you|user|assistant|human|ai|bot|q|a) ?:\s)",
    re.MULTILINE,
)
# Who asks for a story, or for a role to be played, may go on in the name of somebody else.
_FICTION = re.compile(
    r"\b(?:role-?\s?play\w*|pretend\w*|imagine|act(?:ing)? as|play(?:ing)? the (?:role|part)|in the voice of"
    r"|from the (?:perspective|point of view) of|you(?:'re| will be| play) (?:an? |the )?(?:character|actor|role)"
    r"|(?:write|draft|compose|create|make|generate|give|finish|continue|polish)"
    r" (?:[^.?!\n]{0,30} )?(?:an?|the|my|our|this|another|some)\b[^.?!\n]{0,40}?"
    r"\b(?:stor(?:y|ies)|poem|song|lyrics|rap|dialog(?:ue)?|scene|screenplay|novel|chapter|monolog(?:ue)?|limerick|haiku)\b"
    r"|let(?:['’]?s| us) (?:play|pretend|say|role)|my (?:character|novel|story|hero|heroine|protagonist|avatar|d&d|campaign)"
    r"|stell dir vor|tu so|rollenspiel|spiel(?:e)? die rolle|imagine que|fais comme si|imagina|haz como si|finge|faz de conta|immagina|fai finta"
    r"|stel je voor|doe alsof|schreib(?:e|t)?\b[^.?!\n]{0,40}\b(?:geschichte|gedicht|lied)"
    r"|écri[st]\b[^.?!\n]{0,40}\b(?:histoire|poème)|escrib[ea]\b[^.?!\n]{0,40}\b(?:historia|poema))(?!\w)",
    re.IGNORECASE,
)
# What comes behind the colon, or on the next lines, is the text that this is to be done to.
_WORK_ON_TEXT = re.compile(
    r"\b(?:translat\w+|proof-?read\w*|rewrit\w+|rephras\w+|reword\w*|paraphras\w+|summari[sz]\w+|correct|grammar|spelling|shorten|sounds?|ok(?:ay)? to send"
    r"|got this|sent me|should i (?:answer|reply|say|write)|(?:tinder|linkedin|dating|my) (?:profile|bio)|what (?:does|did|do) \w+(?: \w+){0,3} want|übersetz\w*|korrigier\w*|tradui\w*|corrige\w*|traduc\w*|traduz\w*|vertaal\w*)\b[^\n.]*?[:\n]",
    re.IGNORECASE,
)


def own_sentences(text: str, first: int = 0, *, is_mail: bool = False) -> Iterator[tuple[int, int]]:
    """Yield where the sentences of a user's message are that are its sender's own: the first
    character of each, and the one behind its last. The message begins at the character `first` of
    the text. `is_mail`: it came by e-mail, where people write letters to an agent.
    """
    text = text[: first + MOST_TEXT]
    content = text[first:]
    if it := _OTHERS_FROM_HERE.search(content):
        content = content[: it.start()]
    if len(_SPEAKER.findall(content)) > 1:
        return
    if not is_mail and (_SALUTATION.match(content) or _is_signed(content)):
        return
    # what is to be done to another's text stands before it, who asks for fiction may go on with it
    if it := _WORK_ON_TEXT.search(content):
        content = content[: it.end()]
    if it := _FICTION.search(content):
        content = content[: it.start()]
    last = first + len(content)
    others = [
        it.span()
        for pattern in (_CODE, _QUOTED_LINE, _QUOTATION)
        for it in pattern.finditer(text, first, last)
    ]
    ends = [*(it for it in sentence_ends(text) if it > first), len(text)]
    for start, end in pairwise([first, *ends]):
        sentence = text[start:end].strip()
        begin = start + text[start:end].find(sentence)
        stop = begin + len(sentence)
        if not 0 < len(sentence) <= LONGEST or stop > last or says_little(sentence):
            continue
        if not any(left < stop and begin < right for left, right in others):
            yield begin, stop


def _is_signed(text: str) -> bool:
    """Return whether a text ends as letters do: with a formula alone on its line, and hardly
    anything after it.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    ending = lines[1:][-_SIGNATURE_LINES:]
    return any(
        max(map(len, ending[at:])) <= _SIGNATURE_WIDTH and _CLOSING.fullmatch(line)
        for at, line in enumerate(ending)
    )
