"""The sizes of an installation: loads follow from their causes, and what is named first breaks
first.
"""

import dataclasses
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from bench.sizing import (
    USERS,
    Measured,
    Resource,
    connections,
    first,
    fullest,
    main,
    resources,
    sizes,
    tables,
)

PAGE = Path(__file__).parents[2] / "docs/operations/growth.md"
LIMITS = {
    "cores": "processor of servers",
    "interpreter": "interpreter of servers",
    "server": "appends",
    "open": "open spaces",
    "memory": "memory",
    "files": "open files",
    "delay": "spaces with a stream",
    "disk": "disk of servers: index, vectors",
    "database_cores": "processor of databases",
    "database_disk": "disk of databases: lines, vectors",
    "copy": "backup",
}
"""Figures that say how much one server or database carries, and the resource of each."""


def named(measured: Measured) -> dict[str, Resource]:
    """Return the resources by their names."""
    return {it.name: it for it in resources(measured)}


def test_the_page_has_the_tables_that_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    printed = capsys.readouterr().out
    for lines in tables(Measured()).values():
        assert "\n".join(lines) in printed
        assert "\n".join(lines) in PAGE.read_text()


def test_twice_as_many_messages_are_twice_as_many_bytes_and_appends() -> None:
    once, twice = (sizes(100_000, Measured(messages=it)) for it in (40, 80))
    assert twice.stored == pytest.approx(2 * once.stored)
    assert twice.appends == pytest.approx(2 * once.appends)
    by_messages, open_spaces = "disk of databases: lines, vectors", "open spaces"
    before, after = named(Measured(messages=40)), named(Measured(messages=80))
    assert after[by_messages].users == pytest.approx(before[by_messages].users / 2)
    assert after[open_spaces].users == before[open_spaces].users


def test_a_terabyte_is_as_many_messages_as_rows_fit() -> None:
    measured = Measured(messages=10, days=100, row=600, shared=400)
    assert sizes(1_000_000, measured).stored == 1e12


def test_spaces_have_the_memory_that_a_server_without_any_leaves() -> None:
    measured = Measured(memory=10e9, idle=1e9, headroom=0.5, active=0.1, streamed=0.5)
    measured = replace(measured, space=1e6, watched=2e6, vector=100, messages=10, days=100)
    of_user = 0.1 * 1e6 + 0.05 * (2e6 + 1000 * 100)
    assert named(measured)["memory"].users == pytest.approx((10e9 * 0.5 - 1e9) / of_user)


@pytest.mark.parametrize("figure", LIMITS)
def test_a_resource_with_a_higher_limit_carries_more_users_and_no_other_does(figure: str) -> None:
    measured = Measured()
    more = named(replace(measured, **{figure: 4 * getattr(measured, figure)}))
    for name, it in named(measured).items():
        if name == LIMITS[figure]:
            assert more[name].users > 2 * it.users
        else:
            assert more[name].users == it.users


@pytest.mark.parametrize("of", ["server", "database"])
def test_what_breaks_first_is_full_when_nothing_else_is(of: str) -> None:
    measured = Measured()
    breaks = first(of, measured)
    for it in resources(measured):
        if it.of == of:
            load = it.each * breaks.users
            assert load <= it.limit * (1 + 1e-9)
            assert (load == pytest.approx(it.limit)) == (it.name == breaks.name)


@pytest.mark.parametrize(
    ("figures", "server", "database"),
    [
        ({"open": 1.0}, "open spaces", None),
        ({"embed": 10.0}, "processor of servers", None),
        ({"files": 10.0}, "open files", None),
        ({"index": 1e7}, "disk of servers: index, vectors", None),
        ({"shared": 1e7, "copy": 1e12}, None, "disk of databases: lines, vectors"),
        ({"copy": 1.0}, None, "backup"),
        ({"follow": 100.0}, None, "processor of databases"),
    ],
)
def test_the_resource_that_is_made_scarce_breaks_first(
    figures: dict[str, float], server: str | None, database: str | None
) -> None:
    measured = replace(Measured(), **figures)
    assert first("server", measured).name == (server or first("server", Measured()).name)
    assert first("database", measured).name == (database or first("database", Measured()).name)


def test_the_table_of_limits_is_in_the_order_in_which_they_break() -> None:
    measured = Measured()
    rows = [line.split(" | ") for line in tables(measured)["What breaks first"][2:]]
    named_users = {it.name: it.users for it in (*resources(measured), connections(measured))}
    users = [named_users[row[1]] for row in rows]
    assert users == sorted(users)
    assert len(rows) == len(named_users)


def test_more_users_need_more_and_better_machines_fewer() -> None:
    measured = Measured()
    every = [sizes(users, measured) for users in USERS]
    for fewer, more in pairwise(every):
        assert (fewer.servers, fewer.databases) <= (more.servers, more.databases)
        factor = more.users / fewer.users
        assert more.appends == pytest.approx(factor * fewer.appends)
    better = {name: 4 * getattr(measured, name) for name in LIMITS}
    assert sizes(USERS[-1], replace(measured, **better)).servers < every[-1].servers / 2
    assert sizes(USERS[-1], replace(measured, **better)).databases < every[-1].databases / 2


def test_no_server_and_no_database_is_fuller_than_its_headroom_allows() -> None:
    measured = Measured()
    for users in USERS:
        it = sizes(users, measured)
        for resource in resources(measured):
            of_server = resource.of == "server"
            count = it.servers if of_server else it.databases / it.fullest
            assert resource.each * users / count <= resource.limit * (1 + 1e-9)
        assert it.servers >= 2 * it.databases
    assert fullest(1000, 8) > fullest(1_000_000, 8) > 1.0


def test_every_figure_says_where_it_is_from() -> None:
    for it in dataclasses.fields(Measured):
        assert it.metadata["source"]
        assert it.metadata["meaning"]


@pytest.mark.parametrize(
    ("flag", "value", "reason"),
    [
        ("--server", "0", "0 is not above 0"),
        ("--database-cores", "-1", "-1 is not above 0"),
        ("--disk", "nan", "nan is not above 0"),
        ("--active", "2", "2 is a share: above 0, and 1 at most"),
        ("--row", "many", "invalid number value: 'many'"),
    ],
)
def test_a_figure_that_no_table_follows_from_is_refused_by_its_flag(
    flag: str, value: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main([flag, value])
    assert raised.value.code == 2
    assert f"argument {flag}: {reason}" in capsys.readouterr().err
