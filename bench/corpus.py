"""A made-up corpus of any size, the same for the same seed: conversations with the word statistics
of real ones, and questions.

Words are drawn by a Zipf-Mandelbrot law: English stop words first, as in any English text, then
some verbs of the questions, then made-up words. Every conversation has some words of its own that
it comes back to, as real ones do.

`python -m bench.corpus --messages 100000 --data-dir DIR` writes one.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import grpc
import numpy as np
from numpy.typing import NDArray
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import message_pb2
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect_server.kernel.domain.conversation import Began
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.lines import Entry, Stamp, encode, tag_of
from recollect_server.text.languages import STOP_WORDS

VOCABULARY = 200_000
SHIFT = 2.7  # Mandelbrot's: flattens the head as real text does
OWN_WORDS = 30  # of a conversation
OWN_SHARE = 0.15  # of its words are of those
# bands of the vocabulary, by rank
COMMON, MID, RARE = (200, 1_000), (1_000, 10_000), (10_000, 100_000)
_BEGIN = 1_750_000_000_000  # when the first conversation began
_MINUTE = 60_000
_VERBS = [
    "say",
    "told",
    "remember",
    "tell",
    "ask",
    "choose",
    "need",
    "think",
    "find",
    "use",
    "make",
    "want",
    "go",
    "see",
    "look",
]
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

# Each names the bands that its words are drawn from.
_QUESTIONS: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = (
    ("what did we say about {} and {} when {} was there?", (MID, MID, RARE)),
    ("do you remember the {} that I told you about, with the {} and the {}?", (COMMON, MID, MID)),
    ("when did I ask you to find a {} for {}?", (MID, RARE)),
    ("which {} did we choose for the {} {}, and why?", (COMMON, COMMON, MID)),
)


@dataclass(frozen=True, slots=True)
class Made:
    """A made-up conversation: its messages' words, the user's first and then in turn."""

    number: int
    texts: list[str]


@dataclass(frozen=True)
class Corpus:
    """So many messages, in conversations of some `per_conversation`."""

    messages: int
    per_conversation: int = 20
    words_per_message: int = 80
    seed: int = 1

    def __iter__(self) -> Iterator[Made]:
        """Return the conversations."""
        left, number = self.messages, 0
        while left > 0:
            made = self.conversation(number, left)
            yield made
            left -= len(made.texts)
            number += 1

    def conversation(self, number: int, most: int = 1 << 30) -> Made:
        """Return one conversation, independent of all others, of at most `most` messages."""
        randomness = np.random.default_rng((self.seed, number))
        count = min(
            most,
            int(
                randomness.integers(self.per_conversation // 2, self.per_conversation * 3 // 2 + 1)
            ),
        )
        lengths = np.clip(
            randomness.lognormal(np.log(self.words_per_message) - 0.32, 0.8, count), 3, 1000
        ).astype(int)
        drawn = self._draw(randomness, int(lengths.sum()))
        own = _within(randomness, MID[0], RARE[1], OWN_WORDS)
        from_own = randomness.random(len(drawn)) < OWN_SHARE
        drawn[from_own] = own[randomness.integers(0, len(own), int(from_own.sum()))]
        words = self.vocabulary
        ends = np.cumsum(lengths).tolist()
        ranks = drawn.tolist()
        return Made(
            number,
            [
                " ".join([words[rank] for rank in ranks[a:b]])
                for a, b in zip([0, *ends], ends, strict=False)
            ],
        )

    def questions(self, count: int) -> list[str]:
        """Return questions with stop words, each with words of one conversation of the corpus."""
        randomness = np.random.default_rng((self.seed, 1 << 32))
        made = []
        for index in range(count):
            about = self.conversation(
                int(randomness.integers(0, max(1, self.messages // (2 * self.per_conversation))))
            )
            ranks = np.unique([self._rank[word] for text in about.texts for word in text.split()])
            form, bands = _QUESTIONS[index % len(_QUESTIONS)]
            chosen = []
            for low, high in bands:
                there = ranks[(ranks >= low) & (ranks < high)]
                chosen.append(
                    self.vocabulary[
                        int(randomness.choice(there if len(there) else np.arange(low, high)))
                    ]
                )
            made.append(form.format(*chosen))
        return made

    @cached_property
    def vocabulary(self) -> list[str]:
        """The words, the most frequent first."""
        words = dict.fromkeys([*sorted(STOP_WORDS, key=lambda word: (len(word), word)), *_VERBS])
        syllables = [first + second for first in _CONSONANTS for second in _VOWELS]
        number = 0
        while len(words) < VOCABULARY:
            # Multiplied by a number that has no factor in common with theirs, the syllables come in
            # no order that is seen.
            code, word = number * 7_919 % len(syllables) ** 3, ""
            for _ in range(3):
                code, syllable = divmod(code, len(syllables))
                word += syllables[syllable]
            words.setdefault(word + _CONSONANTS[number % len(_CONSONANTS)])
            number += 1
        return list(words)

    @cached_property
    def _rank(self) -> dict[str, int]:
        return {word: rank for rank, word in enumerate(self.vocabulary)}

    @cached_property
    def _shares(self) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = np.cumsum(1 / (np.arange(VOCABULARY) + SHIFT))
        weights /= weights[-1]
        return weights

    def _draw(self, randomness: np.random.Generator, count: int) -> NDArray[np.int64]:
        return np.searchsorted(self._shares, randomness.random(count)).astype(np.int64)


def _within(randomness: np.random.Generator, low: int, high: int, count: int) -> NDArray[np.int64]:
    """Return random ranks whose logarithm is uniform, so that low ones are more frequent."""
    return np.exp(randomness.uniform(np.log(low), np.log(high), count)).astype(np.int64)


def write_through_api(target: str, corpus: Corpus) -> list[str]:
    """Write a corpus as a client does, a conversation an append. Returns the conversations' ids."""
    ids = []
    with grpc.insecure_channel(target) as channel:
        stub = ConversationServiceStub(channel)
        for made in corpus:
            ids.append(stub.Create(api.CreateRequest(channel="web")).conversation.id)
            messages = [
                message_pb2.Message(
                    role=message_pb2.ROLE_ASSISTANT if index % 2 else message_pb2.ROLE_USER,
                    content=text,
                )
                for index, text in enumerate(made.texts)
            ]
            stub.AppendTurn(api.AppendTurnRequest(conversation_id=ids[-1], messages=messages))
    return ids


def write_transcripts(data_dir: Path, corpus: Corpus) -> list[str]:
    """Write a corpus as the transcripts of a data folder, for a server to index when it starts.
    Returns the ids.
    """
    return [write_conversation(data_dir, made) for made in corpus]


def write_conversation(data_dir: Path, made: Made) -> str:
    """Write the transcript of one conversation. Returns its id."""
    folder = FolderStore(data_dir / "default" / "conversations")
    folder.create()
    name = conversation_id(made.number)
    folder.path(name).write_bytes(marked(name, _entries(name, made)))
    return name


def marked(name: str, entries: Iterable[Entry]) -> bytes:
    """Return the lines of a log as a server writes them, each with its mark: of a log whose lines
    have none a server reads the first one too, at each reading.
    """
    tag = tag_of(name)
    return b"".join(encode(entry, f"{line}{tag}") for line, entry in enumerate(entries, 1))


def conversation_id(number: int) -> str:
    """Return the id of a made-up conversation."""
    digits = ""
    for _ in range(25):
        number, digit = divmod(number, 32)
        digits = _CROCKFORD[digit] + digits
    return f"conv-0{digits}"


def _entries(name: str, made: Made) -> Iterator[Entry]:
    began = _BEGIN + made.number * 60 * _MINUTE
    yield Entry(Began(name, "web", began, ("user",)))
    for index, text in enumerate(made.texts):
        role = Role.ASSISTANT if index % 2 else Role.USER
        message = Message(role, text, began + index * _MINUTE, turn_number=index // 2 + 1)
        # a turn is a batch: a question and its answer
        size = min(2, len(made.texts) - index + index % 2)
        yield Entry(message, Stamp(batch=(index % 2 + 1, size)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a corpus and print what it is like."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="an empty folder; a server that starts over it indexes the corpus",
    )
    parser.add_argument("--target", help="a running server to write it to instead")
    chosen = parser.parse_args(arguments)
    if (chosen.data_dir is None) == (chosen.target is None):
        parser.error("one of --data-dir and --target is needed")
    corpus = Corpus(chosen.messages)
    ids = (
        write_through_api(chosen.target, corpus)
        if chosen.target
        else write_transcripts(chosen.data_dir, corpus)
    )
    print(
        f"{chosen.messages} messages in {len(ids)} conversations; questions as: {corpus.questions(1)[0]}"
    )


if __name__ == "__main__":
    main()
