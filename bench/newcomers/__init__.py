"""Scores of small histories: questions in other words than their answers, and questions that
nothing stored answers.

`python -m bench.newcomers [--words] [--half learn|aside|named|named-aside] [--questions OUT.jsonl]
[FLAG ...]`

Each history gets a space of its own. An answered question is *kept* if its right message scores at
least the default threshold of a context, and *first* if no message scores higher. Of the other
questions none should have a message at the threshold. The log loss is that of the best score as the
probability that anything found answers; the answered questions weigh seven of ten, as in
`bench.calibrate`. `--words` asks by keyword alone; flags that are not of the benchmark go to the
server. The README of this folder says how the histories were written.
"""

import argparse
import math
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import orjson
from recollect import Client
from recollect.imports import recall_sets

from bench.figures import Figure, Goal
from bench.recall import QUERIES, Question, Service, read_conversations, read_questions, whole
from bench.servers import embedded, recollect

FOLDER = Path(__file__).parent
LEARN, ASIDE = HALVES = ("learn", "aside")
NAMED, NAMED_ASIDE = "named", "named-aside"
"""The English ones of the halves, with a name in place of the first person."""
ANSWERED = "answered"
THRESHOLD = 0.3
_SHARE = 0.7  # of the loss: the answered questions
_LEAST = 1e-3  # of a probability in the loss
_KEPT, _NOISE = 70, 15  # percent: the goals with the model


class Asked(NamedTuple):
    """A question and the scores of its answer."""

    question: Question
    best: float
    """Score of the best message, 0 without a hit."""
    right: float
    """Score of the best right message, 0 where none was found."""

    @property
    def loss(self) -> float:
        """Log loss of the best score."""
        chance = min(max(self.best, _LEAST), 1 - _LEAST)
        return -math.log(chance if self.right else 1 - chance)


def ask(target: str, half: Path, embeds_in: Path | None) -> list[Asked]:
    """Write each history to a space of its own, and ask its questions: once all is embedded, where
    there is a data folder of a server that embeds.
    """
    answers = []
    plans = read_conversations(half / recall_sets.FILE, abbreviations=False)
    for name, questions in read_questions(half / QUERIES).items():
        space = f"{half.name}-{name}"
        with Client(target, space=space) as client:
            service = Service(client, plans[name])
            if embeds_in:
                embedded(embeds_in, space)
            for question in questions:
                hits = whole(lambda it=question: client.recall.search(it.query)).hits  # type: ignore[misc]
                names = [service.messages[hit.conversation_id, hit.sequence] for hit in hits]
                right = [
                    hit.score
                    for hit, name in zip(hits, names, strict=True)
                    if name in question.gold_messages
                ]
                answers.append(
                    Asked(
                        question,
                        max((hit.score for hit in hits), default=0.0),
                        max(right, default=0.0),
                    )
                )
    return answers


def report(name: str, answers: Sequence[Asked]) -> dict[str, float]:
    """Print and return the figures of some questions, shares in percent."""
    answered = [it for it in answers if it.question.category == ANSWERED]
    others = [it for it in answers if it.question.category != ANSWERED]
    losses = [statistics.fmean(it.loss for it in some) for some in (answered, others)]
    shares = {
        "kept": share([it.right >= THRESHOLD for it in answered]),
        "first": share([0 < it.right >= it.best for it in answered]),
        "noise": share([it.best >= THRESHOLD for it in others]),
        "loss": _SHARE * losses[0] + (1 - _SHARE) * losses[1],
    }
    by_kind: dict[str, list[bool]] = defaultdict(list)
    for it in others:
        by_kind[it.question.category].append(it.best >= THRESHOLD)
    kinds = ", ".join(f"{kind} {share(of):.0f}" for kind, of in by_kind.items())
    print(
        f"{name:16} {len(answered):3} answered: {shares['kept']:5.1f} % kept, {shares['first']:5.1f} %"
        f" first; {len(others):3} others: {shares['noise']:5.1f} % with anything ({kinds});"
        f" log loss {shares['loss']:.3f}"
    )
    return shares


def share(of: Sequence[bool]) -> float:
    """Return the percentage that is true."""
    return 100 * sum(of) / len(of)


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures of each half, of English, and of the other languages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--words", action="store_true", help="by keyword alone")
    parser.add_argument("--half", choices=(*HALVES, NAMED, NAMED_ASIDE), help="only this one")
    parser.add_argument("--questions", type=Path, help="writes each question's scores")
    chosen, flags = parser.parse_known_args(arguments)
    if chosen.words:
        flags += ["--embedder", "off"]
    figures, lines = [], []
    with (
        tempfile.TemporaryDirectory() as folder,
        recollect(data := Path(folder) / "data", "--abbreviator", "off", *flags) as (target, _),
    ):
        for half in [chosen.half] if chosen.half else HALVES:
            answers = ask(target, FOLDER / half, None if chosen.words else data)
            lines += [
                orjson.dumps(
                    {
                        "half": half,
                        "id": it.question.id,
                        "query": it.question.query,
                        "category": it.question.category,
                        "best": it.best,
                        "right": it.right,
                    }
                )
                for it in answers
            ]
            english = [it for it in answers if it.question.group.startswith("en")]
            if half in HALVES:
                report(f"{half}, English", english)
                report(f"{half}, others", [it for it in answers if it not in english])
            shares = report(half, answers)
            goals = {"kept": Goal(_KEPT, least=True), "noise": Goal(_NOISE)}
            figures += [
                Figure(
                    f"{half}: {name}",
                    shares[name],
                    "%",
                    goal=goals.get(name) if half == ASIDE and not chosen.words else None,
                )
                for name in ("kept", "first", "noise")
            ]
    if chosen.questions:
        chosen.questions.write_bytes(b"\n".join(lines) + b"\n")
    return figures


if __name__ == "__main__":
    main()
