"""The part of a space in PostgreSQL that replicas share: changes, claims, leases and answers."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pytest
from recollect_server.kernel.domain.ids import Action, Kind
from recollect_server.kernel.log.lines import encoded
from recollect_server.kernel.log.order import Key
from recollect_server.kernel.log.store import (
    START,
    Changes,
    Claim,
    LogConflict,
    LogTaken,
    Position,
    Version,
    has_version,
    is_taken,
    request_claim,
)
from recollect_server.postgres.database import PostgresDatabase
from recollect_server.postgres.store import PostgresStore

from tests.logs.conftest import Opened
from tests.logs.test_store import CONVERSATION, OTHER, add, begin, message
from tests.postgres import Postgres

COPY = "conv-01J00000000000000000000007"
PAYLOAD, OTHER_PAYLOAD = "0" * 32, "1" * 32


def test_of_appends_behind_one_position_exactly_one_wins(
    database: PostgresDatabase, tmp_path: Path
) -> None:
    stores = [PostgresStore(database, "default", tmp_path) for _ in range(8)]
    barrier = threading.Barrier(len(stores))

    def race(store: PostgresStore, after: Position) -> Position | None:
        barrier.wait()
        try:
            return add(store, CONVERSATION, after, message(after.lines + 1))
        except LogConflict:
            return None

    end = START
    with ThreadPoolExecutor(len(stores)) as pool:
        for _ in range(20):  # the first ones open connections one after the other
            ends = [it for it in pool.map(partial(race, after=end), stores) if it]
            assert len(ends) == 1
            end = ends[0]
    assert len(list(stores[0].read(CONVERSATION))) == 20


def changed(changes: Changes) -> list[tuple[str, Action, int, int]]:
    assert changes.is_whole
    return [(it.log, it.action, it.start, it.end) for it in changes.changes]


def test_a_replica_is_given_each_change_of_the_other_once(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (PostgresStore(opened(url), "default", tmp_path) for _ in range(2))
    elsewhere = PostgresStore(opened(url), "other", tmp_path)
    moment = two.sharing.moment()
    end = begin(one)
    longer = add(one, CONVERSATION, end, message(5))
    begin(elsewhere)
    first = two.sharing.changes(moment)
    assert changed(first) == [
        (CONVERSATION, Action.APPEND, 0, end.bytes),
        (CONVERSATION, Action.APPEND, end.bytes, longer.bytes),
    ]
    assert {it.is_own for it in first.changes} == {False}
    assert {it.is_own for it in one.sharing.changes(moment).changes} == {True}
    assert changed(two.sharing.changes(first.moment)) == []
    one.swap("anchors", encoded([message(1)])[1])
    lines = [body + b"\n" for body in one.raw(CONVERSATION)]
    one.swap(CONVERSATION, [*lines, lines[-1]], keep=True)
    one.drop(CONVERSATION, Version.REPLACED)
    one.swap(CONVERSATION, None)
    second = two.sharing.changes(first.moment)
    assert [it[:2] for it in changed(second)] == [
        ("anchors", Action.REPLACE),
        (CONVERSATION, Action.REDACT),
        (CONVERSATION, Action.DELETE),
    ]
    everything = two.order.after(Key(), Kind.CONVERSATION, 100, 1 << 20).rows
    assert [(it.log, it.action) for it in everything] == [
        (it.log, it.action) for it in first.changes + second.changes
    ]
    rest = two.order.after(everything[1].end, Kind.CONVERSATION, 100, 1 << 20)
    assert rest.rows == everything[2:]


def test_a_change_that_is_committed_late_is_given_out_at_once_and_ordered_where_it_began(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    database = opened(url)
    store = PostgresStore(database, "default", tmp_path)
    sharing = store.sharing
    moment = sharing.moment()
    with psycopg.connect(url) as late:
        late.execute(
            "SELECT recollect.add_change('default', 'late', 'ledger', 'append', 0, 1, 9, NULL)"
        )
        begin(store)
        before = sharing.changes(moment)
        assert [it.log for it in before.changes] == [CONVERSATION]
        start = store.order.settled()
        assert store.order.after(start.key, Kind.CONVERSATION, 10, 1 << 20).rows == []
        late.commit()
        after = sharing.changes(before.moment)
        assert [it.log for it in after.changes] == ["late"]
    order = store.order.after(start.key, Kind.CONVERSATION, 10, 1 << 20)
    assert [it.log for it in order.rows] == ["late", CONVERSATION]
    assert order.rows[-1].transaction < order.horizon


def test_who_stands_before_changes_that_were_pruned_is_told_so(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    store = PostgresStore(opened(postgres.new_database()), "default", tmp_path)
    sharing = store.sharing
    start, moment = store.order.now(), sharing.moment()
    end = begin(store)
    first = store.order.now()
    assert sharing.prune_changes(max_age=3600, most=10) == 0
    add(store, CONVERSATION, end, message(5))
    assert sharing.prune_changes(max_age=3600, most=1) == 1
    assert not sharing.changes(moment).is_whole
    assert not store.order.reaches(start, Kind.CONVERSATION)
    assert store.order.reaches(first, Kind.CONVERSATION)
    assert len(store.order.after(first.key, Kind.CONVERSATION, 10, 1 << 20).rows) == 1
    now = sharing.moment()
    assert sharing.prune_changes(max_age=0, most=10) == 1
    assert sharing.changes(now).is_whole


def test_the_newest_position_holds_where_every_change_is_pruned(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    store = PostgresStore(opened(postgres.new_database()), "default", tmp_path)
    end = begin(store)
    newest = store.order.now()
    assert store.sharing.prune_changes(max_age=0, most=10) == 1
    for mark in (store.order.now(), store.order.settled()):
        assert mark.key == newest.key
        assert store.order.reaches(mark, Kind.CONVERSATION)
    before = store.order.now()
    add(store, CONVERSATION, end, message(5))
    assert store.order.reaches(before, Kind.CONVERSATION)
    changes = store.order.after(before.key, Kind.CONVERSATION, 10, 1 << 20)
    assert [it.start for it in changes.rows] == [end.bytes]


def test_whoever_lost_a_lease_appends_nothing_within_it(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (PostgresStore(opened(url), "default", tmp_path) for _ in range(2))
    end = begin(one)

    def lease(store: PostgresStore, purpose: str) -> int:
        with store.sharing.lease(purpose, 60) as number:
            return number

    assert (lease(one, "notes"), lease(one, "notes"), lease(two, "notes")) == (1, 1, 0)
    assert lease(two, "retention") == 1
    with one.sharing.lease("notes", 60):
        end = add(one, CONVERSATION, end, message(5))
        postgres.execute("UPDATE recollect.leases SET until = now() - interval '1 second'", url)
        end = add(one, CONVERSATION, end, message(6))  # nobody else has it
        assert lease(two, "notes") == 2
        with pytest.raises(LogTaken):
            add(one, CONVERSATION, end, message(7))
    assert lease(one, "notes") == 0
    add(one, CONVERSATION, end, message(7))


def test_the_first_answer_of_a_request_is_kept_for_every_replica(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (PostgresStore(opened(url), "default", tmp_path).sharing for _ in range(2))
    assert two.answer("r1") is None
    assert one.begin_request("r1", PAYLOAD)
    assert two.answer("r1") == ""
    assert two.answer("r1", PAYLOAD) == ""
    assert two.answer("r1", OTHER_PAYLOAD) is None
    assert one.end_request("r1", PAYLOAD, "receipt") == "receipt"
    assert two.begin_request("r1", PAYLOAD)  # it looked before the answer was there
    assert two.end_request("r1", PAYLOAD, "another one") == "receipt"
    two.end_request("r1", PAYLOAD, None)
    assert (one.answer("r1"), two.answer("r1")) == ("receipt", "receipt")
    assert two.answer("r1", OTHER_PAYLOAD) == "receipt"
    elsewhere = PostgresStore(opened(url), "other", tmp_path).sharing
    assert elsewhere.answer("r1") is None


def test_the_id_of_a_request_that_leaves_no_line_is_taken_until_it_is_given_up(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (PostgresStore(opened(url), "default", tmp_path) for _ in range(2))
    claim = Claim(request_claim("r1"))
    lines = encoded([message(1)])[1]
    assert one.sharing.begin_request("r1", PAYLOAD)
    assert not two.sharing.begin_request("r1", OTHER_PAYLOAD)
    assert not two.sharing.begin_request("r1", OTHER_PAYLOAD, OTHER, "note")
    assert two.sharing.answer(log=OTHER) is None
    with pytest.raises(LogTaken):
        two.append(CONVERSATION, START, lines, claim)
    end = begin(two, OTHER)
    with pytest.raises(LogTaken):
        two.swap(
            OTHER,
            [body + b"\n" for body in two.raw(OTHER)],
            end.bytes,
            request=claim.request,
            keep=True,
        )
    assert not has_version(two, OTHER, Version.REPLACED)
    with pytest.raises(LogTaken):
        two.swap("anchors", lines, request=claim.request)
    assert not is_taken(two, "anchors")
    two.sharing.end_request("r1", OTHER_PAYLOAD, None)  # it is not this one's
    assert two.sharing.answer("r1", PAYLOAD) == ""
    one.sharing.end_request("r1", PAYLOAD, None)
    assert two.sharing.answer("r1") is None
    two.append(CONVERSATION, START, lines, claim)
    assert not one.sharing.begin_request("r1", PAYLOAD)
    two.swap(CONVERSATION, None)
    assert one.sharing.begin_request("r1", PAYLOAD, OTHER, "note")
    assert two.sharing.answer(log=OTHER) == "note"


def test_the_claims_of_lines_that_are_left_out_are_free_and_those_of_others_stay(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    store = PostgresStore(opened(url), "default", tmp_path)
    lines = encoded([message(1)])[1]
    store.append("anchors", START, lines, Claim(request_claim("r1")))
    store.append(CONVERSATION, START, lines, Claim(request_claim("r2")))
    store.swap(
        "anchors",
        lines,
        request=request_claim("r3"),
        released=[request_claim("r1"), request_claim("r2")],
    )
    assert [store.sharing.begin_request(it, PAYLOAD) for it in ("r1", "r2", "r3")] == [
        *(True, False, False),
    ]
    store.swap("anchors", lines, request=request_claim("r3"))  # an answer was lost


def test_answers_of_requests_end_after_a_month(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    sharing = PostgresStore(opened(url), "default", tmp_path).sharing
    for request in ("old", "newer", "new"):
        postgres.execute("UPDATE recollect.receipts SET time = time - interval '15.5 days'", url)
        postgres.execute("UPDATE recollect.claims SET time = time - interval '15.5 days'", url)
        sharing.end_request(request, PAYLOAD, "receipt")
    assert sharing.prune_changes(max_age=3600, most=10) == 0
    requests = "old", "newer", "new"
    assert [sharing.answer(it) for it in requests] == [None, "receipt", "receipt"]
    assert [sharing.begin_request(it, OTHER_PAYLOAD) for it in requests] == [True, False, False]


def test_of_two_that_claim_a_place_or_a_request_one_begins_a_log(
    postgres: Postgres, opened: Opened, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (PostgresStore(opened(url), "default", tmp_path) for _ in range(2))
    lines = encoded([message(1)])[1]
    before = Claim(places=one.sharing.claims(["origin"]))
    anew = Claim(places=two.sharing.claims(["origin"], anew=True))
    with pytest.raises(LogTaken):
        one.append(CONVERSATION, START, lines, before)
    two.append(COPY, START, lines, anew)
    claims = [Claim(places=it.sharing.claims(["place", "other"])) for it in (one, two)]
    one.append(CONVERSATION, START, lines, claims[0])
    with pytest.raises(LogTaken):
        two.append(OTHER, START, lines, claims[1])
    assert not is_taken(two, OTHER)
    two.append(OTHER, START, lines, Claim("request", two.sharing.claims(["place"])))
    third = "conv-01J00000000000000000000009"
    fourth = "conv-01J00000000000000000000008"
    stale, fresh = (Claim(places=it.sharing.claims(["place"])) for it in (one, two))
    two.append(fourth, START, lines, fresh)
    with pytest.raises(LogTaken):
        one.append(third, START, lines, stale)
    with pytest.raises(LogTaken):
        one.append(third, START, lines, Claim("request"))
    two.swap(OTHER, None)
    one.append(third, START, lines, Claim("request"))
