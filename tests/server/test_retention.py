"""Retention: which conversations rules delete, which stay, and what is written down of it."""

from datetime import UTC, timedelta
from pathlib import Path

import pytest
from recollect import Client, InvalidArgument, NotFound
from recollect.v1.anchor_pb2 import AnchorSource
from recollect.v1.recall_service_pb2 import ListAnchorsRequest, SetAnchorRequest
from recollect_server.kernel.domain.live import Holder
from recollect_server.retention.service import RetentionGrace
from recollect_server.run.settings import Settings, WrongSettings

from tests.cases import each
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import Connect, Service, moment, user
from tests.waiting import until

DAY = timedelta(days=1) // timedelta(milliseconds=1)
WORD = "quixotriple"


def begun(service: Service, server: RunningServer, days: int, channel: str = "web") -> str:
    """Begin a conversation whose only message is so many days old."""
    time = moment(server.clock.now - days * DAY)
    conversation_id = service.create(channel, create_time=time).id
    service.append(conversation_id, user(f"{WORD} zebra", timestamp=time))
    return conversation_id


def listed(service: Service) -> set[str]:
    return {it.id for it in service.listed(page_size=500).conversations}


@pytest.mark.parametrize(
    ("minutes", "span"),
    [(5, "5 minutes"), (60, "1 hour"), (47 * 60, "1 day"), (48 * 60, "2 days")],
)
def test_the_reason_says_how_long_a_conversation_was_idle(
    service: Service, server: RunningServer, minutes: int, span: str
) -> None:
    time = moment(server.clock.now - minutes * 60_000)
    it = service.create("web", create_time=time).id
    service.append(it, user(f"{WORD} zebra", timestamp=time))
    with Client(server.target) as client:
        plan = client.admin.preview_retention(retention="delete idle=5m")
    assert [it.reason for it in plan.conversations] == [f"it has been idle for {span}"]


def test_idle_conversations_of_a_channel_go_and_the_others_stay(
    start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    server = start_server(retention_grace="0s", retention="delete channel=web idle=30d")
    service = connect(server)
    stays = {begun(service, server, 29), begun(service, server, 400, "email")}
    old = begun(service, server, 30)
    pinned = service.create("cli", pinned=True, create_time=moment(server.clock.now - 400 * DAY)).id
    until(lambda: old not in listed(service))
    assert listed(service) == stays | {pinned}
    with Client(server.target) as client:
        (receipt,) = client.admin.list_retention_receipts()
        assert receipt.conversation.conversation_id == old
        assert receipt.conversation.reason == "it has been idle for 30 days"
        assert receipt.conversation.rule == "delete channel=web idle=30d"
        (rule,) = client.admin.list_retention_rules().rules
        assert (rule.channel, rule.idle_seconds, rule.keeps_anchors) == ("web", 30 * 86_400, True)
        with pytest.raises(NotFound):
            list(client.admin.list_retention_receipts(space="nobody"))
    assert WORD not in (server.data_dir / "default" / "retention.jsonl").read_text()


def test_a_preview_tries_rules_and_deletes_nothing(service: Service, server: RunningServer) -> None:
    made = [begun(service, server, days) for days in (50, 40, 30, 20)]
    size = (server.folder / f"{made[0]}.jsonl").stat().st_size
    with Client(server.target) as client:

        def planned(rules: str, limit: int | None = None) -> list[str]:
            plan = client.admin.preview_retention(retention=rules, limit=limit)
            return [it.conversation_id for it in plan.conversations]

        assert planned("delete idle=25d") == made[:3]
        assert planned("delete conversations=3") == made[:1]
        assert planned(f"delete bytes={2 * size}") == made[:2]
        assert planned("delete space=alex idle=1d") == planned("delete channel=cli idle=1d") == []
        assert planned("delete idle=45d; delete conversations=2") == made[:2]
        assert planned("delete idle=1d", 2) == made[:2]
        assert client.admin.preview_retention().conversations == ()
        plan = client.admin.preview_retention(retention="delete conversations=1", limit=1)
        assert plan.has_more
        reason = (
            "4 conversations are there, and 1 may be; it is one of those that are idle for longest"
        )
        assert plan.conversations[0].reason == reason
        with pytest.raises(InvalidArgument, match="needs one of idle, conversations and bytes"):
            planned("delete channel=web")
        assert list(client.admin.list_retention_receipts()) == []
        assert listed(service) == set(made)
        service.create("cli", pinned=True, create_time=moment(server.clock.now - 400 * DAY))
        assert planned("delete channel=cli idle=1d") == []
        assert planned("delete conversations=4") == made[:1]  # for pinned ones count


def test_a_conversation_that_goes_on_stays_and_streams_and_anchors_follow(
    start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    server = start_server(retention_grace="0s", retention="delete idle=30d anchors=delete")
    service = connect(server)
    goes_on, goes = begun(service, server, 20), begun(service, server, 20)
    source = AnchorSource(conversation_id=goes, sequence=2)
    service.recall.SetAnchor(SetAnchorRequest(key="name", value=WORD, source=source))
    clock.move(9 * DAY)
    service.append(goes_on, user("Still here"))
    with Client(server.target) as client:
        cursor = client.admin.list_retention_receipts_page().next_page_token
        assert not cursor
        clock.move(2 * DAY)
        server.app.spaces.open_now()[0].jobs["retention"].next_at = 0.0  # now
        until(lambda: goes not in listed(service))
        assert listed(service) == {goes_on}
        assert not service.recall.ListAnchors(ListAnchorsRequest()).anchors
        assert len(list(client.admin.list_retention_receipts())) == 1


def test_receipts_come_in_pages_the_newest_first(start_server: Start, connect: Connect) -> None:
    server = start_server(retention_grace="0s", retention="delete idle=1d")
    service = connect(server)
    made = [begun(service, server, days) for days in (9, 8, 7)]
    until(lambda: not listed(service))
    with Client(server.target) as client:
        first = client.admin.list_retention_receipts_page(page_size=2)
        second = client.admin.list_retention_receipts_page(
            page_size=2, page_token=first.next_page_token
        )
        every = list(client.admin.list_retention_receipts(page_size=2))
    pages = [[it.conversation.conversation_id for it in page.receipts] for page in (first, second)]
    assert {len(page) for page in pages} == {1, 2}
    assert every == [*first, *second]
    assert {name for page in pages for name in page} == set(made)
    assert not second.next_page_token


@each(
    ("rules", "sentence"),
    [
        ("keep idle=1d", "begin with `delete` or `unindex`"),
        ("unindex idle=1d anchors=keep", "anchors is for `delete` alone"),
        ("delete idle=1d bytes=1g", "only one"),
        ("delete idle=soon", "not a number"),
        ("delete idle=0d", "too small"),
        ("delete when=now", "is none of"),
        ("delete idle=1d anchors=some", "neither keep nor delete"),
        ("delete idle=1d trust=known", "'trust=known' is none of space=NAME"),
        ("delete communications bytes=1g", "'bytes=1g' is none of space=NAME"),
        ("delete communications channel=web", "needs idle, the one bound of communications"),
        ("delete communications idle=1d trust=some", "is none of untrusted, known, blocked"),
        ("unindex communications idle=1d", "are deleted, and never unindexed"),
    ],
)
def test_wrong_rules_stop_the_start_with_a_sentence(rules: str, sentence: str) -> None:
    with pytest.raises(WrongSettings, match=sentence):
        Settings.load(None, {"retention": rules})


def test_rules_can_be_a_list_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "recollect.yaml"
    path.write_text("retention:\n  - delete channel=web idle=90d\n  - delete bytes=2g\n")
    loaded = Settings.load(path, {})
    assert [rule.bytes for rule in loaded.retention_rules] == [None, 2 << 30]


def test_a_new_rule_waits_over_restarts_and_says_until_when(
    start_server: Start, connect: Connect, clock: MovableClock, tmp_path: Path
) -> None:
    data, wait = tmp_path / "data", 60_000  # a hundred times the grace
    server = start_server(data_dir=data, retention_grace="600ms")
    old = begun(connect(server), server, 40)

    def runs() -> bool:
        with Client(server.target) as client:
            jobs = {it.name: it for it in client.admin.list_jobs()}
            return jobs["retention"].last_run_time is not None

    with Client(server.target) as client:
        assert client.admin.set_setting("title_turns", "3").retention_start_time is None
        changed = client.admin.set_setting("retention", "delete idle=30d")
        start = moment(clock.now + wait)
        assert changed.retention_start_time == start.ToDatetime(UTC)
        [rule] = client.admin.list_retention_rules().rules
        assert rule.start_time == start.ToDatetime(UTC)
        # the same rules again begin no wait of their own
        clock.move(1000)
        again = client.admin.set_setting("retention", "delete idle=30d")
        assert again.retention_start_time == start.ToDatetime(UTC)
    server.stop()
    server = start_server(data_dir=data, retention_grace="600ms")
    until(runs)
    assert listed(connect(server)) == {old}
    server.stop()
    clock.move(wait)
    server = start_server(data_dir=data, retention_grace="600ms")
    until(lambda: not listed(connect(server)))
    with Client(server.target) as client:
        assert client.admin.list_retention_rules().rules[0].start_time is None
        stricter = client.admin.set_setting("retention", "delete idle=20d")
        assert stricter.retention_start_time is not None
        # one that was taken back is new when it comes again
        client.admin.set_setting("retention", reset=True)
        clock.move(2 * wait)
        again = client.admin.set_setting("retention", "delete idle=20d")
        assert again.retention_start_time == moment(clock.now + wait).ToDatetime(UTC)
        client.admin.set_setting("retention", reset=True)


def test_a_preview_names_and_counts_in_every_space(service: Service, server: RunningServer) -> None:
    newest = begun(service, server, 1)
    made = [begun(service, server, days) for days in (50, 40)]
    service.rename(made[0], "The roof")
    with Client(server.target, space="other") as other:
        time = moment(server.clock.now - 60 * DAY).ToDatetime(UTC)
        third = other.conversations.create("web", create_time=time).id
    with Client(server.target) as client:
        plan = client.admin.preview_retention(
            retention="delete idle=30d", every_space=True, limit=2
        )
        assert (plan.total, plan.has_more, plan.is_most) == (3, True, True)
        named = {it.conversation_id: (it.space, it.name) for it in plan.conversations}
        assert named[made[0]] == ("default", "The roof")
        own = client.admin.preview_retention(
            retention="delete space=other idle=30d", every_space=True
        )
        assert [it.conversation_id for it in own.conversations] == [third]
        assert (own.total, own.is_most) == (1, False)
        assert client.admin.preview_retention(retention="delete idle=45d").total == 1
    assert newest in listed(service)


def test_nothing_goes_right_after_a_start_or_a_jump_of_the_clock_and_little_at_first() -> None:
    clock, steady = MovableClock(), MovableClock(0)
    minute = 60_000

    def pass_time(minutes: int) -> None:
        clock.move(minutes * minute)
        steady.move(minutes * minute)

    grace = RetentionGrace(Holder(600.0).view(float), clock, steady)
    pass_time(9)
    assert grace.allowed(20) == 0
    pass_time(2)
    assert grace.allowed(20) == 20
    grace.count(90)
    assert grace.allowed(20) == 10
    pass_time(60)
    assert grace.allowed(20) == 20
    clock.move(400 * DAY)  # somebody put it on
    assert grace.allowed(20) == 0
    pass_time(16 * 60)
    assert grace.allowed(20) == 0
    clock.move(-400 * DAY)  # and back
    assert grace.allowed(20) == 0
    pass_time(11)
    assert grace.allowed(200) == 100
    assert RetentionGrace(Holder(0.0).view(float), clock, steady).allowed(20) == 20


def test_a_server_that_starts_with_its_clock_ahead_deletes_nothing_at_once(
    start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    server = start_server()
    name = connect(server).conversation_of(f"{WORD} zebra")
    server.stop()
    clock.move(400 * DAY)
    again = start_server(retention="delete idle=30d")
    keeper = again.app.spaces.open_now()[0].jobs["retention"]
    until(lambda: keeper.ran_at is not None)
    assert listed(connect(again)) == {name}
    with Client(again.target) as client:  # which a preview shows
        assert len(client.admin.preview_retention().conversations) == 1
