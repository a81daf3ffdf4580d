"""The part of a message that its sender typed about himself: without quotations, code and pasted
text.

Whatever may be somebody else's words is left out. A fact that is missed is found when it is said
again; a fact that is wrong stands in every context.
"""

# ruff: noqa: E501 - a pattern reads better whole

import re

from recollect_server.domain.text import sentences

_MAX_MESSAGE = 3_000  # characters: longer messages are not about the writer
_MAX_PARAGRAPH = 800  # a longer one is text that was pasted or composed
_ABBREVIATION = re.compile(
    r"\b(?:St|Dr|Mr|Mrs|Ms|Prof|Sta|Sto|Ste|Mt|approx|e\.g|i\.e|bzw|Nr|Str)\.(?=\s)|\b\d{1,2}\.(?= [^\W\d_])"
)
_DOT = "\u2024"  # stands for a full stop that ends no sentence, while a text is cut into sentences

_CODE = re.compile(r"(```|~~~).*?(?:\1|\Z)|`[^`\n]+`", re.DOTALL)
_QUOTED_LINE = re.compile(r"^[ \t]*(?:>|&gt;).*$", re.MULTILINE)
# A mark that is never closed quotes the rest. Apostrophes quote only where a space or a line stands
# outside of both.
_QUOTED = re.compile(
    r"\"[^\"]*(?:\"|\Z)|“[^”“]*(?:[”“]|\Z)|„[^“”]*(?:[“”]|\Z)|«[^»]*(?:»|\Z)|»[^«]*(?:«|\Z)|「[^」]*(?:」|\Z)|『[^』]*(?:』|\Z)"
    r"|(?:(?<=\s)|(?<=\A)|(?<=[(:]))['‘](?=\w)[^\n]*?\w[.!?,…]?['’](?=[\s.,;:!?)]|\Z)|‹[^›]*(?:›|\Z)"
    r"|(?<![\w*])\*(?=[^\s*])[^*\n]+\*(?![\w*])",
)
_OTHERS_FROM_HERE = re.compile(
    r"^[ \t]*(?:from|to|cc|subject|sent|date|von|an|betreff|gesendet|de|à|objet|para|asunto|assunto|oggetto|onderwerp) ?:\s.*\n"
    r"[ \t]*(?:from|to|cc|subject|sent|date|von|an|betreff|gesendet|de|à|objet|para|asunto|assunto|oggetto|onderwerp) ?:\s"
    r"|^[ \t]*(?:subject|betreff|objet|asunto|assunto|oggetto|onderwerp) ?:"
    r"|^.{0,120}\b(?:wrote|schrieb|a écrit|escribió|escreveu|ha scritto|schreef)(?: [^\n:]{0,60})?:[ \t]*$"
    r"|^[ \t]*-{2,} ?(?:original message|forwarded message|ursprüngliche nachricht)|^begin forwarded message"
    r"|^[ \t]*(?:dear|liebe[rs]?|sehr geehrte[rs]?|chère?|cher|estimad[oa]|querid[oa]|prezad[oa]|gentile|beste|geachte) [^\n]{1,60},[ \t]*$"
    r"|(?<=\n)[ \t]*(?:hi|hello|hey|good (?:morning|afternoon|evening)|hallo|guten (?:tag|morgen|abend)|moin|bonjour|bonsoir|salut|hola"
    r"|buen(?:os|as) (?:días|tardes|noches)|olá|oi|bom dia|boa (?:tarde|noite)|ciao|buongiorno|buonasera|salve|hoi|beste|goede(?:morgen|middag))\b"
    r"|^[ \t]*(?:-{3,}|={3,}|_{3,}|#{1,6} .*)[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
# Alone on its line, with the name of the addressee: people greet an agent within a line.
_SALUTATION = re.compile(
    r"\A\s*(?:dear|hi|hello|hey|good (?:morning|afternoon|evening)|hallo|hi|liebe[rs]?|sehr geehrte[rs]?|guten (?:tag|morgen|abend)|moin"
    r"|bonjour|bonsoir|salut|chère?s?|cher|hola|estimad[oa]s?|querid[oa]s?|buen(?:os|as) (?:días|tardes|noches)|olá|oi|prezad[oa]s?|car[oa]s?"
    r"|bom dia|boa (?:tarde|noite)|ciao|buongiorno|buonasera|salve|gentil(?:e|issim[oa])|hoi|beste|geachte|goede(?:morgen|middag))"
    r" (?!there\b|again\b|wieder\b|nochmal\b)[^\n,:]{1,50}[,:][ \t]*\n",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?i:(?:with )?(?:(?:kind|kindest|best|warm|warmest|many) )?(?:regards|wishes)|yours(?: (?:sincerely|faithfully|truly))?|sincerely(?: yours)?"
    r"|best(?=,)|mit (?:freundlichen|besten|herzlichen|lieben|vielen) grüßen|(?:freundliche|viele|liebe|beste|herzliche|schöne) grüße|mfg|[lv]g"
    r"|(?:bien )?cordialement|bien à (?:vous|toi)|(?:meilleures|sincères) salutations|(?:un (?:cordial )?)?saludos?(?: cordiales)?|atentamente"
    r"|atenciosamente|(?:com os melhores )?cumprimentos|(?:cordiali|distinti) saluti|(?:met )?vriendelijke groet(?:en)?|groet(?:en|jes)|с уважением"
    r"|z poważaniem|pozdrawiam|saygılarımla)[,.!]?(?: [^\W\d_a-zß-ÿ].{0,30})?"
)
# Before a name only: people thank an agent too.
_CLOSING_OF_FRIENDS = re.compile(
    r"(?:best|cheers|(?:many )?thanks|thank you|love|take care|merci|bises|bisous|gracias|besos|abraços?|obrigad[oa]|grazie|baci|danke|bis bald"
    r"|bedankt)[,.!]?",
    re.IGNORECASE,
)
_NAME_LINE = re.compile(r"[^\W\d_a-zß-ÿ][\w.'’-]*(?: [^\W\d_a-zß-ÿ][\w.'’-]*){0,2}")
_SIGNATURE_LINES, _SIGNATURE_WIDTH = 6, 60  # at most, with the formula
_SPEAKER = re.compile(
    r"^[ \t]*(?:\[?\(?\d{1,2}:\d\d(?::\d\d)?|(?:[A-Z][\w.'’-]*(?: [A-Z\d][\w.'’-]*){0,2}|me|you|user|assistant|human|ai|bot|q|a) ?:\s)",
    re.MULTILINE,
)
_LISTED = re.compile(r"^[ \t]*(?:[-•*+‣]|\d{1,3}[.)]|[a-z]\)|\|).*$", re.MULTILINE | re.IGNORECASE)
_MANY_LISTED = 3  # such lines are a document; fewer are how some people write
# A user who asks for a text, or for a role to be played, may go on in somebody else's name.
_COMPOSING = re.compile(
    r"\b(?:role-?\s?play\w*|pretend\w*|imagine|act(?:ing)? as|acts? like|play(?:ing)? the (?:role|part)|persona|in the voice of"
    r"|from the (?:perspective|point of view) of|as if you|you are (?:an?|the|my)(?! (?:real |true |good |great |life)*(?:friend|lifesaver|saver|star|genius"
    r"|legend|gem|angel|best))|you(?:'re| will be| play) (?:an? |the )?(?:character|actor|role)|hypothetical\w*"
    r"|(?:write|draft|compose|create|make|generate|give|need|want|prepare|improve|edit|finish|continue|polish|review|rate|complete|do)"
    r" (?:[^.?!\n]{0,30} )?(?:an?|the|my|our|this|another|some|his|her|their)\b[^.?!\n]{0,40}?"
    r"\b(?:stor(?:y|ies)|poem|song|lyrics|rap|dialog(?:ue)?|scene|script|screenplay|novel|chapter|monolog(?:ue)?|speech|essay|letter|bio"
    r"|biography|profile|post|tweet|caption|testimonial|resume|résumé|cv|e-?mail|message|statement|blog|article|paragraph|introduction"
    r"|interview|toast|eulogy|vows|limerick|haiku|ad|listing|pitch|text|reply|answer to|response to)\b"
    r"|let(?:['’]?s| us) (?:play|pretend|say|role)|my (?:character|novel|story|hero|heroine|protagonist|avatar|d&d|campaign)"
    r"|stell dir vor|tu so|rollenspiel|spiel(?:e)? die rolle|imagine que|fais comme si|imagina|haz como si|finge|faz de conta|immagina|fai finta"
    r"|stel je voor|doe alsof|schreib(?:e|t)?\b[^.?!\n]{0,40}\b(?:brief|mail|geschichte|gedicht|text|lied)"
    r"|écri[st]\b[^.?!\n]{0,40}\b(?:lettre|mail|histoire|poème|texte)|escrib[ea]\b[^.?!\n]{0,40}\b(?:carta|correo|historia|poema|texto))(?!\w)",
    re.IGNORECASE,
)
# What comes after the colon, or on the next lines, is the text that this is to be done to.
_WORK_ON_TEXT = re.compile(
    r"\b(?:translat\w+|proof-?read\w*|rewrit\w+|rephras\w+|paraphras\w+|summari[sz]\w+|correct|grammar|spelling|check|fix|edit|shorten|improve"
    r"|analy[sz]e|explain|classify|extract|sentences?|phrases?|examples?|quotes?|lyrics|transcript|text|message|reads?|says?|wrote|said"
    r"|polite\w*|friendl\w+|formal\w*|tone|sounds?|reword\w*|drafts?|letter|e-?mails?|mail|bio|profile|tweet|post|review|replied|reply|respond|answer"
    r"|means?|got this|sent me|received|to send|what (?:does|did|do) \w+(?: \w+){0,3} want"
    r"|übersetz\w*|korrigier\w*|satz|text|tradui\w*|corrige\w*|phrase|traduc\w*|traduz\w*|traduci\w*|frase|vertaal\w*|zin)\b[^\n]*?(?::|\n)",
    re.IGNORECASE,
)


def own_sentences(content: str, *, is_mail: bool = False) -> list[str]:
    """Return the sentences of a user's message that are his own words and no quotation. `is_mail`:
    it came by e-mail, where people write letters to an agent.
    """
    if (
        len(content) > _MAX_MESSAGE
        or _COMPOSING.search(content)
        or len(_SPEAKER.findall(content)) > 1
    ):
        return []
    text = _CODE.sub(" … ", content).replace("**", "")
    if mark := _OTHERS_FROM_HERE.search(text):
        text = text[: mark.start()]
    if not is_mail and (_SALUTATION.match(text) or _is_signed(text)):
        return []
    if work := _WORK_ON_TEXT.search(text):
        text = text[: work.end() - 1]
    text = _QUOTED.sub(" … ", _QUOTED_LINE.sub("", text))
    if len(_LISTED.findall(text)) >= _MANY_LISTED:
        text = _LISTED.sub("", text)
    short = "\n".join(
        paragraph for paragraph in text.split("\n") if len(paragraph) <= _MAX_PARAGRAPH
    )
    marked = _ABBREVIATION.sub(lambda dotted: dotted.group()[:-1] + _DOT, short)
    return [sentence.replace(_DOT, ".") for sentence in sentences(marked)]


def _is_signed(text: str) -> bool:
    """Return whether a text ends as letters do: with a formula alone on its line, or before a name,
    and hardly anything after it.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    ending = lines[1:][-_SIGNATURE_LINES:]
    return any(
        max(map(len, ending[at:])) <= _SIGNATURE_WIDTH
        and (
            _CLOSING.fullmatch(line)
            or (
                _CLOSING_OF_FRIENDS.fullmatch(line)
                and any(_NAME_LINE.fullmatch(name) for name in ending[at + 1 : at + 2])
            )
        )
        for at, line in enumerate(ending)
    )
