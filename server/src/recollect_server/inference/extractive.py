"""Writes notes without any model: the sentences that tell most, and the words they leave out.

Sentences are chosen one after the other, each time the one that adds the most weight of words not
covered yet for its length. A word weighs by how often it is said (damped), a name or a figure more;
cues and the place of a sentence scale its sum (see `sentences`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import log

from recollect_server.domain.budget import estimate_tokens
from recollect_server.domain.languages import ENGLISH, language_of
from recollect_server.domain.message import Message, Role
from recollect_server.domain.notes import (
    MAX_ABBREVIATION,
    MAX_SUMMARY,
    MAX_TOPICS,
    Notes,
    clipped,
    notes_of,
)
from recollect_server.domain.topics import fitting, stems, telling
from recollect_server.inference.condensing import condensed
from recollect_server.inference.headlines import headline, opening_title
from recollect_server.inference.phrases import CHATTER_QUESTION, NEGATION, Phrases, phrases_of
from recollect_server.inference.sentences import (
    Sentence,
    asks,
    ended,
    is_question,
    sentences_of,
    spoken,
    topical,
)
from recollect_server.inference.statements import anchors_in
from recollect_server.inference.subjects import subjects_of
from recollect_server.inference.tools import called_in, listed, parted

_LENGTH = 0.85  # power of its length that a sentence's weight is divided by
_ASKED = 2.0  # factor for the user's own words
_DECIDES = 0.4  # what a decision adds to the worth of its sentence
_DENIES = 0.25  # what it adds that the user refuses or takes back what was said just before
_LEANING = 0.5  # factor for a sentence that refers to one that is left out
_COVERED = 0.15  # a word's weight once a chosen sentence has it
# sentences of a long conversation that are looked at together, and how many of them go on
_BLOCK, _BLOCK_KEEPS = 600, 60
_MAX_SENTENCES = 1200
_NAME = 1.6  # how much more a name or a figure weighs


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
        weights = weigh(sentences)
        speakers = {word for message in messages for word in topical(message.sender)}
        language = language_of(message.content for message in spoken(messages))
        subjects: tuple[str, ...] = ()
        if language == ENGLISH:
            often = Counter(word for sentence in sentences for word in topical(sentence.text))
            topics = tuple(telling(topics_of(sentences, weights, speakers, language), often))
        else:
            topics, often = subjects_of(sentences, speakers, language)
            subjects = topics
        title, source = headline(messages, sentences, subjects)
        abbreviation = self._abbreviated(messages, sentences, weights, source)
        if not abbreviation:  # small talk, or a text without words
            abbreviation = clipped(
                " ".join(" ".join(message.content for message in messages).split()),
                MAX_ABBREVIATION // 2,
            )
        topics = (*fitting(labels, often), *topics)
        draft = Notes(
            abbreviation or "Nothing was said in words.",
            title or opening_title(messages),
            topics,
            anchors_in(messages),
        )
        return notes_of(draft, [message.sequence for message in messages], language)

    def condense(self, messages: Sequence[Message], earlier: str) -> str:
        """Return the summary. Never raises."""
        summary_before, tools = parted(earlier)
        tools.update(called_in(messages))
        used = listed(tools)
        summary = condensed(
            messages, summary_before, MAX_SUMMARY - estimate_tokens(used) - 2, self._breathe
        )
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
        while len(sentences) > _MAX_SENTENCES:
            best: list[Sentence] = []
            for start in range(0, len(sentences), _BLOCK):
                block = sentences[start : start + _BLOCK]
                best += in_order(self._choose(block, weigh(block), MAX_SUMMARY * 8, _BLOCK_KEEPS))
            sentences = best
        return sentences

    def _abbreviated(
        self,
        messages: Sequence[Message],
        sentences: list[Sentence],
        weights: dict[str, float],
        subject: Sentence | None,
    ) -> str:
        """Return sentences with their speakers: `subject`, what is open at the end, and those that
        tell most beside them.
        """
        phrases = phrases_of(language_of(message.content for message in spoken(messages)))
        whole = [it for it in sentences if it.whole]
        usable = [
            replace(it, worth=it.worth + extra) if (extra := _extra(it, phrases)) else it
            for it in (whole if len(whole) > 2 else sentences)
        ]
        last = len(spoken(messages)) - 1
        # A question at the very end has no answer yet.
        asked_last = [it for it in usable[-2:] if it.message == last and asks(it.text)]
        open_question = next(
            (it for it in reversed(asked_last) if not CHATTER_QUESTION.search(it.text)), None
        )
        # "why does this not work", before code: hardly a word of it weighs anything
        lead = next((it for it in usable[:1] if it.message == 0 and len(it.words) < 2), None)
        orders = {
            it.order
            for it in (lead, subject, open_question)
            if it and estimate_tokens(it.text) < MAX_ABBREVIATION // 3
        }
        question_words = {word for it in usable if it.role is Role.USER for word in it.words}
        weights = {
            word: weight * (_ASKED if word in question_words else 1)
            for word, weight in weights.items()
        }
        chosen: list[Sentence] = []
        text = ""
        # More than there is room for: of those that follow, a shorter one may fit where a longer
        # one did not.
        for sentence in self._choose(
            usable,
            weights,
            MAX_ABBREVIATION * 5 // 4,
            fixed=[it for it in usable if it.order in orders],
        ):
            more = in_order([*chosen, sentence])
            if (
                estimate_tokens(longer := narrated(more, phrases, open_question))
                <= MAX_ABBREVIATION
            ):
                chosen, text = more, longer
        return text

    def _choose(
        self,
        sentences: list[Sentence],
        weights: dict[str, float],
        tokens: int,
        most: int = 1 << 30,
        *,
        fixed: Sequence[Sentence] = (),
    ) -> list[Sentence]:
        """Return `fixed` and the sentences that tell most beside them within so many tokens, the
        best first.
        """
        weights = dict(weights)
        chosen: list[Sentence] = []
        orders: set[int] = set()

        def gain(sentence: Sentence, size: int) -> float:
            leans = sentence.leans and sentence.order - 1 not in orders
            new = sum(weights[word] for word in sentence.words)
            return float((_LEANING if leans else 1) * sentence.worth * new / (size + 6) ** _LENGTH)

        def take(sentence: Sentence) -> None:
            chosen.append(sentence)
            orders.add(sentence.order)
            for word in sentence.words:
                weights[word] *= _COVERED

        for sentence in reversed(fixed):
            tokens -= estimate_tokens(sentence.text) + 1
            take(sentence)
        # What a sentence adds only shrinks while others are chosen, so one whose gain is still the
        # highest is the best of all. But one that refers to the sentence before it gains when that
        # is chosen: it is then put in anew.
        sized = {
            sentence.order: (sentence, estimate_tokens(sentence.text) + 1) for sentence in sentences
        }
        heap = [(-gain(sentence, size), order) for order, (sentence, size) in sized.items()]
        heapify(heap)
        while heap and len(chosen) < most:
            self._breathe()
            before, order = heappop(heap)
            sentence, size = sized[order]
            if size > tokens or order in orders:
                continue
            now = -gain(sentence, size)
            if now > before and heap and now > heap[0][0]:
                heappush(heap, (now, order))
                continue
            tokens -= size
            take(sentence)
            if (follows := sized.get(order + 1)) and follows[0].leans:
                heappush(heap, (-gain(*follows), order + 1))
        return chosen


def in_order(sentences: list[Sentence]) -> list[Sentence]:
    """Return sentences in the order in which they were said."""
    return sorted(sentences, key=lambda sentence: sentence.order)


def narrated(
    sentences: Sequence[Sentence], phrases: Phrases, open_question: Sentence | None
) -> str:
    """Return sentences as a text that says who said each, what was decided and what is open."""
    parts: list[str] = []
    before: tuple[str, str] | None = None
    for sentence in sentences:
        speaker = sentence.speaker or ("User" if sentence.role is Role.USER else "Agent")
        if sentence is open_question:
            cue = " (open)"
        elif decides(sentence, phrases):
            cue = " (decided)"
        else:
            cue = ""
        if (speaker, cue) != before:
            parts.append(f"{speaker}{cue}:")
        before = (speaker, cue)
        parts.append(ended(sentence.text))
    return " ".join(parts)


def decides(sentence: Sentence, phrases: Phrases) -> bool:
    """Return whether the user, or somebody whose name is known, says that something is decided."""
    if (sentence.role is not Role.USER and not sentence.speaker) or is_question(sentence.text):
        return False
    match = phrases.decision.search(sentence.text)
    return match is not None and not NEGATION.search(
        sentence.text[max(0, match.start() - 20) : match.end() + 10]
    )


def _extra(sentence: Sentence, phrases: Phrases) -> float:
    """Return what a decision and a denial add to the worth of a sentence."""
    return _DECIDES * decides(sentence, phrases) + _DENIES * sentence.denies


def weigh(sentences: list[Sentence]) -> dict[str, float]:
    """Return the weight of each word."""
    counts = Counter(word for sentence in sentences for word in sentence.words)
    names = {name.lower() for sentence in sentences for name in sentence.names}
    return {
        word: (1 + log(count)) * (_NAME if word in names else 1) * min(1.3, 0.6 + len(word) / 12)
        for word, count in counts.items()
    }


def topics_of(
    sentences: list[Sentence], weights: dict[str, float], speakers: set[str], language: str
) -> tuple[str, ...]:
    """Return the topics: the most frequent words and pairs of words, without the speakers'
    names.
    """
    pairs: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for sentence in sentences:
        runs = [
            word
            for word in topical(sentence.text, language)
            if word not in speakers and not word.isdigit()
        ]
        # Not a set: of equal scores the first word comes first, in every process.
        words.update(list(dict.fromkeys(runs)))
        low = sentence.text.lower()
        # Neighbours in the text too, not only once the small words between them are left out.
        pairs.update(
            list(
                dict.fromkeys(
                    f"{one} {other}"
                    for one, other in pairwise(runs)
                    if one != other and f"{one} {other}" in low
                )
            )
        )
    scores = {word: count * weights.get(word, 0) for word, count in words.items()}
    scores |= {
        pair: 2.2 * n * max(weights.get(w, 0) for w in pair.split())
        for pair, n in pairs.items()
        if n > 1
    }
    ranked: list[str] = []
    ranked_words: set[str] = set()
    for phrase in sorted(scores, key=lambda phrase: -scores[phrase]):
        if ranked_words.isdisjoint(phrase_words := stems(phrase.replace(" ", "-"))):
            ranked_words |= phrase_words
            ranked.append(phrase)
        if len(ranked) == MAX_TOPICS:
            break
    return tuple(ranked)
