"""Learns `recall/calibration_weights.py`: what makes a score a probability, and says how
far it may be trusted.

`python -m bench.calibrate --set DIR [--set DIR ...] [--measure DIR ...] --keep DIR [--questions
100] [--groups 2] [--write]`; with `--few` instead of `--set`, only the weights of small stores;
with `--unembedded`, only those of what is not embedded yet

A set is a folder as `bench.recall` reads it. `--measure` names sets that are reported on and not
learned from. Each group's history is asked three kinds of questions (`calibration_cases`): its own,
others that nothing in it answers, and small talk. What the retrievers say of each question is kept
in `--keep`, so that a second run takes a minute.

Where words were compared, a message has weights of its own (`learn_compared`): its label is whether
it is gold. Gold is learned from wherever it stands, other messages of a group's own questions count
a quarter (many of them answer in part), and four of seven questions are own ones. What a name in
the question says in a small store (`NAMES`) is learned behind that, also from small histories in
which a name takes the place of the first person (`bench.newcomers`).

Elsewhere the label of a candidate is whether any gold stands at its place in the ranking or further
down. By `SHARES`, seven of ten questions count as the group's own: the probabilities hold for
callers who ask so often about what was said. By words alone it is eight of ten (`OWN_BY_WORDS`), by
the base of what was learned so. The loss is that of a logistic regression with a ridge; no feature
of a candidate's standing may count against it, so that the order stays.

The weights of small stores (`FEW`) are learned behind all others, from one half of the histories of
`bench.newcomers`, whose questions are in other words than their answers. Then their base is moved
until `NOISE` of the questions that nothing answers have a message at the threshold. Nothing is
learned so for searches by words alone: a question in other words finds nothing there.

What was just said and is not embedded yet has weights of its own, learned from the same questions
with the vectors of a conversation taken away (`calibration_unembedded`).
"""

import argparse
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from recollect_server.recall import calibration
from recollect_server.recall.calibration import (
    Signals,
    evidence,
    probabilities,
    signals_of,
    standing,
)
from recollect_server.recall.calibration_weights import ACROSS, COMPARED, CONVERSATIONS, MESSAGES
from recollect_server.recall.fusion import known
from recollect_server.recall.retrievers import Array
from scipy.optimize import minimize  # type: ignore[import-untyped]

from bench import newcomers
from bench.calibration_cases import OWN, STRANGER, TALK, Case, cached_cases
from bench.calibration_unembedded import unembedded_cases
from bench.recall import QUERIES, read_questions

SHARES = {OWN: 0.7, STRANGER: 0.15, TALK: 0.15}
# the same of searches by words alone: what is left out there cannot be found by its meaning
OWN_BY_WORDS = 0.8
RIDGE = 2.0
PER_SET = 300  # questions that a set counts as, whatever it has
_EVERY = 10**6
MOST = 300  # of a kind that was put to a set's histories
WORDS_ONLY = frozenset({"docs", "cloze", "answers", "anon", "dated"})
"""Sets that searches with the model are not learned from: their questions have the words of their
answers, which teaches that meaning says little (`bench/score-calibration.md`).
"""
FEW = ("few", "few_vector", "few_rare")
"""Features of small stores."""
NOISE = 0.07
"""Share of the questions that nothing in a small store answers, of which any message may reach the
threshold in the half that is learned from; the half kept aside has about twice as much.
"""
UNEMBEDDED = "unembedded"
OWN_BY_COMPARING = 4 / 7
"""Share of own questions where words were compared."""
NAMES = ("few_named", "few_missing")
"""Features of questions that name somebody, in small stores."""
BEHIND = 0.05
"""Weight of the distance to the best there. Learned it is 0; so equal texts keep their order."""
# of those: messages of a question, the weight of one that is not among the first three, and of one
# that is not gold
_LEADING, _FAR, _IN_PART = 10, 0.3, 0.25
BUDGET = 2000  # tokens of recall, for the trade-off
THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
_STANDING = ("behind", "rest")
_SIGNS = {
    "rare": (None, None),
    "few": (None, None),
    "few_rare": (None, None),
    "missing": (None, 0),
    "only_stops": (None, 0),
    "everyday": (None, 0),
    "few_named": (None, 0),
    "few_missing": (None, 0),
}  # of weights; any other feature cannot count against
# places of the ranking that are learned from, the first ones in full
_RANKS = np.r_[0:10, 10:30:2, 30:100:7]
WEIGHTS = Path(__file__).parents[1] / "server/src/recollect_server/recall/calibration_weights.py"
HEADER = '''"""The weights of `recall/calibration.py`, for searches by words alone and with meaning.

`bench.calibrate --write` writes them. `bench/README.md` says what they were learned from and how
well they hold elsewhere.
"""'''


@dataclass(frozen=True, slots=True)
class Row:
    """A question that is learned from: its features, and of each place of the ranking whether gold
    is there or below.
    """

    case: Case
    signals: Signals
    evidence: Array
    places: NDArray[np.int64]
    """The candidates, best first."""
    standing: Array
    still: NDArray[np.bool_]


def sampled(cases: Sequence[Case]) -> list[Case]:
    """Return at most `MOST` questions of each kind that was put to a set's histories."""
    chance = random.Random(0)
    by_kind: dict[tuple[str, str], list[Case]] = {}
    for it in cases:
        by_kind.setdefault((it.set, it.kind), []).append(it)
    return [it for of in by_kind.values() for it in chance.sample(of, min(MOST, len(of)))]


def rows_of(it: Case) -> dict[str, Row]:
    """Return the rows learned from a question: of its `messages` and of its `conversations`."""
    of_messages, of_conversations = signals_of(it.fused(), it.messages, it.conversations)
    way = calibration.way_of(it.messages, it.conversations)
    it = replace(it, words=calibration.judged_words(it.words, way))
    return {
        "messages": _row_of(it, of_messages, it.right_messages),
        "conversations": _row_of(it, of_conversations, it.right_conversations),
    }


def _row_of(it: Case, signals: Signals, right: NDArray[np.bool_]) -> Row:
    places = np.argsort(-signals.odds, kind="stable")
    still = np.maximum.accumulate(right[places][::-1])[::-1]
    steps = standing(signals.odds)
    return Row(
        it, signals, np.array([*evidence(signals, it.words).values()]), places,
        np.stack([steps[name] for name in _STANDING], axis=1)[places], still,
    )  # fmt: skip


def rows_of_unembedded(cases: Sequence[Case]) -> dict[str, list[Row]]:
    """Return the rows of the questions whose best message, or conversation, is not embedded."""
    rows: dict[str, list[Row]] = {"messages": [], "conversations": []}
    for case in unembedded_cases(cases):
        for of, row in rows_of(case).items():
            if calibration.way_of_best(row.signals, "meaning") == UNEMBEDDED:
                rows[of].append(row)
    return rows


def learn(rows: Sequence[Row], given: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the weights of a logistic regression: of all features but `FEW`, or of these alone
    behind the `given` weights of the others.
    """
    counts = Counter((row.case.set, row.case.kind) for row in rows)
    names = (*evidence(rows[0].signals, rows[0].case.words), *_STANDING)
    learned = np.array([(name in FEW) == bool(given) for name in names])
    features, labels, weights = [], [], []
    for row in rows:
        at = _RANKS[len(row.places) > _RANKS]
        features.append(
            np.concatenate([np.tile(row.evidence, (len(at), 1)), row.standing[at]], axis=1)
        )
        labels.append(row.still[at])
        share = 1 / (1.0 + at)
        whole = PER_SET * SHARES[row.case.kind] / counts[row.case.set, row.case.kind]
        weights.append(whole * share / share.sum())
    x, y, weight = (
        np.concatenate(features),
        np.concatenate(labels).astype(float),
        np.concatenate(weights),
    )
    before = np.zeros(len(x))
    if given:
        before = given["base"] + x[:, ~learned] @ [
            given[name] for name in np.array(names)[~learned]
        ]
    x = x[:, learned]
    # what is added to given weights is 0 without the features
    mean, deviation = (0 if given else x.mean(axis=0)), x.std(axis=0)
    deviation = np.where(deviation < 1e-6, 1, deviation)
    x = np.concatenate([np.ones((len(x), 1)), (x - mean) / deviation], axis=1)

    def loss(flat: Array) -> tuple[float, Array]:
        logits = before + x @ flat
        value = (weight * (np.logaddexp(0, logits) - y * logits)).sum() + RIDGE * (
            flat[1:] ** 2
        ).sum() / 2
        slope = x.T @ (weight * (1 / (1 + np.exp(-logits)) - y))
        slope[1:] += RIDGE * flat[1:]
        return float(value), slope

    new = [str(name) for name in np.array(names)[learned]]
    bounds = [
        (0, 0) if given else (None, None),
        *(_SIGNS.get(name, (0, None)) for name in new),
    ]
    fit = minimize(
        loss,
        np.zeros(x.shape[1]),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 500},
    )
    slopes = fit.x[1:] / deviation
    fitted = dict(zip(new, map(float, slopes), strict=True))
    if given:
        return {**given, **fitted}
    fitted = {name: fitted.get(name, 0.0) for name in names}
    return {"base": float(fit.x[0] - slopes @ mean)} | fitted


def learn_few(weights: Mapping[str, float], rows: Sequence[Row]) -> dict[str, float]:
    """Return the weights with those of small stores. A row is of a question with a candidate."""
    learned = learn(rows, weights)
    questions = read_questions(newcomers.FOLDER / newcomers.LEARN / QUERIES).values()
    others = [it.query for of in questions for it in of if it.category != newcomers.ANSWERED]
    most = NOISE * len(others)
    strangers = [row for row in rows if row.case.kind != OWN]
    while _noise(strangers, learned) <= most:
        learned["few"] += 0.01
    while _noise(strangers, learned) > most:
        learned["few"] -= 0.01
    return learned


def learn_compared(
    cases: Sequence[Case], given: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the weights of messages whose words were compared: of all features but `NAMES`, or of
    these alone behind the `given` weights of the others, from questions that name somebody.
    """
    all_names = ("even", "vector", "missing", "everyday", *NAMES)
    names = NAMES if given else all_names[: -len(NAMES)]
    counts = Counter((it.set, it.kind == OWN) for it in cases)
    features, labels, weights = [], [], []
    for it in cases:
        if it.matches is None or (given and not it.words.named):
            continue
        best = np.argsort(-it.fused().messages, kind="stable")[:_LEADING]
        best = best[~np.isnan(it.matches.even[best]) & ~it.matches.is_across[best]]
        words, few = calibration.judged_words(it.words, "meaning"), 1 - it.words.vocabulary
        of_names = (few * words.named, few * it.words.missing * (words.named > 0))
        right, own = it.right_messages[best], it.kind == OWN
        rank = 1 / (1.0 + np.arange(len(best))) * np.where(np.arange(len(best)) < 3, 1, _FAR)
        share = rank / rank.sum()
        if own:
            share = np.where(right, np.maximum(share, _FAR), share * _IN_PART)
        features += [
            (
                it.matches.even[at],
                known(it.messages.vector[at]),
                words.missing,
                words.everyday,
                *of_names,
            )
            for at in best
        ]
        labels += [*right]
        of = OWN_BY_COMPARING if own else 1 - OWN_BY_COMPARING
        weights += [*(PER_SET * of / counts[it.set, own] * share)]
    x, y, weight = np.array(features), np.array(labels, float), np.array(weights)
    before = np.zeros(len(x))
    if given:
        before = given["base"] + x @ [
            given.get(name, 0.0) * (name not in NAMES) for name in all_names
        ]
    x = x[:, [all_names.index(name) for name in names]]
    # what is added to given weights is 0 without the features
    mean, deviation = (0 if given else x.mean(axis=0)), (1 if given else x.std(axis=0))
    x = np.concatenate([np.full((len(x), 1), float(not given)), (x - mean) / deviation], axis=1)

    def loss(flat: Array) -> tuple[float, Array]:
        logits = before + x @ flat
        value = (weight * (np.logaddexp(0, logits) - y * logits)).sum() + (flat[1:] ** 2).sum() / 2
        slope = x.T @ (weight * (1 / (1 + np.exp(-logits)) - y))
        slope[1:] += flat[1:]
        return float(value), slope

    bounds = [(None, None), *(_SIGNS.get(name, (0, None)) for name in names)]
    fit = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds)
    slopes = fit.x[1:] / deviation
    learned = dict(zip(names, map(float, slopes), strict=True))
    if given:
        return {**given, **learned}
    return {"base": float(fit.x[0] - slopes @ mean)} | learned | {"behind": BEHIND}


def _noise(rows: Sequence[Row], weights: Mapping[str, float]) -> int:
    """Return how many of the questions have a message at the threshold."""
    best = [probabilities(it.signals, it.case.words, weights).max() for it in rows]
    return int((np.array(best) >= newcomers.THRESHOLD).sum())


def _leaning(weights: dict[str, float], way: str) -> dict[str, float]:
    """Return the weights with the base for the share of own questions that a way of searching
    has.
    """
    if way != "words":
        return weights
    before, now = SHARES[OWN] / (1 - SHARES[OWN]), OWN_BY_WORDS / (1 - OWN_BY_WORDS)
    return weights | {"base": weights["base"] + float(np.log(now / before))}


def report(title: str, rows: Sequence[Row], weights: dict[str, dict[str, float]]) -> None:
    """Print, for each set with its own weights, the trade-off and the reliability."""
    chances = [probabilities(row.signals, row.case.words, weights[row.case.set]) for row in rows]
    print(f"{title}: threshold {' '.join(f'{it:9.1f}' for it in THRESHOLDS)}")
    for name in sorted(weights):
        for kind in SHARES:
            chosen = [
                at for at, row in enumerate(rows) if (row.case.set, row.case.kind) == (name, kind)
            ]
            if not chosen:
                continue
            shown = []
            for threshold in THRESHOLDS:
                packed = [_packed(rows[at], chances[at], threshold) for at in chosen]
                any_of = (
                    f"{100 * np.mean([right for _, right in packed]):4.0f} %"
                    if kind == OWN
                    else " " * 6
                )
                shown.append(f"{any_of}{np.mean([tokens for tokens, _ in packed]):5.0f}")
            print(f"    {name:10} {kind:9} {len(chosen):4} {' '.join(shown)}")
    counts = Counter((row.case.set, row.case.kind) for row in rows)
    for name in sorted(weights):
        of = [at for at, row in enumerate(rows) if row.case.set == name]
        best = np.array([chances[at].max() for at in of])
        right = np.array([rows[at].still[0] for at in of], dtype=float)
        # as the questions are weighed for learning: most of them are the group's own
        weight = np.array(
            [SHARES[rows[at].case.kind] / counts[name, rows[at].case.kind] for at in of]
        )
        inside = [np.clip(best, 0, 0.999) // 0.2 == at for at in range(5)]
        shown = [
            f"{np.average(best[it], weights=weight[it]):.2f}"
            f" {np.average(right[it], weights=weight[it]):.2f} ({it.sum()})"
            for it in inside
            if it.any()
        ]
        print(
            f"    {name:10} best score, and how often anything answers: {'   '.join(shown)}",
            flush=True,
        )


def _packed(row: Row, chances: Array, threshold: float) -> tuple[int, bool]:
    """Return the tokens of the messages that reach the threshold, packed best first into a budget,
    and whether any is right.
    """
    used, right = 0, False
    if len(row.signals.odds) != len(row.case.right_messages):  # conversations have no length here
        return int((chances >= threshold).sum()), bool(
            row.case.right_conversations[chances >= threshold].any()
        )
    for at in row.places:
        tokens = int(row.case.messages.tokens[at])
        if chances[at] < threshold:
            break
        if used + tokens <= BUDGET:
            used += tokens
            right |= bool(row.case.right_messages[at])
    return used, right


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, and print or write the weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--set",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a recall set to learn from",
    )
    parser.add_argument(
        "--measure",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a recall set to report on alone",
    )
    parser.add_argument(
        "--keep", type=Path, required=True, metavar="DIR", help="where vectors and answers are kept"
    )
    parser.add_argument("--questions", type=int, default=100, help="of a group's own")
    parser.add_argument("--groups", type=int, default=2, help="of each set, at the least")
    parser.add_argument("--write", action="store_true", help="writes recall/calibration_weights.py")
    parser.add_argument("--quick", action="store_true", help="learns on all and does no more")
    parser.add_argument(
        "--few", action="store_true", help="learns the weights of small stores alone"
    )
    parser.add_argument(
        "--unembedded",
        action="store_true",
        help="learns the weights of what is not embedded yet alone, with the model",
    )
    chosen = parser.parse_args(arguments)
    if not chosen.few and not chosen.set:
        parser.error("name a --set to learn from, or --few")
    chosen.keep.mkdir(parents=True, exist_ok=True)
    sets = [*chosen.set, *chosen.measure]
    learned: dict[str, dict[str, dict[str, float]]] = {
        "messages": dict(MESSAGES),
        "conversations": dict(CONVERSATIONS),
    }
    ways = (UNEMBEDDED,) if chosen.unembedded else ("words", "meaning", UNEMBEDDED)
    for way in ways if chosen.set else ():
        learned_from = [it for it in chosen.set if way == "words" or it.name not in WORDS_ONLY]
        cases = [
            it for folder in (*learned_from, *chosen.measure)
            for it in cached_cases(chosen.keep, folder, sets, chosen.groups, chosen.questions, meaning=way != "words")
        ]  # fmt: skip
        names = {path.name for path in learned_from}
        rows_by_kind = (
            rows_of_unembedded(sampled(cases))
            if way == UNEMBEDDED
            else _rows_by_kind([rows_of(it) for it in sampled(cases)])
        )
        for of, weights in learned.items():
            rows = rows_by_kind[of]
            own = [row for row in rows if row.case.set in names]
            weights[way] = _leaning(learn(own), way)
            report(
                f"{of}, {way}, learned on all",
                rows,
                dict.fromkeys(sorted({row.case.set for row in rows}), weights[way]),
            )
            if chosen.quick:
                continue
            away = {
                name: _leaning(learn([row for row in own if row.case.set != name]), way)
                for name in sorted(names)
            }
            report(f"{of}, {way}, the set left out", own, away)
    compared = dict(COMPARED)
    if not chosen.unembedded:
        _learn_few(chosen, sets, learned)
        if chosen.set:
            named = [it for it in chosen.set if it.name not in WORDS_ONLY]
            cases = [
                it for folder in named
                for it in cached_cases(chosen.keep, folder, sets, chosen.groups, chosen.questions, meaning=True)
            ]  # fmt: skip
            half = newcomers.FOLDER / newcomers.LEARN
            cases += cached_cases(chosen.keep, half, [], _EVERY, _EVERY, meaning=True)
            half = newcomers.FOLDER / newcomers.NAMED
            named_cases = cached_cases(chosen.keep, half, [], _EVERY, _EVERY, meaning=True)
            compared = learn_compared([*cases, *named_cases], learn_compared(cases))
    text = "\n\n".join(
        [
            HEADER,
            *(_table(of.upper(), f"Of {of}.", weights) for of, weights in learned.items()),
            _dict("COMPARED", compared),
            '"""Of messages and notes whose words were compared with the question\'s."""',
            _dict("ACROSS", ACROSS),
            '"""The same where the model of other languages compared them (`bench.household`)."""',
        ]
    )
    if chosen.write:
        WEIGHTS.write_text(text + "\n")
    else:
        print(text)


def _dict(name: str, weights: Mapping[str, float]) -> str:
    values = ", ".join(f'"{key}": {value:.3g}' for key, value in weights.items())
    return f"{name}: dict[str, float] = {{{values}}}"


def _rows_by_kind(rows: Sequence[Mapping[str, Row]]) -> dict[str, list[Row]]:
    return {of: [it[of] for it in rows] for of in ("messages", "conversations")}


def _learn_few(
    chosen: argparse.Namespace,
    sets: Sequence[Path],
    learned: dict[str, dict[str, dict[str, float]]],
) -> None:
    """Learn the weights of small stores, and report on the sets that are measured."""
    half = newcomers.FOLDER / newcomers.LEARN
    cases = cached_cases(chosen.keep, half, [], _EVERY, _EVERY, meaning=True)
    few = [rows_of(it) for it in cases]
    for of, weights in learned.items():
        weights["meaning"] = learn_few(weights["meaning"], [it[of] for it in few])
    for folder in chosen.measure if chosen.few else ():
        cases = cached_cases(
            chosen.keep, folder, sets, chosen.groups, chosen.questions, meaning=True
        )
        for of, weights in learned.items():
            rows = [rows_of(it)[of] for it in sampled(cases)]
            report(f"{of}, meaning, small stores learned", rows, {folder.name: weights["meaning"]})


def _table(name: str, says: str, weights: dict[str, dict[str, float]]) -> str:
    lines = [
        f'    "{way}": {{' + ", ".join(f'"{key}": {value:.3g}' for key, value in of.items()) + "},"
        for way, of in weights.items()
    ]
    return "\n".join([f"{name}: dict[str, dict[str, float]] = {{", *lines, "}", f'"""{says}"""'])


if __name__ == "__main__":
    main()
