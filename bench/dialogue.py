"""Content of a context of a real history: the messages that answer a question, and the noise beside
them.

`python -m bench.dialogue --set DIR … [--groups NAME …] [--questions 40] [--tokens 2000] [--by words
meaning] [--vectors FILE]`

Questions of a recall set are asked in three arrangements of the same history: `own`, where all of
it is the conversation that goes on; `compacted`, the same with all but its last turns compressed;
`apart`, where it is split into its conversations and the one that goes on is empty. Beside them
stand the last turns and plain FTS5, packed into the same budget. Apart, the small talk of
`bench/small_talk.py` and the questions of another group are asked too: nothing should be recalled
for them.

A sample of each group's questions is drawn with a fixed seed. `--vectors` keeps what the model
computed, for the next run.
"""

import argparse
import logging
import math
import random
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
import structlog
from recollect import BuiltContext, Client, ContextBudget, ContextFormat
from recollect.imports import recall_sets
from recollect.imports.plans import Plan
from recollect_server.kernel.domain.message import estimate_tokens
from recollect_server.recall.model.embedder import EmbeddedPiece, Embedder, Piece
from recollect_server.run import app
from recollect_server.run.settings import Settings

from bench.figures import Figure, Goal
from bench.legs import RememberedVectors
from bench.packing import Clock, Group, within
from bench.plain import PlainFts5
from bench.recall import QUERIES, Question, read_conversations, read_questions, whole
from bench.small_talk import SMALL_TALK

ARRANGEMENTS = ("own", "compacted", "apart")
WAYS = ("words", "meaning")
FORMATS = tuple(it for it in ContextFormat if it is not ContextFormat.PARTS)
_SEED = 17
_CANDIDATES = 200  # messages that plain FTS5 may pack
_LEFT = 10  # turns that a compression leaves
# some 200 tokens without an answer
_SUMMARY = "Earlier they spoke about many things, which this stands for. " * 13
_HALF = 0.5  # of a message that an excerpt must have to count
_GOALS = {
    ("own", "locomo"): 88, ("own", "realmem"): 60, ("compacted", "locomo"): 88, ("compacted", "realmem"): 60,
    ("apart", "locomo", "words"): 91, ("apart", "realmem", "words"): 68,
    ("apart", "locomo", "meaning"): 96, ("apart", "realmem", "meaning"): 68,
}  # fmt: skip
"""The goals for any gold packed into 2,000 tokens, in percent."""


@dataclass(slots=True)
class Side:
    """The results of one way of packing over the questions of one arrangement."""

    any_gold: list[float] = field(default_factory=list)
    """For each question 1 if any of its gold messages is in the context, else 0."""
    gold_share: list[float] = field(default_factory=list)
    """For each question the share of its gold messages that is in the context."""
    recalled: int = 0
    """Tokens of recall, of all questions."""
    recalled_gold: int = 0
    """Those of them that are messages of a gold turn."""


@dataclass(slots=True)
class Results:
    """Everything that was measured of one set in one way."""

    sides: defaultdict[tuple[str, str], Side] = field(default_factory=lambda: defaultdict(Side))
    """By arrangement and packer."""
    noise: defaultdict[tuple[str, str], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Tokens of recall for each message that nothing should be recalled for, by its kind and the
    packer.
    """
    rendered: defaultdict[ContextFormat, list[float]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """The rendered size without the message to be answered, divided by the budget."""


def names_in(
    built: BuiltContext, names: Mapping[tuple[str, int], str], texts: Mapping[str, str]
) -> set[str]:
    """Return the names of the messages in a context; of an excerpt only if it has half of the
    message.

    `names` are by the conversation's id and the sequence, `texts` by name.
    """
    packed = set()
    for it in (*built.hot, *built.warm, *built.cold):
        name = names.get((it.conversation_id, it.message.sequence))
        if name is not None and len(it.message.content) >= _HALF * len(texts[name]):
            packed.add(name)
    return packed


def recall_of(built: BuiltContext) -> int:
    """Return the tokens that the tier of recall spent."""
    return sum(it.used for it in built.allocation if it.tier == "cold")


def rendered_tokens(built: BuiltContext, query: str) -> int:
    """Return the tokens of the rendered context without the message that is to be answered, which
    ends a list of messages.
    """
    tokens = estimate_tokens(built.rendered)
    if not built.rendered.startswith("["):
        return tokens
    messages: list[dict[str, Any]] = orjson.loads(built.rendered)
    last = messages[-1] if messages else {}
    content = last.get("content")
    if isinstance(content, list) and content and content[-1].get("text") == query.rstrip():
        return tokens - estimate_tokens(
            orjson.dumps(content[-1] if len(content) > 1 else last).decode()
        )
    return (
        tokens - estimate_tokens(orjson.dumps(last).decode())
        if content == query.rstrip()
        else tokens
    )


class Asker:
    """Asks the questions of a group and counts what the contexts hold."""

    def __init__(self, group: Group, arrangement: str, tokens: int, results: Results) -> None:
        self._group, self._arrangement, self._tokens, self._results = (
            group,
            arrangement,
            tokens,
            results,
        )
        self._texts: dict[str, str] = {}
        self._plain = PlainFts5()

    def ask(self, question: Question) -> None:
        """Ask a question of the history before it, unless none of its gold was said by then."""
        written = len(self._group.messages)
        if self._group.until(question):
            for name, time, text in self._group.messages[written:]:
                self._texts[name] = text
                self._plain.add(name, time, text)
            if self._arrangement == "compacted":
                self._compress()
        # Some of RealMem's questions name messages of conversations that began after them.
        gold = self._group.service.turns.keys() & question.gold_messages
        if not gold:
            return
        built = self._build(question.query)
        turns = {self._group.service.turns[name] for name in gold}
        of_gold = sum(
            it.tokens for it in built.cold if (it.conversation_id, it.message.turn_number) in turns
        )
        self._count(
            "recollect",
            gold,
            names_in(built, self._group.service.messages, self._texts),
            recall_of(built),
            of_gold,
        )
        if self._arrangement != "compacted":
            for packer, names in self._baselines(question.query).items():
                used = self._charged(names)
                self._count(
                    packer,
                    gold,
                    names,
                    used,
                    self._charged(it for it in names if self._group.service.turns[it] in turns),
                )
            for form in FORMATS:
                size = rendered_tokens(self._build(question.query, form), question.query)
                self._results.rendered[form].append(size / self._tokens)

    def ask_nothing(self, kind: str, queries: Iterable[str]) -> None:
        """Ask what the history does not answer."""
        for query in queries:
            self._results.noise[kind, "recollect"].append(recall_of(self._build(query)))
            self._results.noise[kind, "plain fts5"].append(
                self._charged(self._baselines(query)["plain fts5"])
            )

    def _build(self, query: str, form: ContextFormat | None = None) -> BuiltContext:
        recall = self._group.client.recall
        return whole(
            lambda: recall.build_context(
                self._group.here, query, budget=ContextBudget(total=self._tokens), format=form
            )
        )

    def _baselines(self, query: str) -> dict[str, set[str]]:
        newest = sorted(self._group.messages, key=lambda it: it[1], reverse=True)
        best = self._plain.best(query, _CANDIDATES, None)
        return {
            "last turns": within(
                self._tokens, ((name, text) for name, _, text in newest), skip=False
            ),
            "plain fts5": within(
                self._tokens, ((name, self._texts[name]) for name in best), skip=True
            ),
        }

    def _charged(self, names: Iterable[str]) -> int:
        return sum(max(1, estimate_tokens(self._texts[name])) for name in names)

    def _count(
        self, packer: str, gold: set[str], names: set[str], recalled: int, recalled_gold: int
    ) -> None:
        side = self._results.sides[self._arrangement, packer]
        side.any_gold.append(float(bool(gold & names)))
        side.gold_share.append(len(gold & names) / len(gold))
        side.recalled += recalled
        side.recalled_gold += recalled_gold

    def _compress(self) -> None:
        conversations = self._group.client.conversations
        conversation = conversations.get(self._group.here)
        if (through := conversation.turn_count - _LEFT) > conversation.compressed_through:
            conversations.record_compression(self._group.here, through, _SUMMARY)


def sample(questions: list[Question], count: int) -> list[Question]:
    """Return so many questions, the same ones each time, by the time when they were asked."""
    ordered = sorted(questions, key=lambda it: it.id)
    chosen = random.Random(_SEED).sample(ordered, min(count, len(ordered)))
    return sorted(chosen, key=lambda it: it.asked_at or "9999")


@contextmanager
def served(plans: list[Plan], flags: dict[str, str], *, is_one: bool) -> Iterator[Group]:
    """Serve one history, with a clock of its own."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as data:
        settings = {
            "data_dir": data,
            "listen": "127.0.0.1:0",
            "abbreviator": "off",
            "log_level": "error",
        } | flags
        running = app.start(Settings.load(None, settings), clock=clock)
        try:
            with Client(running.address) as client:
                yield Group(
                    client,
                    None if flags["embedder"] == "off" else Path(data),
                    clock,
                    plans,
                    is_one=is_one,
                )
        finally:
            running.stop()


def measure(
    folder: Path, groups: Sequence[str], count: int, tokens: int, way: str, flags: dict[str, str]
) -> Results:
    """Ask the questions of a set in one way: by words alone, or by words and meaning."""
    plans = read_conversations(folder / recall_sets.FILE, abbreviations=False)
    questions = read_questions(folder / QUERIES)
    names = sorted(questions)
    results = Results()
    flags = {"embedder": "off" if way == "words" else "onnx"} | flags
    for name in groups or names:
        chosen = sample([it for it in questions[name] if it.gold_messages], count)
        for arrangement in ARRANGEMENTS:
            with served(plans[name], flags, is_one=arrangement != "apart") as group:
                asker = Asker(group, arrangement, tokens, results)
                for question in chosen:
                    asker.ask(question)
                if arrangement == "apart" and chosen:
                    asker.ask_nothing(
                        "small talk", [it for texts in SMALL_TALK.values() for it in texts]
                    )
                    other = names[(names.index(name) + 1) % len(names)]
                    if other != name:
                        asker.ask_nothing(
                            "another's questions",
                            [it.query for it in sample(questions[other], count)],
                        )
    return results


def report(title: str, way: str, tokens: int, results: Results) -> None:
    """Print what was measured."""
    count = len(results.sides["apart", "recollect"].any_gold)
    print(f"{title}, by {way}: {count} questions, {tokens} tokens")
    for (arrangement, packer), side in results.sides.items():
        gold_tokens = (
            f"{100 * side.recalled_gold / side.recalled:5.1f}" if side.recalled else "    -"
        )
        print(
            f"    {arrangement:<10} {packer:<10} any gold {100 * statistics.fmean(side.any_gold):5.1f} %"
            f"  (share {100 * statistics.fmean(side.gold_share):5.1f} %)"
            f"  recall {side.recalled / len(side.any_gold):6.0f} tokens, {gold_tokens} % of them in gold turns"
        )
    for (kind, packer), used in results.noise.items():
        empty = 100 * sum(it == 0 for it in used) / len(used)
        print(
            f"    {kind:<21} {packer:<10} recall {statistics.fmean(used):6.0f} tokens, none for {empty:3.0f} %"
        )
    for form, shares in results.rendered.items():
        print(
            f"    rendered / budget     {form.value:<19} p50 {_at(shares, 0.5):.2f}, p99 {_at(shares, 0.99):.2f}"
        )
    print(end="", flush=True)


def _at(values: Sequence[float], share: float) -> float:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def figures_of(title: str, way: str, tokens: int, results: Results) -> list[Figure]:
    """Return the figures with their goals, which are for 2,000 tokens."""
    made: list[Figure] = []

    def goal(limit: float | None, *, least: bool = False) -> Goal | None:
        return None if limit is None or tokens != 2000 else Goal(limit, least=least)

    for arrangement in ARRANGEMENTS:
        side = results.sides[arrangement, "recollect"]
        base = 100 * statistics.fmean(
            results.sides[
                "own" if arrangement == "compacted" else arrangement, "plain fts5"
            ].any_gold
        )
        value = 100 * statistics.fmean(side.any_gold)
        limit = _GOALS.get((arrangement, title), _GOALS.get((arrangement, title, way)))
        ratio = value / base if base else None
        name = f"any gold of {title}, {arrangement}"
        made.append(
            Figure(
                name,
                value,
                "%",
                base,
                "plain FTS5",
                ratio,
                goal(limit, least=True),
                part=f"by {way}",
            )
        )
        if side.recalled:
            share = 100 * side.recalled_gold / side.recalled
            name = f"recalled tokens in gold turns, {title}, {arrangement}"
            made.append(Figure(name, share, "%", goal=goal(12, least=True), part=f"by {way}"))
    for kind, limit in (("small talk", 80), ("another's questions", 500)):
        if used := results.noise[kind, "recollect"]:
            base = statistics.fmean(results.noise[kind, "plain fts5"])
            value = statistics.fmean(used)
            ratio = value / base if base else None
            name = f"recall for {kind}, {title}"
            made.append(
                Figure(
                    name, value, "tokens", base, "plain FTS5", ratio, goal(limit), part=f"by {way}"
                )
            )
    made += [
        Figure(
            f"rendered / budget p99, {title}, {form.value}",
            _at(shares, 0.99),
            "",
            goal=Goal(1.0),
            part=f"by {way}",
        )
        for form, shares in results.rendered.items()
    ]
    return made


@contextmanager
def remembered(path: Path | None) -> Iterator[None]:
    """Compute the vector of a text once, in however many servers it is stored, and in the next run
    if there is a file.

    The vectors of a text have the same bytes whatever it is embedded with
    (`recollect_server.recall.model.embedder`).
    """
    vectors = RememberedVectors(path)

    def embed_pieces(embedder: Embedder, pieces: Sequence[Piece]) -> list[EmbeddedPiece]:
        return vectors.embed(embedder, pieces)

    with patch.object(Embedder, "embed_pieces", embed_pieces):
        try:
            yield
        finally:
            vectors.save()


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--set",
        type=Path,
        nargs="+",
        required=True,
        metavar="DIR",
        help="folders with conversations.jsonl and queries.jsonl",
    )
    parser.add_argument(
        "--groups", nargs="+", default=[], metavar="NAME", help="only these groups of the set"
    )
    parser.add_argument("--first", type=int, metavar="N", help="only the first groups of each set")
    parser.add_argument(
        "--questions", type=int, default=40, metavar="N", help="how many of each group"
    )
    parser.add_argument("--tokens", type=int, default=2000, help="the budget")
    parser.add_argument(
        "--by",
        nargs="+",
        choices=WAYS,
        default=list(WAYS),
        help="by words alone, by words and meaning",
    )
    parser.add_argument(
        "--vectors", type=Path, metavar="FILE.npz", help="keeps the vectors of the texts here"
    )
    parser.add_argument(
        "--setting", nargs="+", default=[], metavar="NAME=VALUE", help="settings of the server"
    )
    chosen = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    flags = dict(pair.split("=", 1) for pair in chosen.setting)
    made: list[Figure] = []
    with remembered(chosen.vectors):
        for folder in chosen.set:
            groups = chosen.groups or sorted(read_questions(folder / QUERIES))[: chosen.first]
            for way in chosen.by:
                results = measure(folder, groups, chosen.questions, chosen.tokens, way, flags)
                report(folder.name, way, chosen.tokens, results)
                made += figures_of(folder.name, way, chosen.tokens, results)
    return made


if __name__ == "__main__":
    main()
