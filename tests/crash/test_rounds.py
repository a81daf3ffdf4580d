"""Kills at random moments under load. `python -m bench.crash --rounds 1000` does more of it."""

from pathlib import Path

import pytest

from tests.crash.rounds import run_rounds

ROUNDS = 30
pytestmark = pytest.mark.timeout(600)  # a start for each round


def test_a_server_that_is_killed_30_times_under_load_loses_nothing_and_doubles_nothing(real_disk_path: Path) -> None:
    figures = run_rounds(real_disk_path, ROUNDS, seed=1)
    assert (figures.lost, figures.duplicated, figures.wrong) == ([], [], [])
    assert figures.rounds == ROUNDS
    assert figures.acknowledged > ROUNDS
    assert figures.unanswered > 0
