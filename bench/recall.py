"""Share of the right messages that Search finds: labelled questions (a recall set) put to a running
server, and to plain FTS5.

`python -m bench.recall --set DIR [--json OUT] [--questions OUT.jsonl] [--groups NAME ...]
[--abbreviations] [--legs]`

A group of the set is one person's history and gets a server and a data folder of its own. A
question that says when it was asked is answered from what was said before.
"""

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar

import orjson
from recollect import Client, DateRange, Message, SearchHit, SearchResult
from recollect.imports import forms, recall_sets
from recollect.imports.plans import Batch, Event, Plan

from bench.figures import Figure
from bench.plain import PlainFts5
from bench.servers import embedded, recollect

DEPTHS = (1, 5, 10)
FIGURES = [f"{kind}@{depth}" for kind in ("recall", "any") for depth in DEPTHS]
QUERIES = "queries.jsonl"
ALL = "all"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_MESSAGES = 1000  # of one append
_PATIENCE = 300.0  # seconds that an answer may lack something


@dataclass(frozen=True, slots=True)
class Question:
    """A labelled question."""

    group: str
    id: str
    query: str
    category: str
    gold_conversations: list[str]
    gold_messages: list[str]
    asked_at: str | None = None
    meant: str | None = None
    """Text that is embedded instead of `query`, in the kind `reworded`."""


@dataclass(frozen=True, slots=True)
class Found:
    """Answer to a question, best first."""

    conversations: list[str]
    messages: list[str]
    replies: Mapping[str, str] = field(default_factory=dict)
    """The replies that came with messages which ask, by these."""

    @property
    def moments(self) -> list[list[str]]:
        """Return each message with its reply."""
        return [[it, *([self.replies[it]] if it in self.replies else [])] for it in self.messages]


class Degrades(Protocol):
    """An answer that says what it lacks."""

    @property
    def degraded(self) -> Sequence[object]:
        """Degraded retrievers, each with its reason."""


Answer = TypeVar("Answer", bound=Degrades)
Ask = Callable[[Question], Found]


@dataclass(slots=True)
class Tally:
    """The figures of every question, for conversations and for messages."""

    conversations: list[list[float]] = field(default_factory=list)
    messages: list[list[float]] = field(default_factory=list)
    moments: list[list[float]] = field(default_factory=list)
    """Those of messages, where a reply that comes with one counts as it does."""

    def add(self, question: Question, answer: Found) -> None:
        """Count an answer. What has no gold is left out."""
        if question.gold_conversations:
            self.conversations.append(figures(answer.conversations, question.gold_conversations))
        if question.gold_messages:
            self.messages.append(figures(answer.messages, question.gold_messages))
            self.moments.append(figures_of_moments(answer.moments, question.gold_messages))


def figures(answer: list[str], gold: list[str]) -> list[float]:
    """Return the share of the gold among the first so many found, and whether there is any, for
    each depth; in percent.
    """
    return figures_of_moments([[it] for it in answer], gold)


def figures_of_moments(answer: list[list[str]], gold: list[str]) -> list[float]:
    """Return the same of results that each show several messages."""
    hits = [len(set(gold).intersection(chain.from_iterable(answer[:depth]))) for depth in DEPTHS]
    return [100 * n / len(set(gold)) for n in hits] + [100.0 * (n > 0) for n in hits]


def means(rows: list[list[float]]) -> dict[str, float]:
    """Return the mean of each figure over the questions."""
    return {
        name: round(statistics.fmean(row[i] for row in rows), 2) if rows else 0.0
        for i, name in enumerate(FIGURES)
    }


def read_questions(path: Path) -> dict[str, list[Question]]:
    """Return the questions of a set by group."""
    groups: dict[str, list[Question]] = defaultdict(list)
    names = Question.__dataclass_fields__
    for line in path.read_bytes().splitlines():
        fields: dict[str, Any] = orjson.loads(line)
        question = Question(**{name: value for name, value in fields.items() if name in names})
        groups[question.group].append(question)
    return groups


def read_conversations(path: Path, *, abbreviations: bool) -> dict[str, list[Plan]]:
    """Return the conversations of a set by group, as the command `import` reads them."""
    groups: dict[str, list[Plan]] = defaultdict(list)
    for plan in recall_sets.read(path, forms.Options(abbreviations=abbreviations)):
        assert isinstance(plan, Plan), f"the set is damaged: {plan}"
        groups[plan.key[2]].append(plan)
    return groups


def whole(ask: Callable[[], Answer]) -> Answer:
    """Return the answer, once nothing is missing in it: notes are taken and embedded while
    questions are asked.
    """
    end = time.monotonic() + _PATIENCE
    while (answer := ask()).degraded:
        assert time.monotonic() < end, answer.degraded
        time.sleep(0.1)  # between two questions, which take of the processor too
    return answer


class Service:
    """A group's history in a Recollect server."""

    def __init__(self, client: Client, plans: list[Plan]) -> None:
        self._client = client
        self.conversations: dict[str, str] = {}
        """Their names in the set, by id."""
        self.messages: dict[tuple[str, int], str] = {}
        """Their names in the set, by the conversation's id and the sequence."""
        self.turns: dict[str, tuple[str, int]] = {}
        """The conversation's id and the turn of each message, by its name in the set."""
        for plan in plans:
            self.bring_in(plan)

    def bring_in(self, plan: Plan, into: str = "") -> None:
        """Write a conversation: a new one, or behind what is said in the one with the id `into`."""
        calls = self._client.conversations
        beginning = plan.beginning
        conversation = into
        if not into:
            conversation = calls.create(
                beginning.channel,
                participants=beginning.participants,
                create_time=beginning.create_time,
            ).id
            self.conversations[conversation] = plan.key[3]
        for step in plan.steps:
            match step:
                case Batch():
                    every = [placed.message for placed in step.messages]
                    for at in range(0, len(every), _MOST_MESSAGES):
                        messages = every[at : at + _MOST_MESSAGES]
                        stored = calls.append_turn(conversation, messages).messages
                        for message, there in zip(messages, stored, strict=True):
                            name = message.metadata["importId"]
                            self.messages[conversation, there.sequence] = name
                            self.turns[name] = (conversation, there.turn_number)
                case Event():
                    calls.record_abbreviation(conversation, step.fields["text"])

    def ask(self, question: Question) -> Found:
        """Return the answer of Search."""
        moment = datetime.fromisoformat(question.asked_at) if question.asked_at else None
        within = DateRange(end=moment) if moment else None
        answer = whole(
            lambda: self._client.recall.search(question.query, limit=max(DEPTHS), date_range=within)
        )
        return Found(
            [self.conversations[result.conversation_id] for result in answer.results],
            [self.messages[hit.conversation_id, hit.sequence] for hit in answer.hits],
            {
                self.messages[hit.conversation_id, hit.sequence]: self.messages[
                    hit.conversation_id, hit.after.sequence
                ]
                for hit in answer.hits
                if hit.after is not None
            },
        )

    def ask_legs(self, question: Question) -> dict[str, Found]:
        """Return each retriever's own answer: its best among the 100 best of all together."""
        moment = datetime.fromisoformat(question.asked_at) if question.asked_at else None
        within = DateRange(end=moment) if moment else None
        answer = whole(
            lambda: self._client.recall.search(
                question.query, limit=100, date_range=within, explain=True
            )
        )

        def order(results: Sequence[SearchResult | SearchHit], leg: str) -> list[int]:
            scores = {
                at: part.score
                for at, it in enumerate(results)
                for part in it.explanation
                if part.leg == leg
            }
            return sorted(scores, key=lambda at: -scores[at])[: max(DEPTHS)]

        return {
            leg: Found(
                [
                    self.conversations[answer.results[at].conversation_id]
                    for at in order(answer.results, leg)
                ],
                [
                    self.messages[(hit := answer.hits[at]).conversation_id, hit.sequence]
                    for at in order(answer.hits, leg)
                ],
            )
            for leg in answer.legs_run
        }


def milliseconds(moment: datetime) -> int:
    """Return a time as the server counts it."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def started(plan: Plan) -> int:
    """Return when a conversation began, in milliseconds."""
    assert plan.beginning.create_time is not None, "a recall set says when"
    return milliseconds(plan.beginning.create_time)


def messages_of(plan: Plan) -> list[tuple[str, int, Message]]:
    """Return the messages of a conversation, each with its name in the set and its time in
    milliseconds.
    """
    messages = [
        placed.message for step in plan.steps if isinstance(step, Batch) for placed in step.messages
    ]
    times = (milliseconds(it.timestamp) if it.timestamp else 0 for it in messages)
    return [
        (str(it.metadata["importId"]), max(time, started(plan)), it)
        for it, time in zip(messages, times, strict=True)
    ]


def plain_fts5(plans: list[Plan]) -> Ask:
    """Return the baseline: one row for every conversation with all its text, and one for every
    message.
    """
    conversations, messages = PlainFts5(), PlainFts5()
    for plan in plans:
        texts = [
            (name, time_, f"{it.sender}: {it.content}" if it.sender else it.content)
            for name, time_, it in messages_of(plan)
        ]
        conversations.add(plan.key[3], started(plan), "\n".join(text for _, _, text in texts))
        for name, time_, text in texts:
            messages.add(name, time_, text)

    def ask(question: Question) -> Found:
        end = milliseconds(datetime.fromisoformat(question.asked_at)) if question.asked_at else None
        query, most = question.query, max(DEPTHS)
        return Found(conversations.best(query, most, end), messages.best(query, most, end))

    return ask


def line_of(question: Question, answer: Found) -> dict[str, Any]:
    """Return a question's record: its gold, the answer, and the rank of each gold in it (None: not
    in it).
    """
    pairs = {
        "conversations": (question.gold_conversations, answer.conversations),
        "messages": (question.gold_messages, answer.messages),
    }
    line: dict[str, Any] = {
        "group": question.group,
        "id": question.id,
        "category": question.category,
        "query": question.query,
    }
    for name, (gold, answered) in pairs.items():
        ranks = {right: answered.index(right) + 1 if right in answered else None for right in gold}
        line |= {f"gold_{name}": gold, f"found_{name}": answered, f"ranks_{name}": ranks}
    return line


def report(title: str, ours: Tally, plain: Tally) -> None:
    """Print both sides' figures."""
    for kind in ("conversations", "messages"):
        for name, tally in (("recollect", ours), ("plain fts5", plain)):
            report_side(title, name, tally, kind)
    report_side(title, "recollect", ours, "moments")


def report_side(title: str, name: str, tally: Tally, kind: str = "") -> None:
    """Print the figures of one side: of one kind, or of both."""
    for each in (kind,) if kind else ("conversations", "messages"):
        rows: list[list[float]] = getattr(tally, each)
        shown = " ".join(f"{value:9.1f}" for value in means(rows).values())
        print(f"{title:<22.22} {each:13} {len(rows):5} {name:21} {shown}")


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures and write the files that are asked for."""
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
    parser.add_argument("--json", type=Path, metavar="OUT", help="writes the summary, in percent")
    parser.add_argument(
        "--questions",
        type=Path,
        metavar="OUT.jsonl",
        help="writes every question with what was found",
    )
    parser.add_argument("--groups", nargs="+", metavar="NAME", help="only these groups")
    parser.add_argument(
        "--abbreviations", action="store_true", help="brings in the set's abbreviations too"
    )
    parser.add_argument(
        "--legs",
        action="store_true",
        help="prints what each leg finds alone, among the 100 best of all together",
    )
    chosen = parser.parse_args(arguments)
    plans = read_conversations(chosen.set / recall_sets.FILE, abbreviations=chosen.abbreviations)
    questions = read_questions(chosen.set / QUERIES)
    ours: dict[str, Tally] = defaultdict(Tally)
    plain: dict[str, Tally] = defaultdict(Tally)
    legs: dict[str, Tally] = defaultdict(Tally)
    lines: list[dict[str, Any]] = []
    for group in chosen.groups or sorted(questions):
        with (
            tempfile.TemporaryDirectory() as folder,
            recollect(Path(folder) / "data") as (target, _),
            Client(target) as client,
        ):
            baseline, service = plain_fts5(plans[group]), Service(client, plans[group])
            embedded(Path(folder) / "data")
            for question in questions[group]:
                answer, expected = service.ask(question), baseline(question)
                if chosen.legs:
                    for leg, alone in service.ask_legs(question).items():
                        legs[leg].add(question, alone)
                for key in (ALL, question.category):
                    ours[key].add(question, answer)
                    plain[key].add(question, expected)
                lines.append(line_of(question, answer))
    print(
        f"{chosen.set.name} with{'' if chosen.abbreviations else 'out'} its abbreviations:"
        f" {len(lines)} questions, {len(ours[ALL].messages)} of them with gold messages; percent"
    )
    print(f"{'':22} {'':13} {'n':>5} {'':21} " + " ".join(f"{name:>9}" for name in FIGURES))
    for key in sorted(ours, key=lambda key: (key != ALL, key)):
        report(key, ours[key], plain[key])
    for leg, tally in legs.items():
        report_side(ALL, leg, tally)
    if chosen.json:
        total = ours[ALL]
        summary = {
            "questions": len(lines),
            "conversations": means(total.conversations),
            "messages": means(total.messages),
        }
        chosen.json.write_bytes(
            orjson.dumps(summary, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        )
    if chosen.questions:
        chosen.questions.write_bytes(
            b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
        )
    return figures_of(chosen.set.name, ours[ALL], plain[ALL], legs)


def figures_of(name: str, ours: Tally, plain: Tally, legs: dict[str, Tally]) -> list[Figure]:
    """Return how often gold is among the first ten; of each retriever alone too."""
    results = []
    for kind, figure in (("conversations", "recall@10"), ("messages", "any@10")):
        base = means(getattr(plain, kind))[figure]
        for leg, tally in {"Search": ours, **legs}.items():
            value = means(getattr(tally, kind))[figure]
            ratio = value / base if base else None
            results.append(
                Figure(
                    f"{kind} {figure} of {name}", value, "%", base, "plain FTS5", ratio, part=leg
                )
            )
    return results


if __name__ == "__main__":
    main()
