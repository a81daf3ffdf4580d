"""The first minute with a person, who is new: `python -m bench.first_minute`.

Ten made-up people, in eight languages, each say a few things in some short conversations, and are
then asked for by questions in new ones. A question counts when every word that its answer needs is
in the context, and what was corrected stands before its correction. At once: before anything is
embedded. Settled: once all is. The people are in `bench/statements/people.json`.
"""

import argparse
import json
import logging
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog
from recollect import Client, ContextFormat, Message

from bench.dialogue import served
from bench.figures import Figure, Goal

_PEOPLE = Path(__file__).parent / "statements" / "people.json"
_SETTLED, _PAUSE = 60.0, 0.2  # seconds


def tell(client: Client, person: dict[str, Any]) -> None:
    """Store the conversations of a person."""
    for turns in person["conversations"]:
        conversation = client.conversations.create("web")
        for text, answer in turns:
            turn = [Message.user(text), Message.assistant(answer)]
            client.conversations.append_turn(conversation.id, turn)


def settle(client: Client) -> None:
    """Wait until everything is embedded."""
    end = time.monotonic() + _SETTLED
    while client.admin.get_stats().space.embedding.share < 1 and time.monotonic() < end:
        time.sleep(_PAUSE)


def ask(client: Client, person: dict[str, Any]) -> tuple[Counter[str], Counter[str], list[int]]:
    """Return how many questions of each kind have their answer in the context, how many there are,
    and the tokens of the contexts of small talk.
    """
    answered: Counter[str] = Counter()
    questions: Counter[str] = Counter()
    sizes: list[int] = []
    for question in person["questions"]:
        built = client.recall.build_context(message=question["ask"], format=ContextFormat.XML)
        kind, text = question["kind"], built.rendered.lower()
        if kind == "small talk":
            sizes.append(built.rendered_tokens)
            continue
        is_there = all(word in text for word in question["want"])
        if is_there and "old" in question:
            is_there = text.rfind(question["old"]) < text.rfind(question["want"][0])
        questions[kind] += 1
        answered[kind] += is_there
    return answered, questions, sizes


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--people", type=int, default=10, help="number of the people that are asked"
    )
    chosen = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    people = json.loads(_PEOPLE.read_text("utf-8"))[: chosen.people]
    figures: list[Figure] = []
    for part in ("at once", "settled"):
        answered: Counter[str] = Counter()
        questions: Counter[str] = Counter()
        sizes: list[int] = []
        for person in people:
            with served([], {"embedder": "onnx"}, is_one=True) as group:
                tell(group.client, person)
                if part == "settled":
                    settle(group.client)
                of_person = ask(group.client, person)
            answered.update(of_person[0])
            questions.update(of_person[1])
            sizes += of_person[2]
        for kind, count in questions.items():
            print(f"    {part}: {kind:<12} {answered[kind]:3} of {count}")
        share = 100 * answered.total() / questions.total()
        print(
            f"    {part}: all          {answered.total():3} of {questions.total()}, {share:.0f} %"
        )
        goal = Goal(95, least=True)
        figures.append(Figure("answers in the first minute", share, "%", goal=goal, part=part))
        small = statistics.fmean(sizes)
        figures.append(Figure("context of small talk", small, "tokens", part=part))
    return figures


if __name__ == "__main__":
    main()
