"""Writes notes without any model: the sentences that tell most, and the words they leave out.

Sentences are chosen one after the other, each time the one that adds the most weight of words not
covered yet for its length. A word weighs by how often it is said (damped), a name or a figure more;
cues and the place of a sentence scale its sum (see `sentences`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import log

from recollect_server.kernel.domain.budget import estimate_tokens
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.notes.notes import (
    MAX_ABBREVIATION,
    MAX_SUMMARY,
    Notes,
    clipped,
    notes_of,
    title_of,
)
from recollect_server.notes.offline.condensing import condensed
from recollect_server.notes.offline.nouns import nouns_of
from recollect_server.notes.offline.phrases import CHATTER_QUESTION
from recollect_server.notes.offline.sentences import (
    Sentence,
    ended,
    says_little,
    sentences_of,
    split,
    spoken,
    topical,
)
from recollect_server.notes.offline.titles import cut, title_in
from recollect_server.notes.offline.tools import called_in, listed, parted
from recollect_server.text.languages import ENGLISH, language_of
from recollect_server.text.prose import prose_of
from recollect_server.text.text import is_question
from recollect_server.text.topics import fitting

_LENGTH = 0.85  # power of its length that a sentence's weight is divided by
_ASKED = 2.0  # factor for the user's own words
_DENIES = 0.25  # what it adds to the worth of a sentence that the user refuses or takes back what was said just before
_LEANING = 0.5  # factor for a sentence that refers to one that is left out
_COVERED = 0.15  # a word's weight once a chosen sentence has it
# sentences of a long conversation that are looked at together, and how many of them go on
_BLOCK, _BLOCK_KEEPS = 600, 60
_MAX_SENTENCES = 1200
_NAME = 1.6  # how much more a name or a figure weighs
_ANYWHERE = 0.3  # what a word weighs that is said in conversations about anything


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
        weights = weigh(sentences, language)
        speakers = {word for message in messages for word in topical(message.sender)}
        topics = nouns_of(sentences, speakers, language)
        title, source = title_in(sentences, weights, language)
        abbreviation = self._abbreviated(messages, sentences, weights, source)
        if not abbreviation:  # small talk, or a text without words
            texts = [" ".join(prose_of(it.content)) or it.content for it in messages]
            abbreviation = clipped(" ".join(" ".join(texts).split()), MAX_ABBREVIATION // 2)
        counts = Counter(word for sentence in sentences for word in sentence.words)
        draft = Notes(
            abbreviation or "Nothing was said in words.",
            title or title_of(" ".join(topics[:3]), language) or opening_title(messages, language),
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
        whole = [it for it in sentences if it.whole]
        usable = [
            replace(it, worth=it.worth + _DENIES) if it.denies else it
            for it in (whole if len(whole) > 2 else sentences)
        ]
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
        answer = next((it for it in usable if it.role is not Role.USER), None)
        fixed = [
            it
            for it in dict.fromkeys(
                (subject, opening, open_question, answer if last == 1 else None)
            )
            if it and it in usable and estimate_tokens(it.text) < MAX_ABBREVIATION // 3
        ]
        theirs = {word for it in usable if it.role is Role.USER for word in it.words}
        weights = {word: it * (_ASKED if word in theirs else 1) for word, it in weights.items()}
        chosen: list[Sentence] = []
        text = ""
        # More than there is room for: of those that follow, a shorter one may fit where a longer
        # one did not.
        for sentence in self._choose(usable, weights, MAX_ABBREVIATION * 5 // 4, fixed=fixed):
            more = in_order([*chosen, sentence])
            if estimate_tokens(longer := narrated(more, open_question)) <= MAX_ABBREVIATION:
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
    """Return a title from the first words that anybody said, for a conversation of small talk."""
    theirs = [message for message in messages if message.role is Role.USER] or messages
    texts = [text for message in theirs for text in split(message.content[:400])]
    words = [word for message in theirs for word in message.content[:200].split()][:4]
    titles = (title_of(cut(text, language), language) for text in [*texts, " ".join(words)])
    return next(filter(None, titles), "Small Talk")
