"""Titles that name what a conversation comes back to: a request of a user's that has it, else the
phrases alone. Where neither is sure there is no title.
"""

import re
from collections.abc import Sequence

from recollect_server.kernel.domain.message import Role
from recollect_server.notes.notes import MAX_TITLE_WORDS, title_of
from recollect_server.notes.offline.nouns import Phrase
from recollect_server.notes.offline.phrases import NEGATION, OPENING, TAIL
from recollect_server.notes.offline.sentences import Sentence
from recollect_server.text.text import UNSPACED_RUN, is_question
from recollect_server.text.topics import content_words

_ASKED = 6.0  # score of a request in the first message; in the second a quarter of it, and so on
_LEAST = (5, 2)  # characters that stay of a request, with spaces and without: more than these
_MAX_UNSPACED = 18  # characters of a script without spaces
_SUBJECT_LINE = re.compile(
    r"(?:subject|betreff|objet|asunto|assunto|oggetto|onderwerp) ?: *(?:(?:re|fwd?|aw|wg) ?: *)*(?=\S)",
    re.IGNORECASE,
)
_JOINT = {"ja": "、"}
_MARKS = " .!?…:;,¿¡。！？؟،।-–—\"'“”"
_PAUSES = "、，,；;：: をにでがは"  # behind which a script without spaces begins another phrase
_ENDS = ",;:.!?،，、；"


def title_in(
    sentences: Sequence[Sentence], subjects: Sequence[Phrase], language: str
) -> tuple[str, Sentence | None]:
    """Return a title, empty if none is sure, and the sentence it comes from, if it is of one.

    `subjects` are the phrases that the conversation comes back to, the best first. The earlier a
    request is, the more of the conversation has to be about something else to give the title.
    """
    joined = title_of(_JOINT.get(language, ", ").join(it.form for it in subjects), language)
    for sentence in sentences:
        if sentence.speaker or sentence.role is not Role.USER:
            continue
        title = title_of(requested(sentence.text), language)
        score = _ASKED / (1 + sentence.message) ** 2
        if len(content_words(title)) > 1 and not (
            joined and score < max(it.score for it in subjects)
        ):
            return title, sentence
    return joined, None


def requested(sentence: str) -> str:
    """Return what a sentence asks for, without what leads to it: a whole question, or what else is
    asked for up to a mark. Empty if it asks for nothing, or a title has no room for it.
    """
    text = _SUBJECT_LINE.sub("", sentence, count=1).strip(_MARKS)
    is_led = len(text) < len(sentence.strip(_MARKS))
    is_unspaced = UNSPACED_RUN.match(text) is not None
    if (opening := OPENING.match(text)) and len(rest := text[opening.end() :]) > _LEAST[
        is_unspaced
    ]:
        is_led, text = is_led or is_unspaced or opening.end() > 6, rest
    shorter = TAIL.sub("", text)
    if not any(it.end() == len(shorter) for it in NEGATION.finditer(shorter)):
        is_led, text = is_led or (is_unspaced and shorter != text), shorter
    short = cut(text := text.strip(_MARKS))
    return short if is_led or (is_question(sentence) and short == text) else ""


def cut(text: str) -> str:
    """Return the text if a title has room for it, or its beginning up to a mark, and before no
    negation; empty if there is none.
    """
    if (run := UNSPACED_RUN.search(text)) and len(run.group()) > 3:
        if len(text) <= _MAX_UNSPACED:
            return text
        return text[
            : max((at for at in range(6, _MAX_UNSPACED + 1) if text[at] in _PAUSES), default=0)
        ]
    words = text.split()
    if len(words) <= MAX_TITLE_WORDS:
        return text
    ends = (n for n in range(2, MAX_TITLE_WORDS + 1) if words[n - 1][-1] in _ENDS)
    end = next((n for n in ends if not NEGATION.fullmatch(words[n].strip(_MARKS))), 0)
    return " ".join(words[:end]).strip(_MARKS)
