"""Kills at random moments under load. `python -m bench.crash --rounds 1000` does more of it."""

from pathlib import Path

import pytest

from tests.crash.rounds import run_rounds

ROUNDS = 10
pytestmark = pytest.mark.timeout(600)  # a start for each round


@pytest.mark.parametrize("seed", [1, 2, 3])  # apart, so that no worker is left with all of them
def test_a_server_that_is_killed_10_times_under_load_loses_nothing_and_doubles_nothing(
    real_disk_path: Path, seed: int
) -> None:
    figures = run_rounds(real_disk_path, ROUNDS, seed)
    assert (figures.lost, figures.duplicated, figures.wrong) == ([], [], [])
    assert figures.rounds == ROUNDS
    assert figures.acknowledged > ROUNDS
    assert figures.unanswered > 0
