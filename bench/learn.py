"""Learn `recall/fusion_weights.py` from labelled questions, and measure the weights where
they were not learned.

`python -m bench.learn --set DIR [--set DIR ...] --kinds DIR [--measure DIR ...] --keep DIR
[--write]`

A set is a folder as `bench.recall` reads it. `--kinds` has sets of other kinds (`bench.kinds` makes
them from the sets; `KINDS` of them are learned from). `--measure` names sets that are never learned
from. What the legs say is kept in `--keep`: the first run embeds everything, later ones take
minutes.

The loss is the negative log of the chance that a softmax over the scores gives to the gold
(listwise, as in ListNet), with a ridge on every weight, a stronger one on what a gate adds. The
base weights of retrievers' scores are never negative. Every kind counts the same, whatever number
of questions it has. Every question counts a second time, lightly, without any vector: so the gate
`blind` is learned. The gate `unsaid` is not: `with_unsaid` sets its weights.

The figure of merit is the worst kind against the best of its parts: plain FTS5, vectors alone, and
a plain sum of the scores, none of which needs labels.
"""

import argparse
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from recollect.imports import recall_sets
from recollect_server.recall.fusion import (
    conversation_features,
    dates_of,
    gates_of,
    known,
    message_features,
    weighted,
)
from recollect_server.recall.retrievers import ConversationLegs, MessageLegs
from scipy.optimize import minimize  # type: ignore[import-untyped]

from bench.legs import Labelled, RememberedVectors, collect
from bench.recall import QUERIES, read_conversations, read_questions

Array = NDArray[np.float64]
Weights = dict[str, dict[str, float]]

KINDS = ("answers", "cloze", "docs", "mentions", "dated", "speakers", "anon")
"""Kinds that are learned from, of those that `bench.kinds` makes."""
RIDGE, GATE_RIDGE = 5.0, 20.0
SET, KIND = 300.0, 150.0  # questions that a set and a made kind count as, whatever they have
MOST = 400  # questions of a kind that are learned from, chosen at random
VARIANTS = {"": 1.0, "blind": 0.2, "deaf": 0.5}
"""Weight of a question as it was put, without any vector, and without any word."""
WORDS_KEEP, MEANING_GAINS = 0.5, 2.0
"""Share of the base weights of messages' words that is left, and the weight that `vector` gains,
where the gate `unsaid` is 1. Chosen by the kind `reworded`, not learned: learned from it, and from
questions without words, `unsaid` moved weight to what else they have (`docs/decisions/ranking.md`).
"""
MOST_OF_DATE = 7.0
"""Highest base weight of `date`: the answers of the kind `dated` all lie in the time that is named,
those of people's questions do not."""
DEPTHS = (1, 5, 10)
# messages of a question that are learned from: those that look best, and others
_HARD, _OTHERS = 90, 40
_MESSAGE_GATES = ("base", "long", "own", "blind")
_CONVERSATION_GATES = ("base", "long", "own", "notes", "blind")
# base weights that cannot be negative, or positive
_FOR = frozenset(
    "keyword keyword_z keyword_window vector vector_before conversation_keyword"  # noqa: SIM905
    " conversation_vector named length best_keyword"
    " abbreviation mass best related related_best beside".split()
)
_AGAINST = frozenset(["other", "short"])
HEADER = """\"\"\"The weights of `recall/fusion.py`: of each feature a base, and what each gate adds.

`bench.learn --write` writes them. Learned from openly licensed text alone: questions of RealMem
(2026, Apache-2.0), FriendsQA (Yang and Choi 2019, Apache-2.0) and QMSum (Zhong et al. 2021, MIT),
and the kinds that `bench.kinds` makes from them and from docstrings. `docs/decisions/ranking.md`
says what they are worth on each kind, and on kinds left out. What the gate `unsaid` adds is chosen,
not learned: `bench.learn.with_unsaid`.
\"\"\""""
WEIGHTS = Path(__file__).parents[1] / "server/src/recollect_server/recall/fusion_weights.py"


@dataclass(frozen=True, slots=True)
class Row:
    """A question: features [candidates, features], gates, which candidates are right, and how many
    there are in all.
    """

    kind: str
    group: str
    features: NDArray[np.float32]
    names: tuple[str, ...]
    gates: dict[str, float]
    right: NDArray[np.bool_]
    gold: int
    parts: dict[str, list[float]]
    """Figures of what the ranking is made of, as `figures_of` returns them; empty without gold."""
    variant: str
    """Empty for the question as it was put; else a name of `VARIANTS`."""


def without_vectors(it: Labelled) -> Labelled:
    """Return the same question as it is when nothing is known by meaning."""

    def of_messages(legs: MessageLegs) -> MessageLegs:
        names = (
            "vector", "vector_before", "role", "named",
        )  # fmt: skip
        return replace(legs, **dict.fromkeys(names, np.full(len(legs.time), np.nan)))

    def of_conversations(legs: ConversationLegs) -> ConversationLegs:
        names = ("vector", "abbreviation")
        unknown = dict.fromkeys(names, np.full(len(legs.begin), np.nan))
        return replace(legs, mean_vector=np.zeros_like(legs.mean_vector), **unknown)

    return _with_legs(it, of_messages, of_conversations)


def without_words(it: Labelled) -> Labelled:
    """Return the same question as it is when it has no word of any message."""

    def of_messages(legs: MessageLegs) -> MessageLegs:
        names = ("keyword", "keyword_before", "keyword_after")
        return replace(legs, **{name: np.zeros_like(getattr(legs, name)) for name in names})

    def of_conversations(legs: ConversationLegs) -> ConversationLegs:
        names = ("keyword", "message_keyword")
        return replace(legs, **{name: np.zeros_like(getattr(legs, name)) for name in names})

    deaf = _with_legs(it, of_messages, of_conversations)
    return replace(deaf, question=replace(it.question, unsaid=1.0))


def _with_legs(
    it: Labelled,
    of_messages: Callable[[MessageLegs], MessageLegs],
    of_conversations: Callable[[ConversationLegs], ConversationLegs],
) -> Labelled:
    sections = it.sections and (of_messages(it.sections[0]), of_conversations(it.sections[1]))
    return replace(
        it,
        messages=of_messages(it.messages),
        conversations=of_conversations(it.conversations),
        sections=sections,
    )


def without_notes(it: Labelled) -> Labelled:
    """Return the same question where no conversation has an abbreviation."""
    legs: ConversationLegs = replace(
        it.conversations, abbreviation=np.full(len(it.conversations.begin), np.nan)
    )
    return replace(it, conversations=legs)


def message_row(it: Labelled, variant: str = "") -> Row:
    """Return the training row of a question's messages."""
    legs, above = it.sections or (it.messages, it.conversations)
    dates = dates_of(it.question, it.messages)
    of = legs.conversation
    total = _spread(legs.keyword) + _spread(legs.vector)
    total += 0.4 * _spread(above.keyword)[of] + 0.3 * _spread(above.vector)[of]
    parts = {} if not it.gold_messages else {
        "fts5": it.plain_messages,
        "vectors": figures_of(known(legs.vector), it.right_messages, it.gold_messages),
        "sum": figures_of(total, it.right_messages, it.gold_messages),
    }  # fmt: skip
    features = message_features(legs, above, dates)
    return _row(it, features, it.right_messages, it.gold_messages, parts, variant)


def conversation_row(it: Labelled, of_messages: Weights, variant: str = "") -> Row:
    """Return the training row of its conversations, given the weights of messages."""
    dates, legs = dates_of(it.question, it.messages), it.conversations
    gates = gates_of(it.question, it.messages, legs)
    sections = it.sections or (it.messages, legs)
    scores = weighted(message_features(*sections, dates), of_messages, gates)
    vector = known(legs.vector)
    total = _spread(legs.keyword) + _spread(legs.message_keyword) + _spread(legs.vector)
    total += 0.5 * _spread(legs.abbreviation)
    parts = {} if not it.gold_conversations else {
        "fts5": it.plain_conversations,
        "vectors": figures_of(vector, it.right_conversations, it.gold_conversations),
        "sum": figures_of(total, it.right_conversations, it.gold_conversations),
    }  # fmt: skip
    features = conversation_features(it.messages, legs, scores)
    return _row(it, features, it.right_conversations, it.gold_conversations, parts, variant)


def _row(
    it: Labelled,
    features: dict[str, Array],
    right: NDArray[np.bool_],
    gold: int,
    parts: dict[str, list[float]],
    variant: str,
) -> Row:
    return Row(
        it.kind, it.group, np.stack([*features.values()], axis=1).astype(np.float32), (*features,),
        gates_of(it.question, it.messages, it.conversations), right, gold, parts, variant,
    )  # fmt: skip


def _spread(scores: Array) -> Array:
    """Return the scores between 0, of the lowest, and 1, of the highest; 0 where one is missing."""
    if not len(scores) or np.isnan(scores).all():
        return np.zeros(len(scores))
    lowest, highest = np.nanmin(scores), np.nanmax(scores)
    return known((scores - lowest) / ((highest - lowest) or 1.0))


def figures_of(scores: Array, right: NDArray[np.bool_], gold: int) -> list[float]:
    """Return the figures of one ranking in the order of `bench.recall.figures`, in percent."""
    first = right[np.argsort(-scores, kind="stable")[: DEPTHS[-1]]]
    hits = [int(first[:depth].sum()) for depth in DEPTHS]
    return [100 * n / gold for n in hits] + [100.0 * (n > 0) for n in hits]


def learn(rows: Sequence[Row], gates: Sequence[str], most: int | None = None) -> Weights:
    """Return the weights that make the right candidates the likeliest. `most` bounds the candidates
    of each question.
    """
    rows = [row for row in rows if row.right.any()]
    chosen = [_seen(row, most) for row in rows]
    features = np.concatenate([row.features[at] for row, at in zip(rows, chosen, strict=True)])
    right = np.concatenate([row.right[at] for row, at in zip(rows, chosen, strict=True)])
    counts = np.array([len(at) for at in chosen])
    starts = np.cumsum(counts) - counts
    question = np.repeat(np.arange(len(rows)), counts)
    put = np.array([[row.gates[gate] for gate in gates] for row in rows])
    numbers = Counter((row.kind, row.variant) for row in rows)
    weight = np.array([
        (KIND if row.kind.split("+")[0] in KINDS else SET) * VARIANTS[row.variant]
        / numbers[row.kind, row.variant] for row in rows
    ])  # fmt: skip
    deviation = features.std(axis=0)
    deviation = np.where(deviation < 1e-3, 1, deviation)
    features /= deviation
    shares = right / np.add.reduceat(right.astype(float), starts)[question]
    ridge = np.full((len(gates), features.shape[1]), GATE_RIDGE)
    ridge[0] = RIDGE

    def loss(flat: Array) -> tuple[float, Array]:
        matrix = flat.reshape(ridge.shape)
        scores = np.einsum(
            "ij,ij->i", features, (put @ matrix)[question].astype(np.float32)
        ).astype(float)
        scores -= np.maximum.reduceat(scores, starts)[question]
        odds = np.exp(scores)
        total = np.add.reduceat(odds, starts)
        value = weight @ (np.log(total) - np.add.reduceat(shares * scores, starts))
        off = (odds / total[question] - shares) * weight[question]
        slope = np.add.reduceat(off[:, None].astype(np.float32) * features, starts, axis=0)
        return value + (ridge * matrix**2).sum() / 2, (put.T @ slope + ridge * matrix).ravel()

    fit = minimize(
        loss,
        np.zeros(ridge.size),
        jac=True,
        method="L-BFGS-B",
        bounds=[
            _bounds(name, gate, float(width))
            for gate in gates
            for name, width in zip(rows[0].names, deviation, strict=True)
        ],
        options={"maxiter": 100},
    )
    matrix = fit.x.reshape(ridge.shape) / deviation
    return {
        name: dict(zip(gates, matrix[:, at].tolist(), strict=True))
        for at, name in enumerate(rows[0].names)
    }


def _bounds(name: str, gate: str, deviation: float) -> tuple[float | None, float | None]:
    if gate != "base":
        return None, None
    if name == "date":
        return 0, MOST_OF_DATE * deviation
    return (0 if name in _FOR else None, 0 if name in _AGAINST else None)


def _seen(row: Row, most: int | None) -> NDArray[np.int64]:
    everything = np.arange(len(row.right))
    if most is None or len(everything) <= most + _OTHERS:
        return everything
    names = {name: at for at, name in enumerate(row.names)}
    about = row.features[
        :, [names[name] for name in ("keyword_z", "vector", "conversation_keyword")]
    ].sum(axis=1)
    others = np.random.default_rng(0).choice(len(everything), _OTHERS, replace=False)
    return np.union1d(np.union1d(np.argsort(-about)[:most], others), np.flatnonzero(row.right))


def found_by(rows: Sequence[Row], weights: Weights) -> Array:
    """Return the means of the figures over the questions that have gold."""
    results: list[list[float]] = []
    for row in rows:
        if row.gold:
            factors = np.array(
                [
                    sum(row.gates[gate] * weight for gate, weight in weights[name].items())
                    for name in row.names
                ]
            )
            results.append(figures_of(row.features @ factors, row.right, row.gold))
    means: Array = np.array(results or [[0.0] * 6]).mean(axis=0)
    return means


def report(
    title: str,
    rows: Sequence[Row],
    learned: frozenset[str],
    train: Callable[[Sequence[Row]], Weights],
) -> None:
    """Print any@1, any@5, any@10 and recall@10 of each kind: of its parts, of weights learned
    without its groups, without the kind and all that is made from it, and on the kind alone.
    """
    own = [row for row in rows if row.kind in learned]
    everywhere = train(own)
    names = sorted({part for row in own for part in row.group.split("+")})
    halves = [train([row for row in own if _apart(row, {*names[at::2]})]) for at in range(2)]
    for kind in sorted({row.kind for row in rows}, key=lambda kind: (kind in learned, kind)):
        of = [row for row in rows if row.kind == kind]
        clear = [row for row in of if row.gold and not row.variant]
        if not clear:
            continue
        lines = {
            part: np.mean([row.parts[part] for row in clear], axis=0) for part in clear[0].parts
        }
        if kind in learned:
            each = [[row for row in clear if not _apart(row, {*names[at::2]})] for at in range(2)]
            values = [(found_by(some, halves[at]), len(some)) for at, some in enumerate(each)]
            lines["groups left out"] = sum(value * n for value, n in values) / len(clear)
            groups = {part for row in of for part in row.group.split("+")}
            lines["kind left out"] = found_by(
                clear, train([row for row in own if row.kind != kind and _apart(row, groups)])
            )
        else:
            lines["not learned from"] = found_by(clear, everywhere)
        for name, variant in (("by words alone", "blind"), ("by meaning alone", "deaf")):
            lines[name] = found_by([row for row in of if row.variant == variant], everywhere)
        lines["learned on itself"] = found_by(clear, train(of))
        for name, figures in lines.items():
            shown = " ".join(f"{figures[at]:6.1f}" for at in (3, 4, 5, 2))
            print(f"{title:14} {kind:12} {len(clear):5} {name:18} {shown}", flush=True)


def _apart(row: Row, groups: set[str]) -> bool:
    """Return whether a row has nothing of these histories."""
    return groups.isdisjoint(row.group.split("+"))


def with_unsaid(weights: Weights) -> Weights:
    """Return the weights of messages with what the gate `unsaid` adds."""
    words = ("keyword", "keyword_window", "conversation_keyword")
    added = {name: (WORDS_KEEP - 1) * weights[name]["base"] for name in words}
    added["vector"] = MEANING_GAINS
    return {
        name: of | ({"unsaid": added[name]} if name in added else {})
        for name, of in weights.items()
    }


def table(name: str, says: str, weights: Weights) -> str:
    """Return the weights as Python."""
    lines = [
        f'    "{feature}": {{'
        + ", ".join(f'"{gate}": {value:.3g}' for gate, value in of.items())
        + "},"
        for feature, of in weights.items()
    ]
    return "\n".join([f"{name}: dict[str, dict[str, float]] = {{", *lines, "}", f'"""{says}"""'])


def sampled(labelled: Sequence[Labelled], learned: frozenset[str]) -> list[Labelled]:
    """Return at most `MOST` questions of each kind that is learned from, and all of the others."""
    chance = np.random.default_rng(0)
    chosen = [it for it in labelled if it.kind not in learned]
    for kind in sorted(learned):
        of = [it for it in labelled if it.kind == kind and it.right_conversations.any()]
        places = chance.permutation(len(of))[:MOST]
        chosen += [of[at] for at in sorted(places.tolist())]
    return chosen


def cached_labels(folder: Path, sets: Sequence[Path], groups: Sequence[str]) -> list[Labelled]:
    """Return the retrievers' scores of each group of a set, or of these groups, from its file if
    there is one.
    """
    vectors = RememberedVectors(folder / "vectors")
    labelled: list[Labelled] = []
    for path in sets:
        questions = read_questions(path / QUERIES)
        for group in sorted(questions.keys() & set(groups) if groups else questions):
            file = folder / f"{path.name}.{group}"
            if not file.exists():
                plans = read_conversations(path / recall_sets.FILE, abbreviations=True)
                legs = collect(path.name, plans[group], questions[group], vectors)
                vectors.save()
                file.write_bytes(pickle.dumps(legs))
            labelled += pickle.loads(file.read_bytes())  # noqa: S301 - our own file
    return labelled


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, and print or write the weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--set", type=Path, action="append", required=True, metavar="DIR", help="a recall set"
    )
    parser.add_argument(
        "--measure",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a recall set to report on alone",
    )
    parser.add_argument("--kinds", type=Path, metavar="DIR", help="a folder of sets of other kinds")
    parser.add_argument(
        "--keep", type=Path, required=True, metavar="DIR", help="where vectors and legs are kept"
    )
    parser.add_argument("--write", action="store_true", help="writes recall/fusion_weights.py")
    parser.add_argument("--groups", nargs="+", metavar="NAME", help="only these histories")
    parser.add_argument("--quick", action="store_true", help="learns on all and does no more")
    chosen = parser.parse_args(arguments)
    chosen.keep.mkdir(parents=True, exist_ok=True)
    made = [chosen.kinds / name for name in KINDS] if chosen.kinds else []
    learned = frozenset(path.name for path in (*chosen.set, *made))
    sets = [*chosen.set, *made, *chosen.measure]
    labelled = sampled(cached_labels(chosen.keep, sets, chosen.groups or ()), learned)

    def train_messages(rows: Sequence[Row]) -> Weights:
        return with_unsaid(learn(rows, _MESSAGE_GATES, _HARD))

    def train_conversations(rows: Sequence[Row]) -> Weights:
        return learn(rows, _CONVERSATION_GATES)

    of_messages = [message_row(it) for it in labelled]
    of_messages += [message_row(without_vectors(it), "blind") for it in labelled]
    of_messages += [message_row(without_words(it), "deaf") for it in labelled]
    if not chosen.quick:
        report("messages", of_messages, learned, train_messages)
    first = train_messages([row for row in of_messages if row.kind in learned])
    of_messages.clear()
    of_conversations = [
        conversation_row(it, first)
        for each in labelled
        for it in (each, replace(without_notes(each), kind=f"{each.kind}+bare"))
    ]
    of_conversations += [conversation_row(without_vectors(it), first, "blind") for it in labelled]
    of_conversations += [conversation_row(without_words(it), first, "deaf") for it in labelled]
    learned |= {f"{kind}+bare" for kind in learned}
    if not chosen.quick:
        report("conversations", of_conversations, learned, train_conversations)
    second = train_conversations([row for row in of_conversations if row.kind in learned])
    text = "\n\n".join(
        [
            HEADER,
            table("MESSAGE_WEIGHTS", "Of the features of messages.", first),
            table("CONVERSATION_WEIGHTS", "Of the features of conversations.", second),
        ]
    )
    if chosen.write:
        WEIGHTS.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
