"""The sizes of an installation: what the page says is what the simulation gives."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from bench.sizing import SPACES, Measured, fullest, sizes, table

PAGE = Path(__file__).parents[2] / "docs/operations/scale.md"


def test_the_page_has_the_table_of_the_simulation() -> None:
    assert "\n".join(table(Measured())) in PAGE.read_text()


def test_more_spaces_need_more_and_faster_machines_fewer() -> None:
    measured = Measured()
    every = [sizes(spaces, measured) for spaces in SPACES]
    for fewer, more in pairwise(every):
        assert (fewer.servers, fewer.databases) <= (more.servers, more.databases)
        factor = more.spaces / fewer.spaces
        assert more.appends == factor * fewer.appends
    fast = replace(measured, server=1000.0, database=8000.0, disk=4e13, open=5000.0)
    assert sizes(SPACES[-1], fast).servers < every[-1].servers
    assert sizes(SPACES[-1], fast).databases < every[-1].databases


def test_no_database_is_fuller_than_its_headroom_allows() -> None:
    measured = Measured()
    for spaces in SPACES:
        it = sizes(spaces, measured)
        assert it.appends / it.databases * it.fullest <= measured.database * measured.headroom
    assert fullest(1000, 8) > fullest(1_000_000, 8) > 1.0
