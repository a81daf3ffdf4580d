"""InsightService: activity by time and group, channels by the hour, facets and topics."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from recollect import (
    Activity,
    Client,
    DateRange,
    InvalidArgument,
    Message,
    TimeBucket,
    Usage,
    UsageGroup,
)
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.at_rest import INDEX, SEAL
from tests.conftest import LOOPBACK, MovableClock, Start

DAY = datetime(2026, 3, 2, tzinfo=UTC)
"""A Monday."""
FEBRUARY_ON = DateRange(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))


def at(days: int, hours: float = 0.0) -> datetime:
    return DAY + timedelta(days=days, hours=hours)


def turn(time: datetime, tokens: int, cost: float, **fields: object) -> list[Message]:
    usage = Usage(tokens, tokens // 10)
    return [
        replace(Message.user("a question"), timestamp=time, **fields),  # type: ignore[arg-type]
        replace(Message.assistant("an answer"), timestamp=time, usage=usage, cost=cost),
    ]


def write_history(client: Client) -> dict[str, str]:
    """Write three conversations: on Monday and Tuesday, on the week after, and in February."""
    conversations = client.conversations
    disk = conversations.create(
        "web", model="haiku", create_time=at(0, 8), participants=["alex"]
    ).id
    conversations.append_turn(disk, turn(at(0, 8), 100, 0.1) + turn(at(0, 23.5), 200, 0.2))
    conversations.append_turn(disk, turn(at(1, 9), 400, 0.4))
    conversations.rename(disk, "A full disk", automatic=True, topics=["disk", "servers"])
    garden = conversations.create("email", model="opus", create_time=at(8, 9)).id
    conversations.append_turn(garden, turn(at(8, 9), 1000, 1.0, sender="alex"))
    conversations.rename(garden, "Roses", automatic=True, topics=["garden"])
    old = conversations.create("web", model="haiku", create_time=at(-20)).id
    conversations.append_turn(old, turn(at(-20), 10, 0.01))
    conversations.rename(old, "Older", automatic=True, topics=["disk"])
    return {"disk": disk, "garden": garden, "old": old}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Connect to a server that tests do not change."""
    settings = Settings.load(
        None, {"listen": f"{LOOPBACK}:0", "data_dir": tmp_path_factory.mktemp("data")}
    )
    server = app.start(settings, clock=MovableClock())
    with Client(server.address) as connected:
        write_history(connected)
        yield connected
    server.stop()


def numbers(activity: Activity) -> tuple[int, int, int, int, float]:
    return (
        activity.conversations,
        activity.turns,
        activity.messages,
        activity.usage.input,
        round(activity.cost, 6),
    )


def test_usage_by_day_has_the_days_of_the_zone(client: Client) -> None:
    days = DateRange(at(0), at(2))
    utc = client.insight.usage(date_range=days)
    assert [(row.bucket_start, numbers(row.activity)) for row in utc.rows] == [
        (at(0), (1, 2, 4, 300, 0.3)),
        (at(1), (0, 1, 2, 400, 0.4)),
    ]
    assert [row.group for row in utc.rows] == ["default", "default"]
    # 23:30 in UTC is a day later in India, where days begin at 18:30
    india = client.insight.usage(date_range=DateRange(at(0), at(2)), time_zone="Asia/Kolkata")
    assert india.bucket_starts == tuple(at(day, -5.5) for day in range(3))
    assert india.end == at(3, -5.5)
    assert [(row.bucket_start, numbers(row.activity)) for row in india.rows] == [
        (at(0, -5.5), (1, 1, 2, 100, 0.1)),
        (at(1, -5.5), (0, 2, 4, 600, 0.6)),
    ]


def test_usage_by_week_and_month_is_grouped_by_each_key(client: Client) -> None:
    def rows(
        bucket: TimeBucket, group: UsageGroup, most: int | None = None
    ) -> list[tuple[object, ...]]:
        report = client.insight.usage(
            date_range=FEBRUARY_ON, bucket=bucket, group_by=group, max_groups=most
        )
        return [(row.bucket_start, row.group, row.activity.messages) for row in report.rows]

    week = TimeBucket.WEEK
    february, march = datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
    assert rows(week, UsageGroup.CHANNEL) == [
        (at(-21), "web", 2),
        (at(0), "web", 6),
        (at(7), "email", 2),
    ]
    assert rows(TimeBucket.MONTH, UsageGroup.MODEL) == [
        (february, "haiku", 2),
        (march, "haiku", 6),
        (march, "opus", 2),
    ]
    assert rows(TimeBucket.MONTH, UsageGroup.TOPIC) == [
        (february, "disk", 2),
        (march, "disk", 6),
        (march, "servers", 6),
        (march, "garden", 2),
    ]
    assert rows(week, UsageGroup.TOPIC, most=1) == [(at(-21), "disk", 2), (at(0), "disk", 6)]
    report = client.insight.usage(
        date_range=FEBRUARY_ON, bucket=week, group_by=UsageGroup.CONVERSATION, max_groups=2
    )
    assert [total.label for total in report.groups] == ["A full disk", "Roses"]
    assert [(row.bucket_start, row.activity.messages) for row in report.rows] == [
        (at(0), 6),
        (at(7), 2),
    ]
    assert (report.rows[0].group, report.more_groups) == (report.groups[0].group, 1)
    assert numbers(report.groups[0].activity) == (1, 3, 6, 700, 0.7)


def test_topics_over_time_have_a_number_for_each_bucket(client: Client) -> None:
    report = client.insight.topics_over_time(
        date_range=DateRange(at(-21), at(14)), bucket=TimeBucket.WEEK, max_topics=2
    )
    assert report.bucket_starts == tuple(at(day) for day in range(-21, 14, 7))
    assert [(it.topic, it.messages, it.turns) for it in report.topics] == [
        ("disk", (2, 0, 0, 6, 0), (1, 0, 0, 3, 0)),
        ("servers", (0, 0, 0, 6, 0), (0, 0, 0, 3, 0)),
    ]
    assert (report.end, report.more_topics) == (at(14), 1)


def test_channel_activity_is_by_the_local_weekday_and_hour(client: Client) -> None:
    def hours(zone: str) -> dict[str, list[tuple[int, int, int]]]:
        return {
            it.channel: [(hour.weekday, hour.hour, hour.messages) for hour in it.hours]
            for it in client.insight.channel_activity(date_range=FEBRUARY_ON, time_zone=zone)
        }

    assert hours("UTC") == {
        "web": [(1, 8, 2), (1, 23, 2), (2, 0, 2), (2, 9, 2)],
        "email": [(2, 9, 2)],
    }
    assert hours("Asia/Kolkata")["web"] == [(1, 13, 2), (2, 5, 4), (2, 14, 2)]
    # clocks change on 8 March: Tuesday the 10th is an hour less behind
    assert hours("America/New_York")["email"] == [(2, 5, 2)]
    [only] = client.insight.channel_activity(date_range=FEBRUARY_ON, channels=["email"])
    assert (only.channel, only.messages) == ("email", 2)


def test_the_busiest_conversations_come_first(client: Client) -> None:
    busy = client.insight.busiest_conversations(date_range=FEBRUARY_ON)
    assert [(it.conversation.title, it.activity.messages) for it in busy[:1]] == [
        ("A full disk", 6)
    ]
    assert {it.conversation.title for it in busy[1:]} == {"Roses", "Older"}
    one = client.insight.busiest_conversations(date_range=DateRange(at(1), at(2)), limit=1)
    assert [(it.conversation.title, numbers(it.activity)) for it in one] == [
        ("A full disk", (0, 1, 2, 400, 0.4))
    ]
    [email] = client.insight.busiest_conversations(date_range=FEBRUARY_ON, channels=["email"])
    assert email.conversation.title == "Roses"


def test_facets_count_conversations(client: Client) -> None:
    facets = client.insight.facets()
    shown = {
        name: [(it.value, it.conversations) for it in getattr(facets, name).facets]
        for name in ("channels", "topics", "models", "participants")
    }
    assert shown == {
        "channels": [("web", 2), ("email", 1)],
        "topics": [("disk", 2), ("garden", 1), ("servers", 1)],
        "models": [("haiku", 2), ("opus", 1)],
        "participants": [("alex", 2), ("user", 2)],
    }
    bounded = client.insight.facets(max_values=1).topics
    assert ([it.value for it in bounded.facets], bounded.total) == (["disk"], 3)


def test_topics_are_listed_in_pages_with_their_last_use(client: Client) -> None:
    first = client.insight.list_topics_page(page_size=2)
    assert [(it.label, it.conversations, it.last_use_time) for it in first.topics] == [
        ("disk", 2, at(1, 9)),
        ("garden", 1, at(8, 9)),
    ]
    second = client.insight.list_topics_page(page_size=2, page_token=first.next_page_token)
    assert [it.label for it in second.topics] == ["servers"]
    assert second.next_page_token == ""
    assert [it.label for it in client.insight.list_topics(query="ARD")] == ["garden"]
    with pytest.raises(InvalidArgument):
        client.insight.list_topics_page(query="disk", page_token=first.next_page_token)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("time_zone", {"time_zone": "Mars/Olympus"}),
        ("time_zone", {"time_zone": "../../etc/passwd"}),
        ("time_zone", {"time_zone": "Europe"}),
        ("time_zone", {"time_zone": "é" * 3000}),
        ("date_range.end", {"date_range": DateRange(at(1), at(0))}),
        ("date_range.start", {"date_range": DateRange(datetime(2100, 1, 1, tzinfo=UTC))}),
        ("date_range.end", {"date_range": DateRange(end=datetime(9999, 6, 1, tzinfo=UTC))}),
        ("date_range", {"date_range": DateRange(at(0), at(401))}),
        ("max_groups", {"max_groups": -1}),
    ],
)
def test_a_range_that_cannot_be_counted_is_refused(
    client: Client, field: str, arguments: dict[str, object]
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        client.insight.usage(**arguments)  # type: ignore[arg-type]
    assert [it.field for it in refused.value.violations] == [field]


def test_the_usual_range_is_the_last_thirty_days(client: Client) -> None:
    report = client.insight.usage()
    now = datetime.fromtimestamp(MovableClock().now / 1000, UTC)
    assert report.bucket_starts[0].date() == (now - timedelta(days=30)).date()
    assert report.bucket_starts[-1].date() == now.date()
    assert len(report.bucket_starts) == 31


def everything(client: Client) -> tuple[object, ...]:
    """Return all answers about the history."""
    return (
        *(
            client.insight.usage(date_range=FEBRUARY_ON, bucket=TimeBucket.WEEK, group_by=group)
            for group in UsageGroup
        ),
        client.insight.topics_over_time(date_range=FEBRUARY_ON, time_zone="Asia/Tokyo"),
        client.insight.channel_activity(date_range=FEBRUARY_ON),
        client.insight.busiest_conversations(date_range=FEBRUARY_ON),
        client.insight.facets(),
        tuple(client.insight.list_topics(page_size=1)),
    )


def test_answers_follow_changes_at_once_and_an_index_made_anew_has_the_same(
    start_server: Start,
) -> None:
    server = start_server()
    with Client(server.target) as client:
        written = write_history(client)
        client.conversations.record_abbreviation(
            written["disk"], "Notes.", topics=["disk", "taxes"]
        )
        client.conversations.set_model(written["disk"], "opus")
        client.conversations.append_turn(written["disk"], turn(at(2), 7, 0.0))
        models = client.insight.usage(date_range=FEBRUARY_ON, group_by=UsageGroup.MODEL).groups
        assert [(it.group, it.activity.messages) for it in models] == [("haiku", 8), ("opus", 4)]
        assert [it.label for it in client.insight.list_topics()] == [
            "disk",
            "garden",
            "taxes",
        ]
        client.conversations.delete(written["garden"])
        assert [it.label for it in client.insight.list_topics()] == ["disk", "taxes"]
        assert client.insight.usage(date_range=DateRange(at(7), at(14))).rows == ()
        before = everything(client)
    index = server.folder / INDEX
    server.stop()
    for suffix in ("", SEAL):
        index.with_name(index.name + suffix).unlink()
    server = start_server()
    with Client(server.target) as client:
        assert everything(client) == before
