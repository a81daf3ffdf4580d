"""Learn which sentences of a user say something lasting of that user: `python -m bench.statements`.

The sentences beside this file were written for it, in nine languages, with hard negatives: tasks,
questions, pasted text, fiction, what is said of others. A network over the directions of a
sentence's word pieces, which the server keeps anyway, learns ten classes from them, and writes
the weights of both models to `models/`: those of the English model from English alone. Sentences
stand alone and in made-up messages of two or three, for a model reads each with what is around it;
the short ones of `standing.jsonl` (a wish that stays, made of few words, beside the same wish for
once; a fact beside a question) alone, those of `messages.jsonl` in the messages that they were
written in, of people beside an assistant and of people who chat with each other; those of
`voices.jsonl` (a task for now, feedback, praise and progress beside a wish that stays in the same
voice) in both. `held.jsonl`, `held_messages.jsonl`, `held_talk.jsonl` and `held_changes.jsonl`
(long ones that tell and ask at once, corrections, short ones) were written by others,
`held_voices.jsonl` before anything was learned from `voices.jsonl`: printed is how well their
sentences are classified, for each language, at some thresholds.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from recollect_server.recall.model.embedder import Embedder
from recollect_server.recall.model.statement import StatementKind
from recollect_server.recall.model.statement_classes import (
    LEAST_TALK,
    Pieces,
    marks_of,
    talk_features,
)
from recollect_server.recall.model.weights import E5, MINILM, look, shipped

from bench.statements.learning import Classes, Vectors, network, regression, softmax

HERE = Path(__file__).parent
CLASSES = ["none", *(kind.name.lower() for kind in StatementKind)]
_TALK_PENALTY = 20.0
_AT_ONCE = 64
_THRESHOLDS = (0.5, 0.65, 0.8, 0.9)
Row = dict[str, Any]


class Read(NamedTuple):
    """A sentence as the server reads it from the codes of its message."""

    row: Row
    directions: NDArray[np.float16]


def sentences(names: Iterable[str]) -> list[Row]:
    """Return the sentences of files beside this one."""
    return [
        json.loads(line)
        for name in names
        for line in (HERE / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]


def read(embedder: Embedder, messages: Sequence[Sequence[Row]]) -> list[Read]:
    """Return the sentences of messages, in those messages whose sentences the server tells apart
    as they were written.
    """
    codes = embedder.word_codes
    assert codes is not None
    every: list[Read] = []
    for start in range(0, len(messages), _AT_ONCE):
        part = messages[start : start + _AT_ONCE]
        texts = [" ".join(row["text"] for row in rows) for rows in part]
        embedded = embedder.embed_pieces([embedder.cut(text)[0] for text in texts])
        for rows, text, it in zip(part, texts, embedded, strict=True):
            if len(rows) == 1:
                directions = [codes.values(it.codes)]
            else:
                spans = embedder.sentences(text, 0, it.codes.tobytes())
                if [text[one.start : one.end] for one in spans] != [row["text"] for row in rows]:
                    continue
                directions = [one.directions for one in spans]
            halves = (it.astype(np.float16) for it in directions)
            every += [Read(*both) for both in zip(rows, halves, strict=True)]
    return every


def in_messages(rows: Sequence[Row]) -> list[list[Row]]:
    """Return sentences in messages of two and of three, each in both."""
    draw = np.random.default_rng(0)
    groups: list[NDArray[np.int64]] = []
    languages = np.array([row["lang"] for row in rows])
    for language in sorted({*languages}):
        order = draw.permutation(np.flatnonzero(languages == language))
        groups += np.split(order, np.arange(2, len(order), 2)) + np.split(
            order[::-1], np.arange(3, len(order), 3)
        )
    return [[rows[at] for at in group] for group in groups if len(group) > 1]


def inputs_of(sentences: Sequence[Read]) -> tuple[list[Vectors], Vectors, Classes]:
    """Return the directions, the marks and the classes of sentences."""
    directions = [it.directions.astype(np.float32) for it in sentences]
    marks = np.array([marks_of(it.row["text"]) for it in sentences])
    return directions, marks, np.array([CLASSES.index(it.row["label"]) for it in sentences])


def _report(rows: list[Row], chances: Vectors) -> None:
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
        weights = regression(vectors[fifth != part], is_talk[fifth != part], _TALK_PENALTY)
        of_part = vectors[fifth == part] @ weights[:-1] + weights[-1]
        chances[fifth == part] = softmax(of_part)[:, 1]
    named = chances >= LEAST_TALK
    right = (named & (is_talk == 1)).sum()
    print(f"  small talk: precision {right / named.sum():.2f}, recall {right / is_talk.sum():.2f}")


def _area(sure: Vectors, is_one: NDArray[np.bool_], within: NDArray[np.bool_]) -> float:
    good, bad = sure[within & is_one], sure[within & ~is_one]
    return float((good[:, None] > bad[None]).mean())


def main() -> None:
    """Learn the weights of both models, and print how they classify held sentences."""
    languages = sorted(it.stem for it in HERE.glob("??.jsonl"))
    for profile, in_languages in ((MINILM, ["en"]), (E5, languages)):

        def rows_of(*names: str, of: Sequence[str] = in_languages) -> list[Row]:
            return [row for row in sentences(names) if row["lang"] in of]

        # without the classifier that there is: it may be of another form
        embedder = Embedder(look(shipped(profile), replace(profile, statements="")))
        rows = rows_of(*in_languages, "tasks", "requests")
        voices = _messages("voices", in_languages)
        learned = read(
            embedder,
            [
                *([row] for row in (*rows, *rows_of("standing"))),
                *in_messages(rows),
                *_messages("messages", in_languages),
                *voices,
                *in_messages([it for it, *others in voices if not others]),
            ],
        )
        weights = network(*inputs_of(learned))
        print(f"{profile.name}: {len(learned)} sentences")
        for name, held in (
            ("held", [[row] for row in rows_of("held")]),
            ("held_messages", _messages("held_messages", in_languages)),
            ("held_talk", _messages("held_talk", in_languages)),
            ("held_changes", _messages("held_changes", in_languages)),
            ("held_voices", _messages("held_voices", in_languages)),
        ):
            of_held = read(embedder, held)
            directions, marks, _ = inputs_of(of_held)
            print(f" {name}: {len(of_held)} sentences")
            _report([it.row for it in of_held], weights.probabilities(Pieces.of(directions), marks))
        talk, is_talk = _talk(embedder, rows_of("talk"))
        _report_talk(talk, is_talk)
        np.savez(
            shipped(profile) / profile.statements,
            hidden=weights.hidden.astype(np.float16),
            classes=weights.classes.astype(np.float16),
            talk=regression(talk, is_talk, _TALK_PENALTY).astype(np.float16),
        )


def _messages(name: str, languages: Sequence[str]) -> list[list[Row]]:
    return [
        [{**sentence, "lang": row["lang"]} for sentence in row["message"]]
        for row in sentences([name])
        if row["lang"] in languages
    ]


def _talk(embedder: Embedder, rows: list[Row]) -> tuple[Vectors, Classes]:
    """Return the features of messages that are answered, and whether each is small talk."""
    codes = embedder.word_codes
    assert codes is not None
    questions = [(row, embedder.ask(row["text"]).words) for row in rows]
    both = [
        (talk_features(row["text"], codes.values_of(it)), row["label"] == "talk")
        for row, it in questions
        if it
    ]
    return np.array([it for it, _ in both]), np.array([it for _, it in both], np.int64)


if __name__ == "__main__":
    main()
