"""LongMemEval and LoCoMo, two public benchmarks of long-term memory, by the rules of their own
scorers, on a copy of their data that you downloaded. Neither is part of this tree.

`python -m bench.published longmemeval longmemeval_s.json [--questions N] [--words]`
`python -m bench.published locomo locomo10.json [--questions N] [--words]`

Nothing is answered by a language model: what is measured is whether Search finds the evidence.
`--words` switches the embedder off. `--questions` takes so many of each kind, spread evenly.

LongMemEval (`xiaowu0162/LongMemEval`, `src/retrieval/eval_utils.py` and `run_retrieval.py`): every
question has a history of its own, some 50 sessions, and so gets a server of its own. The 30
questions that nothing answers (`_abs`) are left out. Of the k best sessions, `recall_any` is 1 if
any of the right ones is among them, `recall_all` if all are, and `ndcg_any` the normalised
discounted gain. Right are the sessions in `answer_session_ids`. The scorer itself judges the
sessions as its baselines index them, by what the user says alone: there those without any user's
turn with `has_answer` are wrong, and a question whose evidence the assistant said cannot be
answered ("user's turns"); for turns it knows these alone. Each session is a conversation, asked at
the question's date.

LoCoMo (`snap-research/locomo`, `task_eval/evaluation.py`): ten conversations of some 20 sessions;
all questions of one are put to one server. `recall` is the share of a question's evidence that is
among the k best turns, or whose session is among the k best sessions; a question that names none
counts as 1, as in the scorer. `any` is the share of the questions with evidence that have some
among the k best. A picture is the caption that the data has.
"""

import argparse
import re
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from recollect import Client, DateRange

from bench.figures import Figure
from bench.recall import Question, Service, plain_fts5, read_conversations, whole
from bench.servers import embedded, recollect

DEPTHS = (1, 3, 5, 10)
LOCOMO_DEPTHS = (5, 10, 25, 50)
LOCOMO_KINDS = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single-hop", 5: "adversarial"}
_MOST = 100  # of results and hits that Search returns
_BETWEEN = timedelta(seconds=20)  # two turns of a session, which have no times of their own
_LONGMEMEVAL, _LOCOMO = "longmemeval", "locomo"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A question with its evidence."""

    question: str
    kind: str
    time: datetime | None
    sessions: frozenset[str]
    """The right conversations, by name."""
    turns: frozenset[str]
    """The right messages, by name."""
    sessions_by_user: frozenset[str] = frozenset()
    """The right conversations with evidence in a turn of the user."""


@dataclass(frozen=True, slots=True)
class History:
    """The conversations that some questions are about, as lines of a recall set."""

    lines: list[Json]
    questions: list[Labelled]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Names of what was found, best first."""

    sessions: list[str]
    turns: list[str]


# LongMemEval --------------------------------------------------------------------------------------


def longmemeval(path: Path) -> Iterator[History]:
    """Yield the history of each question that has an answer."""
    for entry in orjson.loads(path.read_bytes()):
        if "_abs" not in entry["question_id"]:
            yield _longmemeval_history(entry)


def _longmemeval_history(entry: Json) -> History:
    lines: list[Json] = []
    right: set[str] = set()
    by_user: set[str] = set()
    right_turns: set[str] = set()
    end = _date(entry["question_date"])
    sessions = zip(
        entry["haystack_session_ids"],
        entry["haystack_dates"],
        entry["haystack_sessions"],
        strict=True,
    )
    for place, (session, date, turns) in enumerate(sessions):
        # the place, because a session may stand in a history twice
        name, began = f"{place}:{session}", _date(date)
        line = _line(name, began, [(it["role"], "", it["content"]) for it in turns])
        lines.append(line)
        end = max(end, began + len(turns) * _BETWEEN)
        if session in entry["answer_session_ids"]:
            right.add(name)
        evidence = {
            f"{name}/{at}u"
            for at, it in enumerate(turns)
            if it.get("has_answer") and it["role"] == "user"
        }
        if evidence and "answer" in session:
            by_user.add(name)
            right_turns |= evidence
    labelled = Labelled(
        entry["question"],
        entry["question_type"],
        end,
        frozenset(right),
        frozenset(right_turns),
        frozenset(by_user),
    )
    return History(lines, [labelled])


def _date(text: str) -> datetime:
    """Return a time as "2023/05/20 (Sat) 02:21"."""
    day, _, clock = text.partition(" (")
    return datetime.strptime(f"{day} {clock[-5:]}", "%Y/%m/%d %H:%M").replace(tzinfo=UTC)


def longmemeval_scores(labelled: Labelled, ranking: Ranking) -> dict[str, float]:
    """Return the scorer's figures of one question, by name."""
    of_user = [it for it in ranking.turns if it.endswith("u")]  # as `_line` names them
    scores: dict[str, float] = {}
    for name, order, right in (
        ("sessions", ranking.sessions, labelled.sessions),
        ("sessions, user's turns", ranking.sessions, labelled.sessions_by_user),
        ("turns", of_user, labelled.turns),
    ):
        for depth in DEPTHS:
            best = order[:depth]
            scores[f"{name} recall_any@{depth}"] = float(not right.isdisjoint(best))
            scores[f"{name} recall_all@{depth}"] = float(right <= set(best))
            scores[f"{name} ndcg_any@{depth}"] = ndcg(
                [it in right for it in best], min(len(right), depth)
            )
    return scores


def ndcg(gains: Sequence[bool], most: int) -> float:
    """Return the discounted gain as the scorer has it, by that of `most` right ones at the top."""

    def gain(values: Sequence[bool]) -> float:
        places = np.arange(len(values))
        return float(np.sum(np.array(values, float) / np.log2(np.maximum(places, 1) + 1)))

    return gain(gains) / gain([True] * most) if most else 0.0


# LoCoMo -------------------------------------------------------------------------------------------


def locomo(path: Path) -> Iterator[History]:
    """Yield the ten conversations."""
    for sample in orjson.loads(path.read_bytes()):
        talk: Json = sample["conversation"]
        lines = []
        numbers = sorted(
            int(match[1]) for name in talk if (match := re.fullmatch(r"session_(\d+)", name))
        )
        for number in numbers:
            began = datetime.strptime(
                talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y"
            ).replace(tzinfo=UTC)
            turns = [
                ("user" if it["speaker"] == talk["speaker_a"] else "assistant", it["speaker"],
                 _with_picture(it))
                for it in talk[f"session_{number}"]
            ]  # fmt: skip
            names = [it["dia_id"] for it in talk[f"session_{number}"]]
            lines.append(_line(f"S{number}", began, turns, names))
        yield History(lines, [_locomo_question(it) for it in sample["qa"]])


def _with_picture(turn: Json) -> str:
    caption = turn.get("blip_caption")
    return f"{turn['text']}\n(shares {caption})" if caption else str(turn["text"])


def _locomo_question(fields: Json) -> Labelled:
    evidence = [str(it) for it in fields.get("evidence") or []]
    sessions = {f"S{it.split(':')[0][1:]}" for it in evidence}
    return Labelled(
        fields["question"],
        LOCOMO_KINDS.get(fields["category"], str(fields["category"])),
        None,
        frozenset(sessions),
        frozenset(evidence),
    )


def locomo_scores(labelled: Labelled, ranking: Ranking) -> dict[str, float]:
    """Return the scorer's figures of one question, by name."""
    scores: dict[str, float] = {}
    for name, order, right in (
        ("turns", ranking.turns, labelled.turns),
        ("sessions", ranking.sessions, labelled.sessions),
    ):
        for depth in LOCOMO_DEPTHS:
            share = len(right & set(order[:depth])) / len(right) if right else 1.0
            scores[f"{name} recall@{depth}"] = share
            if right:
                scores[f"{name} any@{depth}"] = float(share > 0)
    return scores


# Both ---------------------------------------------------------------------------------------------


def _line(
    name: str,
    began: datetime,
    turns: list[tuple[str, str, str]],
    names: Sequence[str] | None = None,
) -> Json:
    """Return a conversation of a recall set. `turns` has roles, senders and texts."""
    messages = [
        {
            "id": names[at] if names else f"{name}/{at}{role[0]}",
            "role": role,
            "sender": sender,
            "content": text,
            "timestamp": (began + at * _BETWEEN).isoformat(),
        }
        for at, (role, sender, text) in enumerate(turns)
        if text.strip()
    ]
    return {"group": "one", "id": name, "started": began.isoformat(), "messages": messages}


def ask(
    history: History, folder: Path, *, words: bool
) -> Iterator[tuple[Labelled, Ranking, Ranking]]:
    """Put the questions to a server over their history; yield each with its answer and that of
    plain FTS5, ten long.
    """
    lines = [line for line in history.lines if line["messages"]]
    (folder / "set.jsonl").write_bytes(
        b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
    )
    plans = read_conversations(folder / "set.jsonl", abbreviations=False)["one"]
    plain = plain_fts5(plans)
    data = folder / "data"
    flags = ("--embedder", "off") if words else ()
    with recollect(data, *flags) as (target, _), Client(target) as client:
        service = Service(client, plans)
        if not words:
            embedded(data)
        for labelled in history.questions:
            within = DateRange(end=labelled.time) if labelled.time else None
            answer = whole(
                lambda query=labelled.question, within=within: client.recall.search(  # type: ignore[misc]
                    query, limit=_MOST, date_range=within
                )
            )
            baseline = plain(Question("one", "", labelled.question, "", [], []))
            yield (
                labelled,
                Ranking(
                    [service.conversations[it.conversation_id] for it in answer.results],
                    [service.messages[it.conversation_id, it.sequence] for it in answer.hits],
                ),
                Ranking(baseline.conversations, baseline.messages),
            )


def spread(items: list[Any], most: int | None) -> list[Any]:
    """Return at most so many, spread evenly."""
    if most is None or len(items) <= most:
        return items
    return [items[at * len(items) // most] for at in range(most)]


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("benchmark", choices=(_LONGMEMEVAL, _LOCOMO))
    parser.add_argument("data", type=Path, help="the file of the benchmark's authors")
    parser.add_argument("--questions", type=int, metavar="N", help="of each kind, at most")
    parser.add_argument("--words", action="store_true", help="searches by words alone")
    chosen = parser.parse_args(arguments)
    is_longmemeval = chosen.benchmark == _LONGMEMEVAL
    histories = list((longmemeval if is_longmemeval else locomo)(chosen.data))
    kinds: dict[str, list[Labelled]] = defaultdict(list)
    for history in histories:
        for labelled in history.questions:
            kinds[labelled.kind].append(labelled)
    subset = {id(it) for every in kinds.values() for it in spread(every, chosen.questions)}
    score = longmemeval_scores if is_longmemeval else locomo_scores
    ours: dict[str, list[dict[str, float]]] = defaultdict(list)
    plain: list[dict[str, float]] = []
    for history in histories:
        questions = [it for it in history.questions if id(it) in subset]
        if not questions:
            continue
        with tempfile.TemporaryDirectory() as folder:
            part = History(history.lines, questions)
            for labelled, ranking, baseline in ask(part, Path(folder), words=chosen.words):
                ours[labelled.kind].append(score(labelled, ranking))
                plain.append(score(labelled, baseline))
    every = [scores for of_kind in ours.values() for scores in of_kind]
    print(
        f"{chosen.benchmark}, {len(every)} questions, percent; in brackets plain FTS5's first ten"
    )
    for name in dict.fromkeys(name for scores in every for name in scores):
        depth = int(name.rpartition("@")[2])
        beside = f" ({_mean(plain, name):.1f})" if depth <= max(DEPTHS) else ""
        print(f"    {name:36} {_mean(every, name):6.1f}{beside}")
    shown = "sessions recall_any@5" if is_longmemeval else "turns recall@10"
    for kind, scores in sorted(ours.items()):
        print(f"    {shown}, {kind}: {_mean(scores, shown):.1f} of {len(scores)}")
    value, base = _mean(every, shown), _mean(plain, shown)
    name = f"{shown} of {chosen.benchmark}"
    return [
        Figure(name, value, "%", base, "plain FTS5", value / base if base else None),
    ]


def _mean(scores: list[dict[str, float]], name: str) -> float:
    values = [it[name] for it in scores if name in it]
    return 100 * statistics.fmean(values) if values else 0.0


if __name__ == "__main__":
    main()
