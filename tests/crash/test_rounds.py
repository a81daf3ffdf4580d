"""Kills at random moments under load. `python -m bench.crash --rounds 1000` does more of it."""

from pathlib import Path

import pytest

from tests.crash.rounds import run_rounds

ROUNDS = 10
pytestmark = pytest.mark.timeout(600)  # a start for each round


@pytest.mark.parametrize(
    ("store", "seed"),  # apart, so that no worker is left with all of them
    [("folder", 1), ("postgres", 4)],
)
def test_a_server_that_is_killed_10_times_under_load_loses_nothing_and_doubles_nothing(
    real_disk_path: Path, store: str, seed: int, request: pytest.FixtureRequest
) -> None:
    url = "" if store == "folder" else request.getfixturevalue("postgres").new_database()
    figures = run_rounds(real_disk_path, ROUNDS, seed, url=url)
    assert (figures.lost, figures.duplicated, figures.wrong) == ([], [], [])
    assert figures.rounds == ROUNDS
    assert figures.acknowledged > ROUNDS
    assert figures.unanswered > 0
