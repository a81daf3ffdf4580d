"""The sizes of an installation: what the page says is what the simulation gives."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from bench.sizing import SPACES, Measured, fullest, main, sizes, table

PAGE = Path(__file__).parents[2] / "docs/operations/deployment.md"


def test_the_page_has_the_table_of_the_simulation() -> None:
    assert "\n".join(table(Measured())) in PAGE.read_text()


def test_more_spaces_need_more_and_faster_machines_fewer() -> None:
    measured = Measured()
    every = [sizes(spaces, measured) for spaces in SPACES]
    for fewer, more in pairwise(every):
        assert (fewer.servers, fewer.databases) <= (more.servers, more.databases)
        factor = more.spaces / fewer.spaces
        assert more.appends == pytest.approx(factor * fewer.appends)
    fast = replace(measured, server=1000.0, database=8000.0, disk=4e13, open=5000.0)
    assert sizes(SPACES[-1], fast).servers < every[-1].servers
    assert sizes(SPACES[-1], fast).databases < every[-1].databases


def test_no_database_is_fuller_than_its_headroom_allows() -> None:
    measured = Measured()
    for spaces in SPACES:
        it = sizes(spaces, measured)
        assert it.appends / it.databases * it.fullest <= measured.database * measured.headroom
    assert fullest(1000, 8) > fullest(1_000_000, 8) > 1.0


@pytest.mark.parametrize(
    ("flag", "value", "reason"),
    [
        ("--server", "0", "0 is not above 0"),
        ("--database", "-1", "-1 is not above 0"),
        ("--disk", "nan", "nan is not above 0"),
        ("--active", "2", "2 is a share: above 0, and 1 at most"),
        ("--bytes", "many", "invalid number value: 'many'"),
    ],
)
def test_a_figure_that_no_table_follows_from_is_refused_by_its_flag(
    flag: str, value: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main([flag, value])
    assert raised.value.code == 2
    assert f"argument {flag}: {reason}" in capsys.readouterr().err
