"""The sums of activity: whatever happens to conversations, they equal what the lines say."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recollect_server.insight.activity import COUNTERS, facts_of, slot_of
from recollect_server.insight.service import ActivityTable, Group
from recollect_server.insight.spans import (
    HOURS_A_DAY,
    QUARTERS_A_DAY,
    QUARTERS_AN_HOUR,
    Level,
    Span,
)
from recollect_server.insight.tables import ACTIVITY
from recollect_server.kernel.domain.conversation import (
    Abbreviated,
    Began,
    Compressed,
    Content,
    Conversation,
    MetaUpdated,
    ModelUse,
    TitleAssigned,
    fold,
)
from recollect_server.kernel.domain.message import Message, Role, Usage
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.lines import Entry, Line
from recollect_server.run.features import FEATURES

from tests.conftest import examples

KEYS = {
    "activity": 4,
    "activity_by_hour": 3,
    "activity_by_day": 3,
    "topics_by_hour": 2,
    "topics_by_day": 2,
    "facets": 2,
}
"""Tables of activity, and how many of their columns are the key."""
BEGAN = 1_790_000_000_000
TIMES = st.integers(0, 3 * 86_400_000).map(lambda after: BEGAN + after)
LABELS = st.sampled_from(["disk", "garden", "taxes"])
MODELS = st.sampled_from(["", "haiku", "opus"])
CHANNELS = st.sampled_from(["", "web", "email"])
USES = st.none() | st.builds(
    ModelUse, st.integers(0, 3), st.integers(0, 900), st.integers(0, 90), st.floats(0, 1)
)
TOPICS = st.lists(LABELS, max_size=3, unique=True).map(tuple)

messages = st.builds(
    Message,
    st.sampled_from(Role),
    st.just("some words"),
    TIMES,
    turn_number=st.integers(1, 4),
    usage=st.none() | st.builds(Usage, st.integers(0, 1 << 62), st.integers(0, 500)),
    cost=st.none() | st.floats(0, 1e300),
    channel=CHANNELS,
    sender=st.sampled_from(["", "alex", "sam"]),
)
events = (
    st.builds(TitleAssigned, st.just("A title"), TOPICS, TIMES, model_use=USES)
    | st.builds(Abbreviated, st.just("Notes."), TIMES, st.none() | TOPICS, model_use=USES)
    | st.builds(Compressed, st.just(1), st.just("Short."), TIMES, model_use=USES)
    | st.builds(MetaUpdated, TIMES, title=st.none() | st.just("Mine"), model=st.none() | MODELS)
)
steps = st.lists(
    st.tuples(st.integers(0, 3), st.none() | st.lists(messages | events, min_size=1, max_size=4)),
    max_size=14,
)
"""Appends to one of four conversations, or, without contents, its removal."""


@dataclass
class Written:
    """A conversation of a test: its number in the index, its state and its lines."""

    number: int
    state: Conversation
    contents: list[Content] = field(default_factory=list)
    bytes: int = 0


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """Open an index for all examples: each removes what it wrote, and nothing may be left."""
    opened = Index(tmp_path_factory.mktemp("index"), FEATURES.tables)
    yield opened
    opened.close()


def write(index: Index, before: Written | None, contents: list[Content]) -> Written:
    """Add contents as the next lines of a conversation."""
    written = before or Written(0, None)  # type: ignore[arg-type]
    state = before.state if before else None
    count = len(written.contents)
    lines = []
    for at, content in enumerate(contents):
        if isinstance(content, Message):
            content = replace(content, sequence=count + at + 1)
        state = fold(state, content)
        lines.append(Line(count + at + 1, written.bytes + 100 * at, 100, Entry(content)))
    assert state is not None
    number, _ = index.add(
        before.number if before else None,
        before.state if before else None,
        state,
        lines,
        time=BEGAN,
        failed=print,  # and then the next lines have no place
    )
    return Written(number, state, [*written.contents, *contents], written.bytes + 100 * len(lines))


def began(at: int) -> Began:
    channel = "web" if at % 2 else "email"
    return Began(
        f"conv-01HQ000000000000000000000{at}", channel, BEGAN + at, model="haiku" * (at % 2)
    )


def remove(index: Index, written: Written) -> None:
    name = written.state.id
    while not index.removal.remove({name: True}, (), {name}, BEGAN).is_whole:
        pass


def tables_of(index: Index) -> dict[str, dict[tuple[object, ...], tuple[int, ...]]]:
    """Return the rows of the tables that have any, counters by key; numbers as ids."""
    with index.reading() as connection:
        numbers = dict(connection.execute("SELECT number, id FROM conversations"))
        tables = {}
        for table, keys in KEYS.items():
            rows: list[tuple[Any, ...]] = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
            tables[table] = {
                tuple(
                    numbers[it] if at == 1 and table == "activity" else it
                    for at, it in enumerate(row[:keys])
                ): row[keys:]
                for row in rows
            }
    return {table: rows for table, rows in tables.items() if rows}


def expected_of(there: Iterable[Written]) -> dict[str, dict[tuple[object, ...], tuple[int, ...]]]:
    """Return what the tables must have, counted plainly."""
    tables: dict[str, dict[tuple[object, ...], list[int]]] = {}

    def add(table: str, key: tuple[object, ...], counters: list[int]) -> None:
        row = tables.setdefault(table, {}).setdefault(key, [0] * len(counters))
        row[:] = [one + other for one, other in zip(row, counters, strict=True)]

    for it in there:
        add("facets", ("channel", it.state.channel), [1])
        add("facets", ("model", it.state.model), [1])
        for topic in it.state.topics:
            add("facets", ("topic", topic), [1])
        for participant in it.state.participants:
            add("facets", ("participant", participant), [1])
        for (slot, channel, model), counters in facts_of(None, it.state, it.contents).items():
            add("activity", (slot, it.state.id, channel, model), counters)
            hour, day = slot // QUARTERS_AN_HOUR, slot // QUARTERS_A_DAY
            add("activity_by_hour", (hour, channel, model), counters)
            add("activity_by_day", (day, channel, model), counters)
            for topic in it.state.topics:
                add("topics_by_hour", (hour, topic), counters)
                add("topics_by_day", (day, topic), counters)
    return {
        table: {key: tuple(counters) for key, counters in rows.items()}
        for table, rows in tables.items()
    }


@given(steps)
@settings(max_examples=examples(100))
def test_after_any_changes_the_tables_are_those_that_the_lines_make(
    index: Index, changes: list[tuple[int, list[Content] | None]]
) -> None:
    there: dict[int, Written] = {}
    for at, contents in changes:
        if contents is not None:
            first: list[Content] = [] if at in there else [began(at)]
            there[at] = write(index, there.get(at), first + contents)
        elif at in there:
            remove(index, there.pop(at))
    try:
        assert tables_of(index) == expected_of(there.values())
        with index.reading() as connection:
            assert list(ACTIVITY.problems(connection)) == []
        for group in Group:
            sums = ActivityTable(index).sums(days_of(BEGAN, 5), group)
            for key in {key for _, key in sums}:
                assert sums[0, key] == sums[1, key] == sums[2, key], "whatever they are summed of"
    finally:
        for it in there.values():
            remove(index, it)
    assert tables_of(index) == {}


def days_of(first: int, days: int) -> list[Span]:
    """Return a span in each unit, of the same days."""
    slot = slot_of(first) // QUARTERS_A_DAY
    return [
        Span(Level.QUARTER, slot * QUARTERS_A_DAY, (slot + days) * QUARTERS_A_DAY, 0),
        Span(Level.HOUR, slot * HOURS_A_DAY, (slot + days) * HOURS_A_DAY, 1),
        Span(Level.DAY, slot, slot + days, 2),
    ]


def test_a_message_counts_on_its_own_channel_with_the_model_of_its_time() -> None:
    contents: list[Content] = [
        began(1),
        Message(Role.USER, "one", BEGAN, turn_number=1),
        MetaUpdated(BEGAN, model="opus"),
        Message(
            Role.ASSISTANT,
            "two",
            BEGAN,
            turn_number=1,
            channel="email",
            usage=Usage(7, 8),
            cost=0.5,
        ),
        Message(Role.TOOL, "late", BEGAN, turn_number=1),
        Message(Role.USER, "next", BEGAN + 900_000, turn_number=2),
    ]
    state = None
    for content in contents:
        state = fold(state, content)
    assert state is not None
    slot = slot_of(BEGAN)
    counts = {
        key: {name: it for name, it in zip(COUNTERS, counters, strict=True) if it}
        for key, counters in facts_of(None, state, contents).items()
    }
    assert counts == {
        (slot, "web", "haiku"): {"conversations": 1, "turns": 1, "user_messages": 1},
        (slot, "email", "opus"): {
            "assistant_messages": 1,
            "input_tokens": 7,
            "output_tokens": 8,
            "cost": 500_000_000,
        },
        (slot, "web", "opus"): {"tool_messages": 1},
        (slot + 1, "web", "opus"): {"turns": 1, "user_messages": 1},
    }
