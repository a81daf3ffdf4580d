"""Learn `services/recall/fusion_weights.py` from labelled questions, and measure the weights where
they were not learned.

`python -m bench.learn --set DIR [--set DIR ...] --kinds DIR --keep DIR [--write]`

A set is a folder as `bench.recall` reads it. `--kinds` has sets of other kinds (`bench.kinds` makes
them from the sets), each of which counts as much as `KIND` questions. What the legs say is kept in
`--keep`: the first run embeds everything, later ones take minutes.

The loss is the negative log of the chance that a softmax over the scores gives to the gold
(listwise, as in ListNet), with a ridge on every weight, a stronger one on what a gate adds. Every
question counts a second time, lightly, without any vector: so the gate `blind` is learned.
"""

import argparse
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from recollect.cli import recall_sets
from recollect_server.services.recall.fusion import (
    conversation_features,
    dates_of,
    gates_of,
    message_features,
    weighted,
)
from recollect_server.services.recall.retrievers import ConversationLegs
from scipy.optimize import minimize  # type: ignore[import-untyped]

from bench.legs import Labelled, RememberedVectors, collect
from bench.recall import QUERIES, read_conversations, read_questions

Array = NDArray[np.float64]
Weights = dict[str, dict[str, float]]

RIDGE, GATE_RIDGE = 5.0, 20.0
KIND = 300
KIND_OF_CONVERSATIONS = 20  # nearly all of theirs are found anyhow
BLIND = 0.2
DEPTH = 10
# messages of a question that are learned from: those that look best, and others
_HARD, _OTHERS = 90, 40
_MESSAGE_GATES = ("base", "asks", "long", "own", "blind")
_CONVERSATION_GATES = (*_MESSAGE_GATES[:-1], "notes", "blind")
HEADER = """\"\"\"The weights of `services/recall/fusion.py`: of each feature a base, and what each gate adds.

`bench.learn --write` writes them. Learned from 997 questions over five dialogues of LoCoMo
(Maharana et al. 2024), 728 of five people of RealMem (2026), and the seven kinds that `bench.kinds`
makes; `bench/README.md` says what they are worth on kinds left out.
\"\"\""""
WEIGHTS = (
    Path(__file__).parents[1] / "server/src/recollect_server/services/recall/fusion_weights.py"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A question: features [candidates, features], gates, which candidates are right, and how many
    there are in all.
    """

    kind: str
    group: str
    features: Array
    names: tuple[str, ...]
    gates: dict[str, float]
    right: NDArray[np.bool_]
    gold: int
    weight: float


def without_vectors(it: Labelled) -> Labelled:
    """Return the same question as it is when nothing is known by meaning."""
    no_messages, no_conversations = (
        np.full(len(it.messages.time), np.nan),
        np.full(len(it.conversations.begin), np.nan),
    )
    messages = replace(
        it.messages,
        **dict.fromkeys(
            (
                "vector",
                "vector_before",
                "vector_after",
                "window",
                "role",
                "answers_question",
                "named",
            ),
            no_messages,
        ),
    )
    names = ("vector", "user_vector", "window", "vector_mean", "abbreviation")
    conversations = replace(
        it.conversations,
        mean_vector=np.zeros_like(it.conversations.mean_vector),
        **dict.fromkeys(names, no_conversations),
    )
    return replace(it, messages=messages, conversations=conversations)


def without_notes(it: Labelled) -> Labelled:
    """Return the same question where no conversation has an abbreviation."""
    legs: ConversationLegs = replace(
        it.conversations, abbreviation=np.full(len(it.conversations.begin), np.nan)
    )
    return replace(it, conversations=legs)


def message_row(it: Labelled, weight: float) -> Row:
    """Return the training row of a question's messages."""
    features = message_features(it.messages, it.conversations, dates_of(it.question, it.messages))
    return Row(
        it.kind, it.group, np.stack([*features.values()], axis=1), (*features,),
        gates_of(it.question, it.messages, it.conversations), it.right_messages, it.gold_messages, weight,
    )  # fmt: skip


def conversation_row(it: Labelled, weight: float, of_messages: Weights) -> Row:
    """Return the training row of its conversations, given the weights of messages."""
    dates = dates_of(it.question, it.messages)
    gates = gates_of(it.question, it.messages, it.conversations)
    scores = weighted(message_features(it.messages, it.conversations, dates), of_messages, gates)
    features = conversation_features(it.messages, it.conversations, dates, scores)
    return Row(
        it.kind, it.group, np.stack([*features.values()], axis=1), (*features,),
        gates, it.right_conversations, it.gold_conversations, weight,
    )  # fmt: skip


def learn(rows: Sequence[Row], gates: Sequence[str], most: int | None = None) -> Weights:
    """Return the weights that make the right candidates the likeliest. `most` bounds the candidates
    of each question.
    """
    rows = [row for row in rows if row.right.any()]
    chosen = [_seen(row, most) for row in rows]
    features = np.concatenate(
        [row.features[at] for row, at in zip(rows, chosen, strict=True)]
    ).astype(np.float32)
    right = np.concatenate([row.right[at] for row, at in zip(rows, chosen, strict=True)])
    counts = np.array([len(at) for at in chosen])
    starts = np.cumsum(counts) - counts
    question = np.repeat(np.arange(len(rows)), counts)
    put = np.array([[row.gates[gate] for gate in gates] for row in rows])
    weight = np.array([row.weight for row in rows])
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
        loss, np.zeros(ridge.size), jac=True, method="L-BFGS-B", options={"maxiter": 100}
    )
    matrix = fit.x.reshape(ridge.shape) / deviation
    return {
        name: dict(zip(gates, matrix[:, at].tolist(), strict=True))
        for at, name in enumerate(rows[0].names)
    }


def _seen(row: Row, most: int | None) -> NDArray[np.int64]:
    everything = np.arange(len(row.right))
    if most is None or len(everything) <= most + _OTHERS:
        return everything
    names = {name: at for at, name in enumerate(row.names)}
    about = row.features[
        :, [names[name] for name in ("keyword_z", "vector", "window", "conversation_keyword")]
    ].sum(axis=1)
    others = np.random.default_rng(0).choice(len(everything), _OTHERS, replace=False)
    return np.union1d(np.union1d(np.argsort(-about)[:most], others), np.flatnonzero(row.right))


def found_by(rows: Sequence[Row], weights: Weights) -> tuple[float, float]:
    """Return the mean share of the gold among the first ten, and the share of questions with any
    there; in percent.
    """
    shares: list[float] = []
    anys: list[bool] = []
    for row in rows:
        if row.gold:
            matrix = np.array(
                [
                    sum(row.gates[gate] * weight for gate, weight in weights[name].items())
                    for name in row.names
                ]
            )
            first = np.argsort(-(row.features @ matrix), kind="stable")[:DEPTH]
            hits = int(row.right[first].sum())
            shares.append(hits / row.gold)
            anys.append(hits > 0)
    return 100 * float(np.mean(shares or [0.0])), 100 * float(np.mean(anys or [False]))


def folds(rows: Sequence[Row]) -> list[set[str]]:
    """Group that are left out together: a history, and whatever was made from it."""
    names = sorted({part for row in rows for part in row.group.split("+")})
    return [set(names[at::5]) for at in range(5)]


def report(
    title: str,
    rows: Sequence[Row],
    kinds: Sequence[str],
    train: Callable[[Sequence[Row]], Weights],
    at: int,
) -> None:
    """Print what weights find on each kind: learned on all, group by group left out, on the kind
    alone, on all but the kind.
    """
    own = {kind: [row for row in rows if row.kind == kind] for kind in kinds}
    clear = {kind: [row for row in own[kind] if not row.gates["blind"]] for kind in kinds}

    def line(name: str, figures: dict[str, float]) -> None:
        print(
            f"{title:14} {name:34} "
            + " ".join(f"{kind[:9]:>9} {value:5.1f}" for kind, value in figures.items()),
            flush=True,
        )

    weights = train(rows)
    line("learned on all", {kind: found_by(clear[kind], weights)[at] for kind in kinds})
    line(
        "  the same, nothing by meaning",
        {k: found_by([r for r in own[k] if r.gates["blind"]], weights)[at] for k in kinds},
    )
    parts: dict[str, list[tuple[float, int]]] = {kind: [] for kind in kinds}
    for fold in folds(rows):
        away = [not fold.isdisjoint(row.group.split("+")) for row in rows]
        weights = train([row for row, out in zip(rows, away, strict=True) if not out])
        for kind in kinds:
            tested = [
                row
                for row, out in zip(rows, away, strict=True)
                if out and row.kind == kind and not row.gates["blind"]
            ]
            tested = [row for row in tested if row.gold]
            parts[kind].append((found_by(tested, weights)[at], len(tested)))
    line(
        "groups left out",
        {k: sum(v * n for v, n in p) / max(1, sum(n for _, n in p)) for k, p in parts.items()},
    )
    line(
        "the kind left out",
        {k: found_by(clear[k], train([row for row in rows if row.kind != k]))[at] for k in kinds},
    )


def table(name: str, says: str, weights: Weights) -> str:
    """Return the weights as Python."""
    lines = [
        f'    "{feature}": {{'
        + ", ".join(f'"{gate}": {value:.3g}' for gate, value in of.items())
        + "},"
        for feature, of in weights.items()
    ]
    return "\n".join([f"{name}: dict[str, dict[str, float]] = {{", *lines, "}", f'"""{says}"""'])


def cached_labels(folder: Path, sets: Sequence[Path]) -> list[Labelled]:
    """Return the retrievers' scores of each set, from its file if there is one."""
    vectors = RememberedVectors(folder / "vectors")
    labelled: list[Labelled] = []
    for path in sets:
        file = folder / f"{path.name}.legs"
        if not file.exists():
            plans = read_conversations(path / recall_sets.FILE, abbreviations=True)
            questions = read_questions(path / QUERIES)
            legs = [
                it
                for group in questions
                for it in collect(path.name, plans[group], questions[group], vectors)
            ]
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
    parser.add_argument("--kinds", type=Path, metavar="DIR", help="a folder of sets of other kinds")
    parser.add_argument(
        "--keep", type=Path, required=True, metavar="DIR", help="where vectors and legs are kept"
    )
    parser.add_argument(
        "--write", action="store_true", help="writes services/recall/fusion_weights.py"
    )
    parser.add_argument("--quick", action="store_true", help="learns on all and does no more")
    chosen = parser.parse_args(arguments)
    chosen.keep.mkdir(parents=True, exist_ok=True)
    others = (
        sorted(path for path in chosen.kinds.iterdir() if path.is_dir()) if chosen.kinds else []
    )
    labelled = cached_labels(chosen.keep, [*chosen.set, *others])
    sizes = {path.name: sum(it.kind == path.name for it in labelled) for path in others}

    def weight(it: Labelled, most: int = KIND) -> float:
        return most / sizes[it.kind] if it.kind in sizes else 1.0

    of_messages = [message_row(without_notes(it), weight(it)) for it in labelled]
    of_messages += [message_row(without_vectors(it), BLIND * weight(it)) for it in labelled]

    def train_messages(rows: Sequence[Row]) -> Weights:
        return learn(rows, _MESSAGE_GATES, _HARD)

    kinds = [path.name for path in (*chosen.set, *others)]
    if not chosen.quick:
        report("messages", of_messages, kinds, train_messages, 1)
    first = train_messages(of_messages)
    noted = [it for it in labelled if not np.isnan(it.conversations.abbreviation).all()]
    of_conversations = [
        conversation_row(without_notes(it), weight(it, KIND_OF_CONVERSATIONS), first)
        for it in labelled
    ]
    of_conversations += [
        conversation_row(
            replace(it, kind=f"{it.kind}+notes"), weight(it, KIND_OF_CONVERSATIONS), first
        )
        for it in noted
    ]
    of_conversations += [
        conversation_row(without_vectors(it), BLIND * weight(it, KIND_OF_CONVERSATIONS), first)
        for it in labelled
    ]

    def train_conversations(rows: Sequence[Row]) -> Weights:
        return learn(rows, _CONVERSATION_GATES)

    if not chosen.quick:
        report(
            "conversations",
            of_conversations,
            [*kinds, *{f"{it.kind}+notes" for it in noted}],
            train_conversations,
            0,
        )
    second = train_conversations(of_conversations)
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
    for name, rows, weights, at in (
        ("messages", of_messages, first, 1),
        ("conversations", of_conversations, second, 0),
    ):
        for kind in sorted({row.kind for row in rows}):
            print(
                f"{name} {kind} {found_by([r for r in rows if r.kind == kind and not r.gates['blind']], weights)[at]:.1f}"
            )


if __name__ == "__main__":
    main()
