"""Share of the right messages that BuildContext packs, beside the last turns and plain FTS5 packed
into the same budget.

`python -m bench.context --set DIR` prints it.
"""

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path

from recollect import Client, ContextBudget
from recollect.imports import recall_sets
from recollect.imports.plans import Plan
from recollect_server.kernel.domain.message import estimate_tokens
from recollect_server.kernel.domain.time import DAY
from recollect_server.run import app
from recollect_server.run.settings import Settings

from bench.figures import Figure
from bench.plain import PlainFts5
from bench.recall import (
    QUERIES,
    Question,
    Service,
    messages_of,
    milliseconds,
    read_conversations,
    read_questions,
    started,
    whole,
)
from bench.servers import embedded

_CANDIDATES = 200  # messages that plain FTS5 may pack


class Clock:
    """Stands at the time of a question."""

    now = 0

    def __call__(self) -> int:
        """Return the time."""
        return self.now


Pack = Callable[[Question, int], set[str]]
"""The names of the messages that are packed for a question into so many tokens."""


def within(budget: int, messages: Iterable[tuple[str, str]], *, skip: bool) -> set[str]:
    """Return the first of the messages that fit; with `skip` those behind one that is too long
    too.
    """
    packed: set[str] = set()
    for name, text in messages:
        tokens = max(1, estimate_tokens(text))
        if tokens <= budget:
            packed.add(name)
            budget -= tokens
        elif not skip:
            break
    return packed


class Group:
    """One person's history, brought in up to the time of each question; and both baselines over the
    same messages.
    """

    def __init__(
        self,
        client: Client,
        data: Path | None,
        clock: Clock,
        plans: list[Plan],
        *,
        is_one: bool = False,
    ) -> None:
        """Begin a history without messages.

        `data` is the folder whose vectors are awaited; None for a search by words alone. With
        `is_one`, the whole history is the conversation that is asked in; else that one is empty,
        and the history lies in others.
        """
        self.client, self.data, self.clock, self._is_one = client, data, clock, is_one
        self._waiting = sorted(plans, key=started)
        self.service = Service(client, [])
        self.messages: list[tuple[str, int, str]] = []
        """Name, time and text of each message, in the order of the conversations."""
        self._plain = PlainFts5()
        clock.now = 1
        self.here = client.conversations.create("bench").id

    def until(self, question: Question) -> bool:
        """Bring in what was said before a question, or everything. Returns whether there was
        anything new.
        """
        limit = (
            milliseconds(datetime.fromisoformat(question.asked_at)) if question.asked_at else None
        )
        grown = False
        while self._waiting and (limit is None or started(self._waiting[0]) < limit):
            plan = self._waiting.pop(0)
            messages = [(name, time, it.content) for name, time, it in messages_of(plan)]
            self.clock.now = max(self.clock.now, started(plan), *(time for _, time, _ in messages))
            self.service.bring_in(plan, self.here if self._is_one else "")
            self.messages += messages
            for name, time_, text in messages:
                self._plain.add(name, time_, text)
            grown = True
        self.clock.now = limit or max(time for _, time, _ in self.messages) + DAY
        if grown and self.data:
            embedded(self.data)
        return grown

    def recollect(self, question: Question, tokens: int) -> set[str]:
        """Return the messages that BuildContext packs."""
        context = whole(
            lambda: self.client.recall.build_context(
                self.here, question.query, budget=ContextBudget(total=tokens)
            )
        )
        assert sum(it.used for it in context.allocation) <= tokens
        return {
            self.service.messages[it.conversation_id, it.message.sequence] for it in context.cold
        }

    def last_turns(self, _question: Question, tokens: int) -> set[str]:
        """Return the newest messages."""
        newest = sorted(self.messages, key=lambda it: it[1], reverse=True)
        return within(tokens, ((name, text) for name, _, text in newest), skip=False)

    def plain_fts5(self, question: Question, tokens: int) -> set[str]:
        """Return the messages that FTS5 ranks first."""
        texts = {name: text for name, _, text in self.messages}
        best = self._plain.best(question.query, _CANDIDATES, None)
        return within(tokens, ((name, texts[name]) for name in best), skip=True)


def quality(
    folder: Path, groups: Sequence[str], budgets: Sequence[int], flags: dict[str, str]
) -> dict[tuple[str, int], float]:
    """Print, and return in percent, the share of questions of whose gold messages any is packed, by
    packer and budget.
    """
    plans = read_conversations(folder / recall_sets.FILE, abbreviations=False)
    questions = read_questions(folder / QUERIES)
    any_of: dict[tuple[str, int], list[float]] = defaultdict(list)
    share: dict[tuple[str, int], list[float]] = defaultdict(list)
    for name in groups or sorted(questions):
        answerable = [question for question in questions[name] if question.gold_messages]
        answerable.sort(key=lambda question: question.asked_at or "9999")
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
                    group = Group(
                        client,
                        Path(data) if flags.get("embedder") != "off" else None,
                        clock,
                        plans[name],
                    )
                    packers: dict[str, Pack] = {
                        "recollect": group.recollect, "last turns": group.last_turns, "plain fts5": group.plain_fts5
                    }  # fmt: skip
                    for question in answerable:
                        group.until(question)
                        for packer, pack in packers.items():
                            for tokens in budgets:
                                hits = len(set(question.gold_messages) & pack(question, tokens))
                                any_of[packer, tokens].append(100.0 * (hits > 0))
                                share[packer, tokens].append(
                                    100.0 * hits / len(set(question.gold_messages))
                                )
            finally:
                running.stop()
    count = len(next(iter(any_of.values()), []))
    print(
        f"{folder.name}: {count} questions with gold messages; percent with any of them packed (and the share of them packed)"
    )
    for packer in ("recollect", "last turns", "plain fts5"):
        shown = (
            f"{tokens} tokens {statistics.fmean(any_of[packer, tokens]):5.1f} ({statistics.fmean(share[packer, tokens]):5.1f})"
            for tokens in budgets
        )
        print(f"    {packer:<12} {'   '.join(shown)}", flush=True)
    return {key: statistics.fmean(values) for key, values in any_of.items()}


def figures_of(name: str, packed: dict[tuple[str, int], float]) -> list[Figure]:
    """Return how often right messages were packed, beside plain FTS5 and the last turns."""
    figures = []
    for (packer, tokens), share in packed.items():
        base = packed["plain fts5", tokens]
        part = "BuildContext" if packer == "recollect" else packer
        figures.append(
            Figure(
                f"any packed into {tokens:,} tokens of {name}",
                share,
                "%",
                base,
                "plain FTS5",
                share / base if base else None,
                part=part,
            )
        )
    return figures
