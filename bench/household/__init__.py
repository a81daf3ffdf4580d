"""Notes of a household in eight languages, asked for in other words and in their own language.

`python -m bench.household [--half learn aside] [--learn]`

Each language has a space of its own: 12 notes among 180 sentences of the same language about other
people's lives and tasks (`bench/statements`), in conversations of two to five turns, each answered
with one to five sentences that have nothing to do with it. So the words of a conversation say
little, and long answers have pieces near to anything. Questions share few words with their notes.
Printed is how often the note is first, and among ten; and how many firsts score over 0.3, of the
right ones and of the wrong ones. The notes were written for this, by one author. The factors of
words, conversations and lengths were chosen with both halves in view; the weights of scores are
learned without the languages `aside`.

`--learn` learns the weights `ACROSS` of `calibration_weights.py`, and prints them: from the
languages `learn`; from `bench/languages`, whose questions are put to the households too, where
nothing answers them; and from the histories `learn` of `bench/newcomers` that are not English.
"""

import argparse
import logging
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import orjson
import structlog
from numpy.typing import NDArray
from recollect import Client, Message
from recollect.imports import recall_sets
from recollect_server.recall import calibration, retrieval
from recollect_server.recall.fusion import known
from recollect_server.run import app
from recollect_server.run.settings import Settings

from bench import languages, newcomers
from bench.figures import Figure
from bench.recall import QUERIES, Service, read_conversations, read_questions
from bench.servers import embedded
from bench.statements.__main__ import sentences

FOLDER = Path(__file__).parent
HALVES = ("learn", "aside")
SURE = 0.3
_OWN, _TASKS = 120, 60  # sentences beside the notes
_MOST = 10
_NAMES = ("base", "even", "vector", "behind", "missing", "few")
_PENALTY, _STEPS = 0.5, 100
_SEED = 3
Vectors = NDArray[np.float64]


class Note(NamedTuple):
    """A note, and the question that it answers."""

    half: str
    language: str
    note: str
    question: str


class Hits(NamedTuple):
    """The first hits of a search."""

    keys: list[tuple[str, int]]
    scores: list[float]
    features: Vectors
    """Those of `_NAMES` of each hit that the model of other languages compared, else nan."""


_Case = tuple[Hits, tuple[str, int] | None]
"""Hits, and the right place, None where nothing answers."""


def read_notes(half: str) -> dict[str, list[Note]]:
    """Return the notes of a half, by language."""
    notes: dict[str, list[Note]] = {}
    for line in (FOLDER / "notes.jsonl").read_bytes().splitlines():
        note = Note(**orjson.loads(line))
        if note.half == half:
            notes.setdefault(note.language, []).append(note)
    return notes


def bring_in(client: Client, language: str, notes: Sequence[Note]) -> dict[str, tuple[str, int]]:
    """Store a household, and return the conversation and the sequence of each note."""
    draw = random.Random(_SEED)
    rows = sentences([language])
    tasks = [it["text"] for it in rows if it["label"] == "none"]
    own = [it["text"] for it in rows if it["label"] != "none"]
    draw.shuffle(tasks)
    draw.shuffle(own)
    texts = own[:_OWN] + tasks[:_TASKS] + [it.note for it in notes]
    draw.shuffle(texts)
    places: dict[str, tuple[str, int]] = {}
    while texts:
        count = draw.randint(2, 5)
        turns, texts = texts[:count], texts[count:]
        conversation = client.conversations.create("web").id
        for text in turns:
            answer = " ".join(draw.sample(tasks[_TASKS:], draw.randint(1, 5)))
            messages = [Message.user(text), Message.assistant(answer)]
            stored = client.conversations.append_turn(conversation, messages).messages
            places[text] = conversation, stored[0].sequence
    return places


@contextmanager
def _served() -> Iterator[tuple[str, Path, Callable[[Client, str], Hits]]]:
    """Start a server in this process; yield its address, its folder, and what asks it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    recorded: list[Vectors] = []

    def watched(order: Any, words: Any, messages: Any, above: Any, matches: Any = None) -> Any:
        best = np.argsort(-order.messages, kind="stable")[:_MOST]
        features = np.full((len(best), len(_NAMES)), np.nan)
        if matches is not None:
            features[:] = 1.0
            features[:, 1], features[:, 2] = matches.even[best], known(messages.vector)[best]
            features[:, 3] = calibration._behind(order.messages)[best]
            features[:, 4] = words.missing * words.vocabulary
            features[:, 5] = 1 - words.vocabulary
            features[~matches.is_across[best]] = np.nan
        recorded.append(features)
        return calibration.calibrated(order, words, messages, above, matches)

    def ask(client: Client, question: str) -> Hits:
        recorded.clear()
        hits = client.recall.search(question, limit=_MOST).hits
        keys = [(it.conversation_id, it.sequence) for it in hits]
        features = (
            recorded[-1][: len(hits)] if recorded else np.full((len(hits), len(_NAMES)), np.nan)
        )
        return Hits(keys, [it.score for it in hits], features)

    with tempfile.TemporaryDirectory() as folder, patch.object(retrieval, "calibrated", watched):
        data = Path(folder) / "data"
        values = {
            "listen": "127.0.0.1:0",
            "data_dir": data,
            "embedder": "onnx",
            "abbreviator": "off",
        }
        server = app.start(Settings.load(None, values))
        try:
            yield server.address, data, ask
        finally:
            server.stop()


def settle(client: Client, data: Path, space: str, question: str) -> None:
    """Wait until everything of a space is embedded, and searches see it."""
    embedded(data, space)
    while client.recall.search(question, limit=1).degraded:
        pass  # each call waits for the server


def fitted(features: Vectors, right: NDArray[np.bool_], weight: Vectors) -> Vectors:
    """Return the weights of a logistic regression, the first without a penalty."""
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    mean[0], deviation[0] = 0.0, 1.0
    inputs = (features - mean) / np.maximum(deviation, 1e-6)
    weights, penalty = np.zeros(len(mean)), _PENALTY * np.eye(len(mean))
    penalty[0, 0] = 1e-6
    for _ in range(_STEPS):
        chances = 1 / (1 + np.exp(-inputs @ weights))
        slope = inputs.T @ (weight * (chances - right)) + penalty @ weights
        curve = (inputs * (weight * chances * (1 - chances))[:, None]).T @ inputs + penalty
        weights -= np.linalg.solve(curve, slope)
    weights /= np.maximum(deviation, 1e-6)
    weights[0] -= (weights * mean)[1:].sum()
    return np.asarray(weights)


def _learned(cases: Sequence[_Case]) -> dict[str, float]:
    """Return the weights."""
    features, right, weight = [], [], []
    for answer, place in cases:
        compared = ~np.isnan(answer.features[:, 1])
        share = 1 / (1.0 + np.flatnonzero(compared))
        features.append(answer.features[compared])
        right.append(np.array([it == place for it in answer.keys], np.bool_)[compared])
        weight.append(share / (share.sum() or 1.0))
    every = np.concatenate(features)
    weights = fitted(every, np.concatenate(right), np.concatenate(weight))
    by_vector, otherwise = np.polyfit(every[:, 2], every[:, 1], 1)
    return {
        **dict(zip(_NAMES, weights.tolist(), strict=True)),
        "even_else": float(otherwise),
        "even_by_vector": float(by_vector),
    }


def _newcomers(address: str, data: Path, ask: Callable[[Client, str], Hits]) -> list[_Case]:
    """Return the answers to the questions of small histories in other languages."""
    half = newcomers.FOLDER / newcomers.LEARN
    plans = read_conversations(half / recall_sets.FILE, abbreviations=False)
    cases: list[_Case] = []
    for name, questions in read_questions(half / QUERIES).items():
        if name.startswith("en"):
            continue
        with Client(address, space=name) as client:
            messages = Service(client, plans[name]).messages
            settle(client, data, name, questions[0].query)
            for question in questions:
                right = [at for at, it in messages.items() if it in question.gold_messages]
                cases.append((ask(client, question.query), right[0] if right else None))
    return cases


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures of each half."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", nargs="+", choices=HALVES, default=list(HALVES))
    parser.add_argument("--languages", nargs="+", metavar="CODE", help="only these")
    parser.add_argument("--learn", action="store_true", help="learn the weights, and print them")
    chosen = parser.parse_args(arguments)
    elsewhere = languages.read_questions(languages.FOLDER)
    cases: list[_Case] = []
    figures: list[Figure] = []
    with _served() as (address, data, ask):
        for half in chosen.half:
            counts: Counter[str] = Counter()
            for language, notes in read_notes(half).items():
                if chosen.languages and language not in chosen.languages:
                    continue
                with Client(address, space=language) as client:
                    places = bring_in(client, language, notes)
                    settle(client, data, language, notes[0].question)
                    answers = [(ask(client, it.question), places[it.note]) for it in notes]
                    if chosen.learn and half == HALVES[0]:
                        queries = (it.query for it in elsewhere if it.language == language)
                        cases += [*answers, *((ask(client, it), None) for it in queries)]
                first = [answer.keys[:1] == [place] for answer, place in answers]
                within = [place in answer.keys for answer, place in answers]
                print(
                    f"{half} {language}: first {sum(first)}, among ten {sum(within)} of {len(notes)}"
                )
                counts["asked"] += len(notes)
                counts["first"] += sum(first)
                counts["ten"] += sum(within)
                for (answer, _), is_right in zip(answers, first, strict=True):
                    kind = "right" if is_right else "wrong"
                    counts[kind] += bool(answer.scores)
                    counts[f"sure {kind}"] += bool(answer.scores) and answer.scores[0] >= SURE
            print(
                f"{half}: right firsts from {SURE}: {counts['sure right']} of {counts['right']}, "
                f"wrong ones {counts['sure wrong']} of {counts['wrong']}"
            )
            for depth in ("first", "ten"):
                share = 100 * counts[depth] / counts["asked"]
                figures.append(Figure(f"household, {half}, {depth}", share, "%"))
        if chosen.learn:
            texts = languages.read_texts(languages.FOLDER)
            with Client(address, space="texts") as client:
                ids = languages.write(client, texts)
                settle(client, data, "texts", elsewhere[0].query)
                of = {name: place for place, name in ids.items()}
                cases += [(ask(client, it.query), of[it.text]) for it in elsewhere]
            cases += _newcomers(address, data, ask)
            print(orjson.dumps(_learned(cases), option=orjson.OPT_INDENT_2).decode())
    return figures


if __name__ == "__main__":
    main()
