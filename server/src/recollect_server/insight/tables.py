"""Tables of activity and the triggers that keep them (see `activity`)."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import apsw

from recollect_server.insight.activity import COUNTERS, Key, facts_of
from recollect_server.insight.spans import QUARTERS_A_DAY, QUARTERS_AN_HOUR
from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.index.columns import dump_json
from recollect_server.kernel.index.derived import Derived, Expected
from recollect_server.kernel.log.lines import Line, contents_of

_COUNTERS = ", ".join(COUNTERS)
_EMPTY = " AND ".join(f"{name} = 0" for name in COUNTERS)
"""Condition of a sum without facts: each fact counts something."""
_PART = 1000  # facts removed in one transaction


class Sum(NamedTuple):
    """A table of sums: its time column, how many quarters of an hour that counts, its keys, and the
    facts that it sums.
    """

    table: str
    time: str
    quarters: int
    key: str
    facts: str


_OF_CHANNELS = "channel, model", "activity"
_OF_TOPICS = "topic", "activity JOIN topics USING (number)"
OF_CHANNELS = (
    Sum("activity_by_hour", "hour", QUARTERS_AN_HOUR, *_OF_CHANNELS),
    Sum("activity_by_day", "day", QUARTERS_A_DAY, *_OF_CHANNELS),
)
OF_TOPICS = (
    Sum("topics_by_hour", "hour", QUARTERS_AN_HOUR, *_OF_TOPICS),
    Sum("topics_by_day", "day", QUARTERS_A_DAY, *_OF_TOPICS),
)


def _added(target: str, columns: str, select: str) -> str:
    """Return the statement that adds the rows of a query, key and counters, to a table of sums."""
    sums = ", ".join(f"{name} = {name} + excluded.{name}" for name in COUNTERS)
    return (
        f"INSERT INTO {target}({columns}, {_COUNTERS}) {select} ON CONFLICT DO UPDATE SET {sums};"
    )


def _take_in() -> str:
    values = ", ".join(f"value ->> {at}" for at in range(3, 3 + len(COUNTERS)))
    select = (
        f"SELECT value ->> 0, NEW.document ->> '$.conversation[0]', value ->> 1, value ->> 2, {values}"
        " FROM json_each(NEW.document, '$.activity') WHERE true"
    )
    return f"""
        CREATE TRIGGER take_in_activity INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.activity' IS NOT NULL BEGIN
            {_added("activity", "slot, number, channel, model", select)}
        END;
    """


def _keep_sums() -> str:
    """Return the triggers that keep the sums as facts come, grow and go."""
    triggers = []
    for event, row, deltas in (
        ("INSERT", "NEW", [f"NEW.{name}" for name in COUNTERS]),
        ("UPDATE", "NEW", [f"NEW.{name} - OLD.{name}" for name in COUNTERS]),
        ("DELETE", "OLD", [f"-OLD.{name}" for name in COUNTERS]),
    ):
        values = ", ".join(deltas)
        steps = []
        for of in OF_CHANNELS:
            time = f"{row}.slot / {of.quarters}"
            steps.append(
                _added(
                    of.table,
                    f"{of.time}, {of.key}",
                    f"VALUES({time}, {row}.channel, {row}.model, {values})",
                )
            )
            if event == "DELETE":
                steps.append(
                    f"DELETE FROM {of.table} WHERE {of.time} = {time} AND channel = OLD.channel AND model = OLD.model AND {_EMPTY};"
                )
        for of in OF_TOPICS:
            time = f"{row}.slot / {of.quarters}"
            own = f"FROM topics WHERE number = {row}.number"
            steps.append(
                _added(of.table, f"{of.time}, topic", f"SELECT {time}, topic, {values} {own}")
            )
            if event == "DELETE":
                steps.append(
                    f"DELETE FROM {of.table} WHERE {of.time} = {time} AND topic IN (SELECT topic {own}) AND {_EMPTY};"
                )
        body = "\n            ".join(steps)
        triggers.append(f"""
        CREATE TRIGGER activity_{event.lower()} AFTER {event} ON activity BEGIN
            {body}
        END;""")
    return "".join(triggers)


def _keep_topics() -> str:
    """Return the triggers that move a conversation's facts as it gets and loses topics."""
    triggers = []
    for event, row, sign in (("INSERT", "NEW", ""), ("DELETE", "OLD", "-")):
        sums = ", ".join(f"{sign}sum({name})" for name in COUNTERS)
        steps = []
        for of in OF_TOPICS:
            time = f"slot / {of.quarters}"
            own = f"FROM activity WHERE number = {row}.number"
            select = f"SELECT {time}, {row}.topic, {sums} {own} GROUP BY 1"
            steps.append(_added(of.table, f"{of.time}, topic", select))
            if event == "DELETE":
                steps.append(
                    f"DELETE FROM {of.table} WHERE topic = OLD.topic AND {of.time} IN (SELECT {time} {own}) AND {_EMPTY};"
                )
        body = "\n            ".join(steps)
        triggers.append(f"""
        CREATE TRIGGER topic_activity_{event.lower()} AFTER {event} ON topics BEGIN
            {body}
        END;""")
    return "".join(triggers)


def _keep_facets(table: str, kind: str) -> str:
    return f"""
        CREATE TRIGGER facet_{kind}_added AFTER INSERT ON {table} BEGIN
            {_count(kind)}
        END;
        CREATE TRIGGER facet_{kind}_removed AFTER DELETE ON {table} BEGIN
            {_uncount(kind)}
        END;"""


def _count(kind: str) -> str:
    return (
        f"INSERT INTO facets VALUES('{kind}', NEW.{kind}, 1)"
        " ON CONFLICT DO UPDATE SET conversations = conversations + 1;"
    )


def _uncount(kind: str) -> str:
    which = f"kind = '{kind}' AND value = OLD.{kind}"
    return (
        f"UPDATE facets SET conversations = conversations - 1 WHERE {which};"
        f" DELETE FROM facets WHERE {which} AND conversations = 0;"
    )


_SUMS = ", ".join(f"{name} INTEGER NOT NULL" for name in COUNTERS)

_TABLES = f"""
    CREATE TABLE activity(
        slot INTEGER NOT NULL, number INTEGER NOT NULL, channel TEXT NOT NULL, model TEXT NOT NULL, {_SUMS},
        PRIMARY KEY(slot, number, channel, model)) WITHOUT ROWID;
    CREATE INDEX activity_of_conversation ON activity(number);
    CREATE TABLE activity_by_hour(
        hour INTEGER NOT NULL, channel TEXT NOT NULL, model TEXT NOT NULL, {_SUMS},
        PRIMARY KEY(hour, channel, model)) WITHOUT ROWID;
    CREATE TABLE activity_by_day(
        day INTEGER NOT NULL, channel TEXT NOT NULL, model TEXT NOT NULL, {_SUMS},
        PRIMARY KEY(day, channel, model)) WITHOUT ROWID;
    -- A topic's hours stand together: few topics are asked for by the hour. All are by the day.
    CREATE TABLE topics_by_hour(
        hour INTEGER NOT NULL, topic TEXT NOT NULL, {_SUMS}, PRIMARY KEY(topic, hour)) WITHOUT ROWID;
    CREATE TABLE topics_by_day(
        day INTEGER NOT NULL, topic TEXT NOT NULL, {_SUMS}, PRIMARY KEY(day, topic)) WITHOUT ROWID;
    {_take_in()}
    {_keep_sums()}
    {_keep_topics()}

    CREATE TABLE facets(
        kind TEXT NOT NULL, value TEXT NOT NULL, conversations INTEGER NOT NULL, PRIMARY KEY(kind, value)) WITHOUT ROWID;
    CREATE INDEX facets_by_count ON facets(kind, conversations DESC, value);
    {_keep_facets("conversations", "channel")}
    {_keep_facets("conversations", "model")}
    {_keep_facets("topics", "topic")}
    {_keep_facets("participants", "participant")}
    CREATE TRIGGER facet_model_changed AFTER UPDATE OF model ON conversations WHEN OLD.model <> NEW.model BEGIN
        {_uncount("model")}
        {_count("model")}
    END;
"""
"""The tables and their triggers."""


def _remove(connection: apsw.Connection, numbers: list[int]) -> bool:
    """Remove a part of the facts of conversations. Return True if some are left."""
    connection.execute(
        "DELETE FROM activity WHERE (slot, number, channel, model) IN"
        " (SELECT slot, number, channel, model FROM activity"
        " WHERE number IN (SELECT value FROM json_each(?)) LIMIT ?)",
        (dump_json(numbers), _PART),
    )
    return connection.changes() >= _PART


def _facts(connection: apsw.Connection, number: int) -> dict[Key, list[int]]:
    rows = connection.execute(
        f"SELECT slot, channel, model, {_COUNTERS} FROM activity WHERE number = ?", (number,)
    )
    return {(row[0], row[1], row[2]): list(row[3:]) for row in rows}


def _problems(connection: apsw.Connection) -> Iterator[str]:
    """Yield the tables of sums that do not equal the sums of their facts."""
    sums = ", ".join(f"sum({name})" for name in COUNTERS)
    for of in (*OF_CHANNELS, *OF_TOPICS):
        rows = f"SELECT {of.time}, {of.key}, {_COUNTERS} FROM {of.table}"
        expected = f"SELECT slot / {of.quarters}, {of.key}, {sums} FROM {of.facts} GROUP BY slot / {of.quarters}, {of.key}"
        for one, other in ((rows, expected), (expected, rows)):
            # In a query of its own each: EXCEPT binds to the left.
            if connection.execute(f"SELECT 1 FROM ({one} EXCEPT {other}) LIMIT 1").get:
                yield f"the sums of {of.table} are wrong"
                break


def _sections(
    before: Conversation | None,
    after: Conversation,
    _lines: list[Line],
    contents: list[object],
) -> Mapping[str, object]:
    facts = facts_of(before, after, contents)
    return {"activity": [(*key, *counters) for key, counters in facts.items()] or None}


def _differences(expected: Expected) -> Iterator[str]:
    if expected.state is None:
        return
    facts = facts_of(None, expected.state, contents_of(expected.lines))
    with expected.database.reading() as connection:
        if _facts(connection, expected.number) != facts:
            yield "the index counts other activity than the transcript has"


ACTIVITY = Derived(
    sections=_sections,
    schema=_TABLES,
    remove=_remove,
    differences=_differences,
    problems=_problems,
)
