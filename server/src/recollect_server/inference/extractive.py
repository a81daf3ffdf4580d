"""Writes notes without any model: the sentences that tell most, and the words they leave out.

Sentences are chosen one after the other, each time the one that adds the most weight of words not told yet for its length. A word
weighs by how often it is said (damped), a name or a figure more; cues and the place of a sentence scale its sum (see `sentences`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import log, sqrt

from recollect_server.domain.budget import estimate_tokens
from recollect_server.domain.message import Message
from recollect_server.domain.notes import MAX_ABBREVIATION, MAX_SUMMARY, MAX_TOPICS, Notes, clipped, notes_of, title_of
from recollect_server.domain.topics import fitting, telling
from recollect_server.inference.sentences import Sentence, sentences_of, topical
from recollect_server.inference.statements import anchors_in
from recollect_server.inference.tools import LIST, called_in, listed, parted

_SENTENCES_SHARE = 0.75  # of the abbreviation's tokens; what is left names words that no sentence has
_TOLD = 0.15  # what a word still weighs once a sentence has told it
_BLOCK, _BLOCK_KEEPS = 600, 60  # sentences of a long conversation that are looked at together, and how many of them go on
_MAX_SENTENCES = 1200
_NAME = 1.6  # how much more a name or a figure weighs


def _go_on() -> None:
    """Nobody else wants the processor."""


class Extractive:
    """A LanguageModel that is a rule. `breathe` is called often while it works: it may let others go first."""

    name = writer = "extractive"
    model = ""

    def __init__(self, breathe: Callable[[], None] = _go_on) -> None:
        self._breathe = breathe

    def write_notes(self, said: Sequence[Message], earlier: str, labels: Sequence[tuple[str, int]] = ()) -> Notes:  # noqa: ARG002
        """The notes of a conversation. Never raises."""
        sentences = self._sentences(said)
        weights = weigh(sentences)
        speakers = {word for message in said for word in topical(message.sender)}
        title, topics = titled(sentences, weights, speakers)
        abbreviation = self._told(sentences, weights, MAX_ABBREVIATION, _SENTENCES_SHARE)
        if not abbreviation:  # small talk, or none of the words that were said are words
            abbreviation = clipped(" ".join(" ".join(message.content for message in said).split()), MAX_ABBREVIATION // 2)
        spoken = Counter(word for sentence in sentences for word in topical(sentence.text))
        topics = (*fitting(labels, spoken), *telling(topics, spoken))
        draft = Notes(abbreviation or "Nothing was said in words.", title or title_of(_short_title(said)), topics, anchors_in(said))
        return notes_of(draft, [message.sequence for message in said])

    def condense(self, said: Sequence[Message], earlier: str) -> str:
        """The summary. Never raises."""
        known, tools = parted(earlier)
        tools.update(called_in(said))
        used = listed(tools)
        # What was known before has as much right to stay as all that is new.
        known = clipped(known, MAX_SUMMARY // 2)
        # Nobody who talks writes the list of tools.
        sentences = [sentence for sentence in self._sentences(said) if LIST not in sentence.text]
        room = MAX_SUMMARY - estimate_tokens(known) - estimate_tokens(used) - 2
        told = self._told(sentences, weigh(sentences), room, 1.0)
        return " ".join(part for part in (known, told, used) if part)

    def close(self) -> None:
        """Waits for nothing."""

    def _sentences(self, said: Sequence[Message]) -> list[Sentence]:
        sentences: list[Sentence] = []
        for sentence in sentences_of(said):
            self._breathe()
            sentences.append(sentence)
        while len(sentences) > _MAX_SENTENCES:
            kept: list[Sentence] = []
            for start in range(0, len(sentences), _BLOCK):
                block = sentences[start : start + _BLOCK]
                kept += self._choose(block, weigh(block), MAX_SUMMARY * 8, _BLOCK_KEEPS)
            sentences = kept
        return sentences

    def _told(self, sentences: list[Sentence], weights: dict[str, float], tokens: int, share: float) -> str:
        chosen = self._choose(sentences, weights, int(tokens * share))
        text = " ".join(sentence.text for sentence in chosen)
        if share < 1 and sentences:
            told = {word for sentence in chosen for word in sentence.words}
            left = [word for word in sorted(weights, key=lambda word: -weights[word]) if word not in told]
            spelt = {name.lower(): name for sentence in sentences for name in sentence.names}
            room = tokens - estimate_tokens(text) - 4
            also: list[str] = []
            for word in left[:60]:
                room -= estimate_tokens(word) + 1
                if room < 0:
                    break
                also.append(spelt.get(word, word))
            if also and chosen:
                text += f" Also: {', '.join(also)}."
        return text

    def _choose(self, sentences: list[Sentence], weights: dict[str, float], tokens: int, most: int = 1 << 30) -> list[Sentence]:
        """The sentences that tell most within so many tokens, in their order."""
        weights = dict(weights)
        left = [(sentence, estimate_tokens(sentence.text) + 1) for sentence in sentences]
        chosen: list[Sentence] = []
        while left and len(chosen) < most:
            self._breathe()
            left = [(sentence, size) for sentence, size in left if size <= tokens]
            if not left:
                break
            best, size = max(left, key=lambda it: it[0].worth * sum(weights[word] for word in it[0].words) / sqrt(it[1] + 6))
            tokens -= size
            chosen.append(best)
            left = [it for it in left if it[0] is not best]
            for word in best.words:
                weights[word] *= _TOLD
        return sorted(chosen, key=lambda sentence: sentence.order)


def weigh(sentences: list[Sentence]) -> dict[str, float]:
    """How much each word tells."""
    counts = Counter(word for sentence in sentences for word in sentence.words)
    names = {name.lower() for sentence in sentences for name in sentence.names}
    return {
        word: (1 + log(count)) * (_NAME if word in names else 1) * min(1.3, 0.6 + len(word) / 12) for word, count in counts.items()
    }


def titled(sentences: list[Sentence], weights: dict[str, float], speakers: set[str]) -> tuple[str, tuple[str, ...]]:
    """A title (empty if none can be made) and topics, from the words and the pairs of words that are said most.

    Who speaks is no topic.
    """
    pairs: Counter[str] = Counter()
    words: Counter[str] = Counter()
    spelt: dict[str, str] = {}
    for sentence in sentences:
        said = [word for word in topical(sentence.text) if word not in speakers and not word.isdigit()]
        words.update(set(said))
        spelt |= {name.lower(): name for name in sentence.names}
        low = sentence.text.lower()
        # Neighbours in the text too, not only once the small words between them are left out.
        pairs.update({f"{one} {other}" for one, other in pairwise(said) if one != other and f"{one} {other}" in low})
    scores = {word: count * weights.get(word, 0) for word, count in words.items()}
    scores |= {pair: 2.2 * n * max(weights.get(w, 0) for w in pair.split()) for pair, n in pairs.items() if n > 1}
    ranked: list[str] = []
    for phrase in sorted(scores, key=lambda phrase: -scores[phrase]):
        if not any(word in other.split() for other in ranked for word in phrase.split()):
            ranked.append(phrase)
        if len(ranked) == MAX_TOPICS:
            break
    shown = [" ".join(spelt.get(word, word) for word in phrase.split()) for phrase in ranked]
    title = ""
    if len(shown) > 1:
        title = title_of(f"{shown[0]} and {shown[1]}" if len(shown) == 2 else f"{shown[0]}, {shown[1]} and {shown[2]}")
        title = title or title_of(f"{shown[0]} and {shown[1]}")
    return title or title_of(" ".join(shown[:1])), tuple(ranked)


def _short_title(said: Sequence[Message]) -> str:
    words = [word for message in said for word in message.content[:200].split()][:4]
    return title_of(" ".join(words)) or "Small Talk"
