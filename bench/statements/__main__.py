"""Learn which sentences of a user say something lasting of that user: `python -m bench.statements`.

The sentences beside this file were written for it, in nine languages, with hard negatives: tasks,
questions, pasted text, fiction, what is said of others. A softmax regression over the directions of
a sentence's word pieces, which the server keeps anyway, learns ten classes from them, and writes
the weights of both models to `models/`: those of the English model from English alone. The
short ones of `standing.jsonl` (a wish that stays, made of few words, beside the same wish for once;
a fact beside a question) stand alone in their messages. The sentences of `held.jsonl` were written
by somebody else: printed is how well these are classified, for each language, at some thresholds.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from recollect_server.recall.model.embedder import Embedder
from recollect_server.recall.model.statement import StatementKind
from recollect_server.recall.model.statement_classes import LEAST_TALK, features_of
from recollect_server.recall.model.weights import E5, MINILM, Profile, look, shipped

HERE = Path(__file__).parent
CLASSES = ["none", *(kind.name.lower() for kind in StatementKind)]
_STEPS, _RATE, _TALK_PENALTY = 600, 0.03, 20.0
_AT_ONCE = 64
_THRESHOLDS = (0.5, 0.65, 0.8, 0.9)
Vectors = NDArray[np.float32]


def sentences(names: Iterable[str]) -> list[dict[str, str]]:
    """Return the sentences of files beside this one."""
    return [
        json.loads(line)
        for name in names
        for line in (HERE / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]


def features(profile: Profile, texts: Sequence[str], *, as_questions: bool = False) -> Vectors:
    """Return the features of each text, as the server's classifier reads them: of messages that are
    kept, or of those that are answered.
    """
    # without the classifier that there is: it may be of other features
    embedder = Embedder(look(shipped(profile), replace(profile, statements="")))
    codes = embedder.word_codes
    assert codes is not None
    vectors: list[Vectors] = []
    if as_questions:
        questions = ((text, embedder.ask(text).words) for text in texts)
        return np.array([features_of(text, codes.values_of(it)) for text, it in questions if it])
    for start in range(0, len(texts), _AT_ONCE):
        part = texts[start : start + _AT_ONCE]
        embedded = embedder.embed_pieces([embedder.cut(text)[0] for text in part])
        vectors += [
            features_of(text, codes.values(it.codes))
            for text, it in zip(part, embedded, strict=True)
        ]
    return np.array(vectors, np.float32)


def in_messages(
    profile: Profile, rows: Sequence[dict[str, str]], classes: NDArray[np.int64]
) -> tuple[Vectors, NDArray[np.int64]]:
    """Return the features of sentences as they stand in messages of two or three, and their
    classes: a model reads each with what is around it.
    """
    embedder = Embedder(look(shipped(profile), replace(profile, statements="")))
    draw = np.random.default_rng(0)
    groups: list[NDArray[np.int64]] = []
    languages = np.array([row["lang"] for row in rows])
    for language in sorted({*languages}):
        order = draw.permutation(np.flatnonzero(languages == language))
        groups += np.split(order, np.arange(2, len(order), 2)) + np.split(
            order[::-1], np.arange(3, len(order), 3)
        )
    vectors: list[Vectors] = []
    labels: list[int] = []
    for start in range(0, len(groups), _AT_ONCE):
        part = groups[start : start + _AT_ONCE]
        texts = [" ".join(rows[at]["text"] for at in group) for group in part]
        embedded = embedder.embed_pieces([embedder.cut(text)[0] for text in texts])
        for group, text, it in zip(part, texts, embedded, strict=True):
            spans = embedder.sentences(text, 0, it.codes.tobytes())
            if [text[one.start : one.end] for one in spans] == [rows[at]["text"] for at in group]:
                vectors += [one.features for one in spans]
                labels += [int(classes[at]) for at in group]
    return np.array(vectors, np.float32), np.array(labels)


def fitted(vectors: Vectors, classes: NDArray[np.int64], penalty: float) -> Vectors:
    """Return the weights of a softmax regression, the constant last: [features + 1, classes]."""
    mean, deviation = vectors.mean(axis=0), vectors.std(axis=0) + 1e-6
    inputs = np.c_[(vectors - mean) / deviation, np.ones(len(vectors))]
    targets = np.eye(classes.max() + 1)[classes]
    weights = np.zeros((inputs.shape[1], classes.max() + 1))
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, _STEPS + 1):
        slope = inputs.T @ (_softmax(inputs @ weights) - targets)
        slope[:-1] += penalty * weights[:-1]
        slope /= len(inputs)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope * slope
        rate = _RATE / (1 - 0.9**step)
        weights -= rate * first / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    scaled = weights[:-1] / deviation[:, None]
    return np.asarray(np.r_[scaled, weights[-1:] - mean @ scaled], np.float32)


def probabilities(weights: Vectors, vectors: Vectors) -> Vectors:
    """Return the probability of each class for each sentence."""
    return _softmax(vectors @ weights[:-1] + weights[-1])


def _softmax(logits: Vectors) -> Vectors:
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def _report(rows: list[dict[str, str]], chances: Vectors) -> None:
    classes = np.array([CLASSES.index(row["label"]) for row in rows])
    languages = np.array([row["lang"] for row in rows])
    is_one, sure = classes > 0, 1 - chances[:, 0]
    for threshold in _THRESHOLDS:
        named = sure >= threshold
        right = (named & is_one).sum()
        print(
            f"  from {threshold}: precision {right / named.sum():.2f}, recall {right / is_one.sum():.2f}"
        )
    kinds = (chances[:, 1:].argmax(axis=1) + 1 == classes)[is_one].mean()
    print(f"  the right kind of {kinds:.2f}")
    print(
        "  AUC",
        *(f"{it} {_area(sure, is_one, languages == it):.2f}" for it in sorted({*languages})),
    )


def _report_talk(vectors: Vectors, is_talk: NDArray[np.int64]) -> None:
    """Print how well small talk that was not learned is recognised: each fifth by the others."""
    chances = np.zeros(len(vectors))
    fifth = np.random.default_rng(0).permutation(len(vectors)) % 5
    for part in range(5):
        weights = fitted(vectors[fifth != part], is_talk[fifth != part], _TALK_PENALTY)
        chances[fifth == part] = probabilities(weights, vectors[fifth == part])[:, 1]
    named = chances >= LEAST_TALK
    right = (named & (is_talk == 1)).sum()
    print(f"  small talk: precision {right / named.sum():.2f}, recall {right / is_talk.sum():.2f}")


def _area(sure: Vectors, is_one: NDArray[np.bool_], within: NDArray[np.bool_]) -> float:
    good, bad = sure[within & is_one], sure[within & ~is_one]
    return float((good[:, None] > bad[None]).mean())


def main() -> None:
    """Learn the weights of both models, and print how they classify held sentences."""
    languages = sorted(it.stem for it in HERE.glob("??.jsonl"))
    every = sentences([*languages, "tasks"])
    short = sentences(["standing"])
    for profile, read, penalty in ((MINILM, ["en"], 10.0), (E5, languages, 30.0)):
        rows, alone, held, talk = (
            [row for row in part if row["lang"] in read]
            for part in (every, short, sentences(["held"]), sentences(["talk"]))
        )
        learned = [*rows, *alone]
        inputs = features(profile, [row["text"] for row in (*learned, *held)])
        of_rows, of_held = inputs[: len(learned)], inputs[len(learned) :]
        of_talk = features(profile, [row["text"] for row in talk], as_questions=True)
        classes = np.array([CLASSES.index(row["label"]) for row in learned])
        around, of_around = in_messages(profile, rows, classes[: len(rows)])
        weights = fitted(np.r_[of_rows, around], np.r_[classes, of_around], penalty)
        print(f"{profile.name}: {len(learned)} sentences, {len(held)} held")
        _report(held, probabilities(weights, of_held))
        is_talk = np.array([row["label"] == "talk" for row in talk], np.int64)
        _report_talk(of_talk, is_talk)
        np.savez(
            shipped(profile) / profile.statements,
            weights=weights.astype(np.float16),
            talk=fitted(of_talk, is_talk, _TALK_PENALTY).astype(np.float16),
        )


if __name__ == "__main__":
    main()
