"""Writes notes without any model: the sentences that tell most, and the words they leave out.

An abbreviation has how a conversation began and how it ended. The sentences between are chosen one
after the other, each time the one that adds the most weight of words not covered yet for its
length. A word weighs by how often it is said (damped), a name or a figure more; cues and the place
of a sentence scale its sum (see `sentences`).

A title names what a conversation comes back to: a request of a user's that has it, else the phrases
alone. Where neither is sure there is no title.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from math import log

from recollect_server.kernel.domain.message import Message, Role, estimate_tokens
from recollect_server.notes.conversation_names import request_of
from recollect_server.notes.notes import (
    MAX_ABBREVIATION,
    MAX_SUMMARY,
    MAX_TITLE_WORDS,
    Notes,
    clipped,
    notes_of,
    title_of,
)
from recollect_server.notes.offline.condensing import condensed
from recollect_server.notes.offline.nouns import Phrase, phrases_of, subjects_of, topics_of
from recollect_server.notes.offline.phrases import CHATTER_QUESTION, NEGATION, OPENING, TAIL
from recollect_server.notes.offline.sentences import (
    Sentence,
    ended,
    says_little,
    sentences_of,
    spoken,
    topical,
)
from recollect_server.notes.offline.tools import called_in, listed, parted
from recollect_server.text.languages import ENGLISH, language_of
from recollect_server.text.prose import prose_of
from recollect_server.text.text import UNSPACED_RUN, is_question
from recollect_server.text.topics import content_words, fitting

_LENGTH = 0.85  # power of its length that a sentence's weight is divided by
_ASKED = 2.0  # factor for the user's own words
_LEANING = 0.5  # factor for a sentence that refers to one that is left out
_COVERED = 0.15  # a word's weight once a chosen sentence has it
_MAX_SENTENCES = 1200  # of a longer conversation every second one is looked at, or fewer
_NAME = 1.6  # how much more a name or a figure weighs
_ANYWHERE = 0.3  # what a word weighs that is said in conversations about anything
_REQUESTED = (
    6.0  # score of a request in the first message; in the second a quarter of it, and so on
)
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


def _go_on() -> None:
    """Do nothing: no other work wants the processor."""


class Extractive:
    """A LanguageModel that is a rule. `breathe` is called often while it works: it may let others
    go first.
    """

    name = writer = "extractive"
    model = ""

    def __init__(self, breathe: Callable[[], None] = _go_on) -> None:
        self._breathe = breathe

    def write_notes(
        self,
        messages: Sequence[Message],
        earlier: str,  # noqa: ARG002
        labels: Sequence[tuple[str, int]] = (),
    ) -> Notes:
        """Return the notes of a conversation. Never raises."""
        sentences = self._sentences(messages)
        language = language_of(message.content for message in spoken(messages))
        speakers = {word for message in messages for word in topical(message.sender)}
        little = {
            word
            for sentence in sentences
            for word in sentence.words
            if word in speakers or says_little(word, language)
        }
        weights = weigh(sentences, language)
        phrases = phrases_of(sentences, speakers, language)
        topics = topics_of(phrases, sum(len(it.text) for it in sentences))
        # the pieces of a Chinese text are seldom words: its title is of a sentence
        subjects = [] if language == "zh" else subjects_of(phrases)
        title, source = title_in(sentences, subjects, language)
        abbreviation = self._abbreviated(messages, sentences, weights, little, source)
        if not abbreviation:  # small talk, or a text without words
            texts = [" ".join(prose_of(it.content)) or it.content for it in messages]
            abbreviation = clipped(" ".join(" ".join(texts).split()), MAX_ABBREVIATION // 2)
        counts = Counter(word for sentence in sentences for word in sentence.words)
        draft = Notes(
            abbreviation or "Nothing was said in words.",
            title or opening_title(messages, language),
            (*fitting(labels, counts), *topics),
        )
        return notes_of(draft, [message.sequence for message in messages], language)

    def condense(self, messages: Sequence[Message], earlier: str, most: int = MAX_SUMMARY) -> str:
        """Return the summary. Never raises."""
        summary_before, tools = parted(earlier)
        tools.update(called_in(messages))
        used = listed(tools, most)
        room = most - estimate_tokens(used) - 2
        summary = condensed(messages, summary_before, room, self._breathe)
        return "\n".join(part for part in (summary, used) if part)

    def take_use(self) -> None:
        """Return None: a rule calls no API."""

    def close(self) -> None:
        """Return at once: there is nothing to wait for."""

    def _sentences(self, messages: Sequence[Message]) -> list[Sentence]:
        sentences: list[Sentence] = []
        for sentence in sentences_of(messages):
            self._breathe()
            sentences.append(sentence)
        return sentences[-1 :: -(len(sentences) // _MAX_SENTENCES + 1)][::-1]

    def _abbreviated(
        self,
        messages: Sequence[Message],
        sentences: list[Sentence],
        weights: dict[str, float],
        little: Collection[str],
        subject: Sentence | None,
    ) -> str:
        """Return sentences with their speakers: `subject`, how it began and ended, what is open,
        and those that add most weight of words for their length, one after the other.
        """
        whole = [it for it in sentences if it.whole]
        usable = whole if len(whole) > 2 else sentences
        telling = [it for it in usable if sum(word not in little for word in it.words) > 1]
        if len(telling) > 2:  # what people say to each other besides is small talk
            usable = [it for it in usable if not it.speaker or it in telling]
        last = len(spoken(messages)) - 1
        # A question at the very end has no answer yet.
        open_question = next(
            (
                it
                for it in reversed(usable[-2:])
                if it.message == last
                and is_question(it.text)
                and not CHATTER_QUESTION.search(it.text)
            ),
            None,
        )
        opening = next((it for it in usable if it.role is Role.USER), None)
        decided = (
            it for it in reversed(usable) if it.role is Role.USER and not is_question(it.text)
        )
        decision = next(decided, None)
        answers = [it for it in telling if it.role is not Role.USER]
        outcome = next((it for it in answers if it.message == answers[-1].message), None)
        theirs = {word for it in usable if it.role is Role.USER for word in it.words}
        weights = {word: it * (_ASKED if word in theirs else 1) for word, it in weights.items()}
        sizes = {it.order: estimate_tokens(it.text) + 1 for it in usable}
        chosen: dict[int, Sentence] = {}
        text = ""

        def gain(sentence: Sentence) -> float:
            leans = sentence.leans and sentence.order - 1 not in chosen
            worth = sentence.worth * (_LEANING if leans else 1)
            new = sum(weights[word] for word in sentence.words)
            return float(worth * new / (sizes[sentence.order] + 6) ** _LENGTH)

        fixed = [
            it
            for it in dict.fromkeys((subject, opening, open_question, decision, outcome))
            if it in usable and sizes[it.order] < MAX_ABBREVIATION // 3
        ]
        left = usable
        while left:
            self._breathe()
            sentence = fixed.pop(0) if fixed else max(left, key=gain)
            more = sorted([*chosen.values(), sentence], key=lambda it: it.order)
            if estimate_tokens(longer := narrated(more, open_question)) <= MAX_ABBREVIATION:
                chosen[sentence.order], text = sentence, longer
                for word in sentence.words:
                    weights[word] *= _COVERED
            room = MAX_ABBREVIATION - estimate_tokens(text)
            left = [it for it in left if it is not sentence and sizes[it.order] <= room]
        return text


def narrated(sentences: Sequence[Sentence], open_question: Sentence | None) -> str:
    """Return sentences as a text that says who said each, and what is open."""
    parts: list[str] = []
    before = ""
    for sentence in sentences:
        speaker = sentence.speaker or ("User" if sentence.role is Role.USER else "Agent")
        speaker += " (open)" if sentence is open_question else ""
        if speaker != before:
            parts.append(f"{speaker}:")
        before = speaker
        parts.append(ended(sentence.text))
    return " ".join(parts)


def weigh(sentences: Sequence[Sentence], language: str = ENGLISH) -> dict[str, float]:
    counts = Counter(word for sentence in sentences for word in sentence.words)
    names = {name.lower() for sentence in sentences for name in sentence.names}
    return {
        word: (1 + log(count))
        * (_NAME if word in names else 1)
        * min(1.3, 0.6 + len(word) / 12)
        * (_ANYWHERE if says_little(word, language) else 1)
        for word, count in counts.items()
    }


def opening_title(messages: Sequence[Message], language: str) -> str:
    """Return the name by which a conversation without a title is shown, as a title."""
    best, name = -1, ""
    for message in messages:
        rank, words = request_of(message, best)
        best, name = (rank, words) if words else (best, name)
    return title_of(cut(name.rstrip("…")) or name, language) or "Small Talk"


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
        score = _REQUESTED / (1 + sentence.message) ** 2
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
