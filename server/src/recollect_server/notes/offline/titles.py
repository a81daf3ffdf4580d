"""Titles in the words of a conversation: the request that says most of what it is about, shortened
where a phrase ends.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from recollect_server.kernel.domain.message import Role
from recollect_server.notes.notes import MAX_TITLE_WORDS, title_of
from recollect_server.notes.offline.phrases import (
    CHATTER_QUESTION,
    LEANING,
    NEGATION,
    OPENING,
    TAIL,
)
from recollect_server.notes.offline.sentences import Sentence, says_little, topical
from recollect_server.text.languages import STOP_WORDS, stop_words
from recollect_server.text.text import UNSPACED_RUN, is_question

_MAX_CHARACTERS, _MAX_UNSPACED = 64, 24
_REQUEST = 1.35  # how much more a request is worth than a statement
_FIRST = 2.0  # what the first message adds to 1; the second a half of it, and so on
_FIRST_IN_CHAT = 0.4  # between people the subject comes later
_LEANING = 0.5  # what a title is worth that points to something outside of it
# what a sentence of the agent is worth: it names the subject where the user's requests do not
_ANSWER = 0.35
_ADDRESSING = 0.3  # what a word to one of the speakers is worth: "I totally agree, Caroline"
_ADDRESS = re.compile(r"^(?:\w+ )?(\w+) ?,|, ?(\w+)\W*$")
_PAUSE = re.compile(r"[,;:–—] (?:(?:and|so|but|then) )?|[，；]|\. ")
_SUBJECT_LINE = re.compile(
    r"(?:subject|betreff|objet|asunto|assunto|oggetto|onderwerp) ?: *(?:(?:re|fwd?|aw|wg) ?: *)*(?=\S)",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"(?:if|when|whenever|while|since|because|although|though|unless|once|after|before|given|based on|in"
    r" conclusion|wenn|falls|weil|obwohl|si|lorsque|aunque|porque|se|als|omdat|если|gdy|jeśli|如果|因为)(?!\w)",
    re.IGNORECASE,
)
"""A clause that opens a sentence and says what it is about only later."""
_PARTICLE = re.compile("(?<=[^ぁ-ん])[はがをにでとのへ](?=.)")
_HOW = re.compile(r"how (?:can|do|could|should|would) (?:i|we|you)(?= \w)", re.IGNORECASE)
_POINTS = re.compile(r"\b(?:it|this|that|them|these|those|here|there|one)\b", re.IGNORECASE)
_MARKS = " .!?…:;,¿¡。！？؟،।-–—\"'“”"


def title_in(
    sentences: Sequence[Sentence], weights: Mapping[str, float], language: str
) -> tuple[str, Sentence | None]:
    """Return a title, empty if none can be made, and the sentence it comes from."""
    named = 2 * sum(bool(it.speaker) for it in sentences) > len(sentences)
    first = min((it.message for it in sentences if named or it.role is Role.USER), default=0)
    speakers = {word for it in sentences for word in topical(it.speaker)}
    best, best_score, source = "", 0.0, None
    for sentence in sentences:
        if CHATTER_QUESTION.search(sentence.text) or sentence.text.startswith(("(", "[")):
            continue
        for text, is_request in _requests(sentence.text):
            title = title_of(cut(text, language), language)
            words = dict.fromkeys(topical(title, language))
            telling = [word for word in words if not says_little(word, language)]
            if not title or not telling:
                continue
            score = sum(weights.get(word, 0.5) for word in telling) / (len(telling) + 2)
            score *= 1 if len(telling) > 1 else 0.5
            score *= _REQUEST if is_request and not named else 1
            score *= 1 + (_FIRST_IN_CHAT if named else _FIRST) / (1 + abs(sentence.message - first))
            score *= _LEANING if LEANING.match(text) or _POINTS.search(title) else 1
            score *= _LEANING if _CLAUSE.match(text) else 1
            edges = {name.lower() for it in _ADDRESS.finditer(text) for name in it.groups("")}
            score *= 1 if speakers.isdisjoint(edges) else _ADDRESSING
            score *= 1 if sentence.whole else 0.6
            score *= 1 if named or sentence.role is Role.USER else _ANSWER
            if score > best_score:
                best, best_score, source = title, score, sentence
    return best, source


def _requests(sentence: str) -> Iterator[tuple[str, bool]]:
    """Yield what a sentence asks for as a whole, and in a clause that opens as a request does:
    "I'm new here, can you help me with my visa?".
    """
    yield requested(sentence)
    for pause in _PAUSE.finditer(sentence):
        text, is_request = requested(sentence[pause.end() :])
        if is_request and len(text) < len(sentence) - pause.end() - 6:
            yield text, True


def requested(sentence: str) -> tuple[str, bool]:
    """Return what a sentence asks for, without what leads to it, and whether it is a request."""
    text = _SUBJECT_LINE.sub("", sentence, count=1).strip(_MARKS)
    is_request = is_question(sentence) or len(text) < len(sentence.strip(_MARKS))
    if (opening := OPENING.match(text)) and len(rest := text[opening.end() :]) > 5:
        is_request, text = is_request or opening.end() > 6, rest
    if how := _HOW.match(text):
        text = f"how to{text[how.end() :]}"
    shorter = TAIL.sub("", text)
    is_negated = any(it.end() == len(shorter) for it in NEGATION.finditer(shorter))
    return (
        (text, is_request)
        if is_negated or len(shorter) < 5
        else (shorter, is_request or shorter != text)
    )


def cut(text: str, language: str) -> str:
    """Return the text, or its beginning up to the end of a phrase that a title has room for: after
    a word that says something, and before no negation.
    """
    text = text.strip(_MARKS)
    if (run := UNSPACED_RUN.search(text)) and len(run.group()) > 3:
        if len(text) <= _MAX_UNSPACED:
            return text
        marks = [at for at in range(6, _MAX_UNSPACED) if text[at] in "、，,；;：: "]
        marks = marks or [it.start() for it in _PARTICLE.finditer(text, 8, _MAX_UNSPACED)][-1:]
        return text[: marks[0]] if marks else f"{text[: _MAX_UNSPACED - 1]}…"
    words = text.split()
    stops = STOP_WORDS | stop_words(language)
    fits = [n for n in range(1, MAX_TITLE_WORDS + 1) if len(" ".join(words[:n])) <= _MAX_CHARACTERS]
    if len(words) <= fits[-1] if fits else 0:
        return text

    def ends(n: int) -> bool:
        last, following = words[n - 1].lower().strip(_MARKS), words[n].strip(_MARKS)
        return (
            last.replace("’", "'").split("'")[0] not in stops
            and not last.isdigit()
            and not NEGATION.fullmatch(following)
            and not following.isdigit()
        )

    whole = [n for n in fits if n > 1 and ends(n)]
    clauses = [n for n in whole if (n > 2 and words[n - 1][-1] in ",;:.!?،") or words[n] in "-–—"]
    return " ".join(words[: max(clauses or whole or fits, default=0)]).strip(_MARKS)
