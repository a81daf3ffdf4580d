"""Recall by abbreviations alone: those of the extractive writer against a model's, for a recall
set.

`python -m bench.abbreviations --set DIR [--groups NAME ...]`

Only conversations that have a model's abbreviation count, on both sides. They are ranked by plain
FTS5 over the abbreviations, and by the cosine of one vector for each. No server runs.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
from recollect.imports import recall_sets
from recollect.imports.plans import Event, Plan
from recollect_server.kernel.domain.message import Message, Role, estimate_tokens
from recollect_server.notes.offline.extractive import Extractive
from recollect_server.recall.model.embedder import Embedder
from recollect_server.recall.model.weights import look, shipped

from bench.figures import Figure, Goal
from bench.plain import PlainFts5
from bench.recall import (
    FIGURES,
    QUERIES,
    figures,
    means,
    messages_of,
    milliseconds,
    read_conversations,
    read_questions,
    started,
)

LIMIT = 10

Texts = dict[str, tuple[int, str]]
"""Start time and abbreviation of each conversation, by its name."""
Ask = Callable[[str, int | None], list[str]]
"""A question and before when a conversation must have begun, into the names that fit best."""


def by_words(texts: Texts) -> Ask:
    """Return a ranker by BM25."""
    table = PlainFts5()
    for name, (began, text) in texts.items():
        table.add(name, began, text)
    return lambda query, end: table.best(query, LIMIT, end)


def by_vectors(embedder: Embedder) -> Callable[[Texts], Ask]:
    """Return a ranker by the cosine of one vector per conversation."""

    def rank(texts: Texts) -> Ask:
        names = list(texts)
        began = np.array([texts[name][0] for name in names])
        vectors = embedder.embed([texts[name][1] for name in names])

        def ask(query: str, end: int | None) -> list[str]:
            scores = vectors @ embedder.question(query)
            if end is not None:
                scores[began >= end] = -2
            return [names[at] for at in np.argsort(-scores)[:LIMIT] if scores[at] > -2]

        return ask

    return rank


def written(plan: Plan) -> tuple[str, str, float]:
    """Return a conversation's abbreviation from the set's model and from the extractive writer, and
    the seconds that the latter took.
    """
    messages = [
        Message(
            Role(it.role.value), it.content, time_, sequence=at, turn_number=at, sender=it.sender
        )
        for at, (_, time_, it) in enumerate(messages_of(plan), start=2)
    ]
    theirs = next((str(step.fields["text"]) for step in plan.steps if isinstance(step, Event)), "")
    start = time.perf_counter()
    ours = Extractive().write_notes(messages, "").abbreviation
    return theirs, ours, time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--set",
        type=Path,
        required=True,
        metavar="DIR",
        help="a folder with conversations.jsonl and queries.jsonl",
    )
    parser.add_argument("--groups", nargs="+", metavar="NAME", help="only these groups")
    chosen = parser.parse_args(arguments)
    plans = read_conversations(chosen.set / recall_sets.FILE, abbreviations=True)
    questions = read_questions(chosen.set / QUERIES)
    rows: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    sizes: dict[str, list[int]] = defaultdict(list)
    seconds = 0.0
    rankings: dict[str, Callable[[Texts], Ask]] = {
        "words": by_words,
        "vectors": by_vectors(Embedder(look(shipped()))),
    }
    for group in chosen.groups or sorted(questions):
        sides: dict[str, Texts] = {"model": {}, "extractive": {}}
        for plan in plans[group]:
            theirs, ours, took = written(plan)
            if not theirs:
                continue
            seconds += took
            for side, text in (("model", theirs), ("extractive", ours)):
                sides[side][plan.key[3]] = (started(plan), text)
                sizes[side].append(estimate_tokens(text))
        for way, rank in rankings.items():
            for side, texts in sides.items():
                ask = rank(texts)
                for question in questions[group]:
                    if gold := [name for name in question.gold_conversations if name in texts]:
                        end = (
                            milliseconds(datetime.fromisoformat(question.asked_at))
                            if question.asked_at
                            else None
                        )
                        rows[way, side].append(figures(ask(question.query, end), gold))
    count = len(sizes["model"])
    print(f"{chosen.set.name}: {count} conversations with a model's abbreviation")
    print(f"the extractive writer took {seconds / count * 1e3:.1f} ms for each")
    print(f"{'':18} {'n':>5} {'tokens':>7} " + " ".join(f"{name:>9}" for name in FIGURES))
    for (way, side), each in rows.items():
        shown = " ".join(f"{value:9.1f}" for value in means(each).values())
        print(f"{way + ', ' + side:18} {len(each):5} {sum(sizes[side]) / count:7.0f} {shown}")
    results = [Figure("an abbreviation takes", seconds / count * 1e3, "ms")]
    for way in dict.fromkeys(way for way, _ in rows):
        model, own = (means(rows[way, side])["recall@10"] for side in ("model", "extractive"))
        share = f"{own / model:.3f}" if model else f"{own}, not a share,"
        print(f"{way}: recall@10 of the extractive writer is {share} of the model's (goal 0.9)")
        goal, ratio = (Goal(0.9, least=True, of_ratio=True), own / model) if model else (None, None)
        results.append(
            Figure(
                f"recall@10 by {way}, {chosen.set.name}", own, "%", model, "a model's", ratio, goal
            )
        )
    return results


if __name__ == "__main__":
    main()
