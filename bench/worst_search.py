"""Search at its worst: questions and filters that make it do the most work, in a history of which
one conversation holds half.

The history is made up (`bench.corpus`), the same one each time: Zipf's law, stop words, words that
conversations share, some Chinese, four channels, topics, abbreviations, and participants from one
who is in nearly every conversation to one who is in a single one. Each kind of question (common
words only, as many words as a query may have, characters, words that nobody said) is asked with
each filter. Prints p50, p99 and the slowest, by kind and by filter, how much of the server's
processor the dearest one took, and how many answers say that they were cut short (`degraded`). On a
machine with other work the processor's time is the one to read.

`python -m bench.worst_search [--messages 20000 200000] [--questions 4] [--rounds 1] [--words]
[--folder DIR] [--slowest 10] [--kinds TEXT]`
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import grpc
import numpy as np
from google.protobuf.timestamp_pb2 import Timestamp
from numpy.typing import NDArray
from recollect.v1 import recall_service_pb2 as api
from recollect.v1.recall_pb2 import DateRange
from recollect.v1.recall_service_pb2_grpc import RecallServiceStub
from recollect_server.kernel.domain.conversation import Abbreviated, Began, TitleAssigned
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.index.file import NAME
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.lines import Entry, Stamp
from recollect_server.recall.vectors.file import NAME as VECTORS
from recollect_server.text.languages import STOP_WORDS

from bench.corpus import Corpus, Made, conversation_id, marked
from bench.figures import Figure, Goal
from bench.search import LIMIT, until_whole
from bench.servers import recollect, resident_bytes
from bench.vectors import FLAGS, expect_nothing_embedded, made_up, model

_GOALS = {200_000: 150, 1_000_000: 300}  # milliseconds of the slowest, by the number of messages
_BEGIN = 1_600_000_000_000
_MINUTE = 60_000
_HOUR = 60 * _MINUTE
_GIANT_STEP = 10 * _MINUTE  # between two messages of the giant conversation
_CHANNELS = ("web", "whatsapp", "cli", "email")
_TOPICS = ("everything", "garden", "work", "rare")
_QUERY = 60_000  # characters of the longest question
_HAN = [chr(code) for code in range(0x4E00, 0x4E00 + 2_000)]


@dataclass(frozen=True)
class Lopsided(Corpus):
    """A corpus whose first conversation has half of all messages."""

    words_per_message: int = 60

    def __iter__(self) -> Iterator[Made]:
        """Return the conversations, the giant one first."""
        giant = self.messages // 2
        yield Made(0, self._with_han(0, self._texts(giant)))
        left, number = self.messages - giant, 1
        while left > 0:
            made = self.conversation(number, left)
            yield Made(number, self._with_han(number, made.texts))
            left -= len(made.texts)
            number += 1

    def _texts(self, count: int) -> list[str]:
        texts: list[str] = []
        part = 0
        while len(texts) < count:
            # numbers that no other conversation has
            texts += self.conversation((1 << 31) + part, count - len(texts)).texts
            part += 1
        return texts

    def _with_han(self, number: int, texts: list[str]) -> list[str]:
        """Return the texts, of which one in ten has a run of Chinese characters."""
        randomness = np.random.default_rng((self.seed, 7, number))
        chosen = np.flatnonzero(randomness.random(len(texts)) < 0.1)
        for at in chosen.tolist():
            texts[at] += " " + "".join(_han(randomness, 12))
        return texts


def _han(randomness: np.random.Generator, count: int) -> list[str]:
    """Return characters by a law like Zipf's."""
    ranks = np.exp(randomness.uniform(0, np.log(len(_HAN)), count)).astype(int) - 1
    return [_HAN[rank] for rank in ranks.tolist()]


def write(data_dir: Path, corpus: Lopsided) -> None:
    """Write the corpus as the transcripts of a data folder."""
    folder = FolderStore(data_dir / "default" / "conversations")
    folder.create()
    for made in corpus:
        name = conversation_id(made.number)
        folder.path(name).write_bytes(marked(name, _entries(name, made)))


def _entries(name: str, made: Made) -> Iterator[Entry]:
    number = made.number
    step = _MINUTE if number else _GIANT_STEP
    began = _BEGIN + number * 6 * _HOUR
    people = ["user", f"Person {number % 50}", *(["Everybody"] if number % 10 else [])]
    yield Entry(Began(name, _CHANNELS[number % 4 and number % 3], began, tuple(people)))
    for index, text in enumerate(made.texts):
        role = Role.ASSISTANT if index % 2 else Role.USER
        # a quiet night after every hundred messages
        moment = began + index * step + index // 100 * 8 * _HOUR
        message = Message(role, text, moment, turn_number=index // 2 + 1)
        size = min(2, len(made.texts) - index + index % 2)
        yield Entry(message, Stamp(batch=(index % 2 + 1, size)))
    topics = ("everything", _TOPICS[1 + number % 2], *(["rare"] if number % 100 == 0 else []))
    yield Entry(TitleAssigned(" ".join(made.texts[0].split()[:6]), topics, began + 1))
    notes = " ".join(word for text in made.texts[:6] for word in text.split()[:20])
    yield Entry(Abbreviated(notes, began + 2))


@dataclass(frozen=True, slots=True)
class Trial:
    """One search."""

    kind: str
    scope: str
    request: api.SearchRequest


def searches(corpus: Lopsided, count: int) -> list[Trial]:
    """Return `count` searches of every kind with every filter, and some with other options."""
    kinds, scopes = _kinds(corpus, count), _scopes(corpus)
    trials = []
    for (kind, queries), (scope, chosen) in product(kinds.items(), scopes.items()):
        for query in queries:
            request = api.SearchRequest(query=query, limit=LIMIT)
            request.MergeFrom(chosen)
            trials.append(Trial(kind, scope, request))
    for kind, queries in kinds.items():
        for query in queries[:2]:
            request = api.SearchRequest(query=query, limit=100, explain=True)
            trials.append(Trial(kind, "100 explained", request))
    return trials


def _kinds(corpus: Lopsided, count: int) -> dict[str, list[str]]:
    """Return the questions of each kind."""
    randomness = np.random.default_rng((corpus.seed, 11))
    words = corpus.vocabulary
    stops = [word for word in words[:300] if word in STOP_WORDS]
    common = [word for word in words[:400] if word not in STOP_WORDS]

    def some(of: Sequence[str], most: int) -> list[str]:
        return [" ".join(randomness.permutation(np.array(of))[:most]) for _ in range(count)]

    def long(of: Sequence[str]) -> list[str]:
        return [text[:_QUERY].rsplit(" ", 1)[0] for text in some(of, 12_000)]

    questions = corpus.questions(count)
    return {
        "ordinary": questions,
        "one common word": common[:count],
        "two common words": some(common[:20], 2),
        "five common words": some(common[:20], 5),
        "128 common words": some(common, 128),
        "stop words": some(stops, 8),
        "all stop words": some(stops, len(stops)),
        "common and one rare": [
            f"{text} {words[50_000 + at]}" for at, text in enumerate(some(common[:20], 6))
        ],
        "the longest query": long(words),
        "the longest of common words": long(words[:2_000]),
        "the longest of unknown words": long([f"x{at:05}q" for at in range(12_000)]),
        "letters": some([chr(code) for code in range(97, 123)], 26),
        "common character": _HAN[:count],
        "rare character": _HAN[-count:],
        "characters": [" ".join(_han(randomness, 30)) for _ in range(count)],
        "long run of characters": ["".join(_han(randomness, 20_000)) for _ in range(count)],
        "nothing": some(["zzyzzx", "qqwqqw", "xxyxxy", "wwvwwv"], 3),
        "dated": [
            f"what did we say about {text} on {day} June 2021"
            for day, text in enumerate(some(common[:20], 3), 10)
        ],
        "dated in a year": [f"what did we say about {text} in 2021" for text in some(common, 3)],
    }


def _scopes(corpus: Lopsided) -> dict[str, api.SearchRequest]:
    giant = _BEGIN + corpus.messages // 4 * _GIANT_STEP

    def of_dates(start: int, end: int) -> api.SearchRequest:
        return api.SearchRequest(date_range=DateRange(start=_time(start), end=_time(end)))

    return {
        "everything": api.SearchRequest(),
        "giant conversation": api.SearchRequest(conversation_id=conversation_id(0)),
        "small conversation": api.SearchRequest(conversation_id=conversation_id(77)),
        "participants": api.SearchRequest(participants=["Everybody"]),
        "few participants": api.SearchRequest(participants=["Person 7", "Person 9"]),
        "channel": api.SearchRequest(channel="web"),
        "topic": api.SearchRequest(topics=["everything"]),
        "rare topic": api.SearchRequest(topics=["rare"]),
        "all dates": of_dates(_BEGIN - 1, _BEGIN * 2),
        "half of all dates": of_dates(giant, _BEGIN * 2),
        "one day": of_dates(giant, giant + 24 * _HOUR),
        "giant conversation, dates": api.SearchRequest(
            conversation_id=conversation_id(0),
            date_range=DateRange(start=_time(giant), end=_time(_BEGIN * 2)),
        ),
        "no conversation": api.SearchRequest(channel="discord"),
    }


def _time(milliseconds: int) -> Timestamp:
    value = Timestamp()
    value.FromMilliseconds(milliseconds)
    return value


@dataclass(slots=True)
class Times:
    """The times of some searches, in milliseconds."""

    values: list[float] = field(default_factory=list)
    processor: float = 0.0
    """The most that one of them took of the server's processor, in milliseconds."""
    cut: int = 0
    """Answers that say that they were cut short."""

    def line(self) -> str:
        """Return the figures as cells of a table."""
        times = np.sort(self.values)
        return (
            f"{_share(times, 0.5):7.1f} | {_share(times, 0.99):7.1f} | {times[-1]:7.1f} |"
            f" {self.processor:7.1f} | {100 * self.cut / len(times):4.0f} |"
        )


def _processor_milliseconds(process: int) -> float:
    """Return what all threads of a process have used of the processor, which ticks hide."""
    threads = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e6


def _share(times: NDArray[np.float64], share: float) -> float:
    return float(times[min(len(times) - 1, int(share * len(times)))])


def run(
    folder: Path, messages: int, count: int, rounds: int, slowest: int, kinds: str, *, words: bool
) -> list[Figure]:
    """Measure one size and print the figures."""
    data = folder / f"lopsided-{messages}"
    corpus = Lopsided(messages)
    if not data.exists():
        write(data, corpus)
    index = data / "default" / "conversations" / NAME
    if not index.exists():
        with recollect(data, "--embedder", "off"):
            pass
    if not words and not (index.parent / VECTORS).exists():
        made_up(model(), index.parent, corpus.questions(200))
    trials = [trial for trial in searches(corpus, count) if kinds in trial.kind]
    best = np.full(len(trials), np.inf)
    processor = np.full(len(trials), np.inf)
    cut = np.zeros(len(trials), np.bool_)
    flags = ("--embedder", "off") if words else FLAGS
    with recollect(data, *flags) as (target, process):
        until_whole(target)
        with grpc.insecure_channel(target) as channel:
            stub = RecallServiceStub(channel)
            for search in trials[:5]:
                stub.Search(search.request, timeout=60)
            for _ in range(rounds):
                for at, search in enumerate(trials):
                    used, began = _processor_milliseconds(process.pid), time.perf_counter()
                    answer = stub.Search(search.request, timeout=60)
                    best[at] = min(best[at], 1000 * (time.perf_counter() - began))
                    used = _processor_milliseconds(process.pid) - used
                    processor[at] = min(processor[at], used)
                    cut[at] = bool(answer.degraded)
        memory = resident_bytes(process)
        if not words:
            expect_nothing_embedded(index.parent)
    by_kind: dict[str, Times] = {}
    by_scope: dict[str, Times] = {}
    for search, took, used, was_cut in zip(
        trials, best.tolist(), processor.tolist(), cut.tolist(), strict=True
    ):
        for times in (
            by_kind.setdefault(search.kind, Times()),
            by_scope.setdefault(search.scope, Times()),
        ):
            times.values.append(took)
            times.processor = max(times.processor, used)
            times.cut += was_cut
    print(f"{messages} messages, {len(trials)} searches, {memory / 2**20:.0f} MiB of memory\n")
    print("| searches | p50, ms | p99, ms | max, ms | processor, max, ms | cut, % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, times in (by_kind | by_scope).items():
        print(f"| {name} | {times.line()}")
    print(flush=True)
    for at in np.argsort(-best)[:slowest].tolist():
        print(
            f"    {best[at]:7.1f} ms, {processor[at]:.1f} of processor: {trials[at].kind}, {trials[at].scope}",
            flush=True,
        )
    goal = Goal(_GOALS[messages]) if messages in _GOALS else None
    of = "messages"
    return [
        Figure("slowest Search", float(best.max()), "ms", goal=goal, at=messages, of=of),
        Figure("dearest Search, processor", float(processor.max()), "ms", at=messages, of=of),
        Figure("Search p99", _share(np.sort(best), 0.99), "ms", at=messages, of=of),
        Figure("Search p50", statistics.median(best.tolist()), "ms", at=messages, of=of),
        Figure("answers cut short", 100 * float(cut.mean()), "%", at=messages, of=of),
    ]


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--questions", type=int, default=4, help="of each kind and filter")
    parser.add_argument(
        "--rounds", type=int, default=1, help="each search counts with its fastest round"
    )
    parser.add_argument(
        "--folder", type=Path, help="keeps the corpora here, and takes those that are there"
    )
    parser.add_argument("--words", action="store_true", help="searches by words alone")
    parser.add_argument("--kinds", default="", help="only kinds of questions whose name has this")
    parser.add_argument("--slowest", type=int, default=10, help="searches that are listed")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        data = chosen.folder or Path(folder)
        data.mkdir(exist_ok=True)
        runs = [
            run(
                data,
                messages,
                chosen.questions,
                chosen.rounds,
                chosen.slowest,
                chosen.kinds,
                words=chosen.words,
            )
            for messages in chosen.messages
        ]
    return [figure for figures in runs for figure in figures]


if __name__ == "__main__":
    main()
