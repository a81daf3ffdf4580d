"""Answers of InsightService over a large history, and what keeping its sums costs an append.

The history goes straight into an index: two years of conversations of some 20 messages, on six
channels, with five models and 200 topics. Answers are made in this process, all but gRPC itself,
and timed by its processor. An append's cost is the processor time of a server, against one whose
index has lost the triggers that keep the sums, round by round; to that comes what counting the
facts takes in Python, timed apart.

`python -m bench.insight [--messages 1000000] [--rounds 5] [--calls 2000]`
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import apsw
import numpy as np
from recollect_server.contract.insight_service import topics_to, usage_to
from recollect_server.insight.activity import facts_of
from recollect_server.insight.service import Facet, Group, Insight, Range
from recollect_server.insight.spans import Bucket
from recollect_server.kernel.domain.conversation import Began, Conversation, TitleAssigned, fold
from recollect_server.kernel.domain.message import Message, Role, Usage
from recollect_server.kernel.index.file import NAME, SEAL
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.lines import Entry, Line
from recollect_server.kernel.space.space import Space
from recollect_server.run.features import FEATURES

from bench.append import APPEND, requests
from bench.background import processor_seconds
from bench.calls import measure
from bench.corpus import conversation_id
from bench.figures import Figure, Goal
from bench.servers import recollect

_NOW = 1_790_000_000_000
_DAY = 86_400_000
_DAYS = 730
_CHANNELS = ("web", "whatsapp", "email", "discord", "cli", "voice")
_MODELS = ("", "haiku", "sonnet", "opus", "gpt")
_TOPICS = 200
_PER_CONVERSATION = 20
_GOAL = Goal(20)  # milliseconds, p50 at 1,000,000 messages


def fill(index: Index, messages: int) -> int:
    """Add so many messages to an index. Return the number of conversations."""
    randomness = np.random.default_rng(1)
    count = 0
    while messages > 0:
        size = min(int(randomness.integers(2, 2 * _PER_CONVERSATION - 1)), messages)
        # people write by day, and to few topics mostly
        hour = float(np.clip(randomness.normal(14, 4), 0, 23.9))
        began = _NOW - int(randomness.integers(1, _DAYS)) * _DAY + int(hour * 3_600_000)
        channel = _CHANNELS[min(int(randomness.exponential(1.5)), len(_CHANNELS) - 1)]
        model = _MODELS[int(randomness.integers(len(_MODELS)))]
        topics = {min(int(randomness.exponential(40)), _TOPICS - 1) for _ in range(3)}
        _add(index, count, size, began, channel, model, tuple(f"topic-{it}" for it in topics))
        messages -= size
        count += 1
    index.settle()
    return count


def _add(
    index: Index, at: int, size: int, time: int, channel: str, model: str, topics: tuple[str, ...]
) -> None:
    contents: list[Any] = [Began(conversation_id(at), channel, time, ("user",), model=model)]
    for place in range(size):
        time += 45_000
        role = Role.ASSISTANT if place % 2 else Role.USER
        usage = Usage(1_000 + place, 200) if place % 2 else None
        contents.append(
            Message(
                role,
                "a few words",
                time,
                place + 2,
                place // 2 + 1,
                usage=usage,
                cost=0.01 if usage else None,
            )
        )
    contents.append(TitleAssigned("A title", topics, time))
    state: Conversation | None = None
    for content in contents:
        state = fold(state, content)
    assert state is not None
    lines = [Line(n + 1, 100 * n, 100, Entry(content)) for n, content in enumerate(contents)]
    index.add(None, None, state, lines, time=time, failed=print, log=False)


def questions(insight: Insight) -> dict[str, Callable[[], object]]:
    """Return the questions of a page with charts, by name."""

    def last(days: int, zone: Any = UTC) -> Range:
        return Range(_NOW - days * _DAY, _NOW, zone)

    tokyo, india = ZoneInfo("Asia/Tokyo"), ZoneInfo("Asia/Kolkata")
    made: dict[str, Callable[[], object]] = {}

    def usage(name: str, within: Range, bucket: Bucket, group: Group) -> None:
        made[name] = lambda: usage_to(insight.usage(within, bucket, group, 10), "default")

    usage("usage, 30 days by channel", last(30), Bucket.DAY, Group.CHANNEL)
    usage("usage, 90 days by model", last(90), Bucket.DAY, Group.MODEL)
    usage("usage, 90 days in Tokyo by channel", last(90, tokyo), Bucket.DAY, Group.CHANNEL)
    usage("usage, 90 days in India by channel", last(90, india), Bucket.DAY, Group.CHANNEL)
    usage("usage, 12 months in Tokyo by model", last(365, tokyo), Bucket.MONTH, Group.MODEL)
    usage("usage, 365 days of the space", last(365), Bucket.DAY, Group.SPACE)
    usage("usage, 365 days in Tokyo by channel", last(365, tokyo), Bucket.DAY, Group.CHANNEL)
    usage("usage, 30 days by topic", last(30), Bucket.DAY, Group.TOPIC)
    usage("usage, 30 days by conversation", last(30), Bucket.DAY, Group.CONVERSATION)

    def weeks(within: Range) -> object:
        return topics_to(insight.usage(within, Bucket.WEEK, Group.TOPIC, 10))

    for name, within in (("", last(90)), (" in Tokyo", last(90, tokyo))):
        made[f"topics over time, 90 days{name} by week"] = partial(weeks, within)
    made["channel activity, 90 days"] = lambda: insight.channel_activity(last(90, tokyo), ())
    made["busiest conversations, 30 days"] = lambda: insight.busiest(last(30), (), 10)
    made["busiest conversations, 90 days"] = lambda: insight.busiest(last(90), (), 10)
    made["facets"] = lambda: [insight.facets(kind, 20) for kind in Facet]
    made["topics, a page"] = lambda: insight.topics("", 50, None)
    return made


def answers(messages: int, rounds: int) -> list[Figure]:
    """Print the time of each answer."""
    with tempfile.TemporaryDirectory() as folder:
        index = Index(Path(folder), FEATURES.tables)
        began = time.perf_counter()
        count = fill(index, messages)
        taken = time.perf_counter() - began
        print(f"{messages} messages in {count} conversations, filled in {taken:.0f} s", flush=True)
        space = SimpleNamespace(index=index, clock=lambda: _NOW, current=lambda it: it)
        every = questions(Insight(cast(Space, space)))
        times: dict[str, list[float]] = {name: [] for name in every}
        for _ in range(rounds):
            for name, ask in every.items():
                began = time.thread_time()  # all of it runs in this thread, and nothing waits
                ask()
                times[name].append(1000 * (time.thread_time() - began))
        index.close()
    for name, own in times.items():
        print(f"    {name}: p50 {statistics.median(own):.1f} ms, most {max(own):.1f} ms")
    overall = sorted(it for own in times.values() for it in own)
    p50, p99 = statistics.median(overall), overall[int(0.99 * len(overall))]
    print(f"    all of them: p50 {p50:.1f} ms, p99 {p99:.1f} ms", flush=True)
    goal = _GOAL if messages == 1_000_000 else None
    return [
        Figure("insight p50", p50, "ms", goal=goal, at=messages, of="messages"),
        Figure("insight p99", p99, "ms", at=messages, of="messages"),
    ]


def without_sums(data_dir: Path) -> None:
    """Make a data folder whose index keeps no sums of activity."""
    with recollect(data_dir, "--embedder", "off") as (target, _):
        requests(target, 1, 0, 1)
    index = data_dir / "default" / "conversations" / NAME
    index.with_name(NAME + SEAL).unlink(missing_ok=True)
    connection = apsw.Connection(str(index))
    for trigger in ("take_in_activity", "activity_insert", "activity_update"):
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.close()


def appends(rounds: int, calls: int) -> list[Figure]:
    """Print what keeping the sums adds to an append, in processor time."""
    spent: list[list[float]] = [[], []]
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "plain"
        without_sums(plain)
        with (
            recollect(plain, "--embedder", "off") as first,
            recollect(Path(folder) / "data", "--embedder", "off") as second,
        ):
            for number in range(rounds):
                both = list(zip(spent, (first, second), strict=True))
                # the other one first in every second round: the second one finds warm caches
                for own, (target, process) in both[:: 1 if number % 2 else -1]:
                    made = requests(target, 4, calls, 2)
                    before = processor_seconds(process)
                    measure(target, APPEND, made)
                    time.sleep(0.1)  # the index takes in what was acknowledged
                    own.append(1e6 * (processor_seconds(process) - before) / calls)
    counting = _counting()
    plain_us, with_us = min(spent[0]), min(spent[1])
    ratio = statistics.median(b / a for a, b in zip(*spent, strict=True)) + counting / plain_us
    print(
        f"an append of two messages: {with_us:.0f} us of the processor, {plain_us:.0f} without sums (least of"
        f" {rounds} rounds); counting takes {counting:.1f} us of both; ratio {ratio:.3f}"
    )
    goal = Goal(1.05, of_ratio=True)
    return [Figure("append with sums", with_us, "us", plain_us, "without sums", ratio, goal)]


def _counting() -> float:
    """Return the microseconds that counting the facts of a turn takes."""
    before = Conversation("conv", "web", _NOW, _NOW, model="haiku", turn_count=3)
    turn = [
        Message(Role.USER, "a question", _NOW, 9, 4),
        Message(Role.ASSISTANT, "an answer", _NOW, 10, 4, usage=Usage(1, 2), cost=0.1),
    ]
    took = []
    for _ in range(20):
        began = time.process_time()
        for _ in range(500):
            facts_of(before, before, turn)
        took.append((time.process_time() - began) / 500)
    return 1e6 * min(took)


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=2000)
    chosen = parser.parse_args(arguments)
    figures = []
    for messages in chosen.messages:
        figures += answers(messages, chosen.rounds)
    if chosen.calls:
        figures += appends(chosen.rounds, chosen.calls)
    return figures


if __name__ == "__main__":
    main()
