"""Crashes in number: processes killed under load, and power failures over a recorded disk.

`python -m bench.crash [--rounds 100] [--power-loss 0] [--seed 1]`
"""

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import structlog

from bench.figures import Figure, Goal
from tests.crash.power import memory_folder, power_losses
from tests.crash.rounds import run_rounds

_NONE = Goal(0)


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Print the figures, and as many faults as a page holds: anything lost, stored twice or read in
    two ways.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=100, help="kills of a server that 8 callers keep busy"
    )
    parser.add_argument(
        "--power-loss",
        type=int,
        default=0,
        help="power failures of a disk that forgets what was not synced",
    )
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    figures = _kill(chosen.rounds, chosen.seed) if chosen.rounds else []
    return figures + (_cut_the_power(chosen.power_loss, chosen.seed) if chosen.power_loss else [])


def _kill(rounds: int, seed: int) -> list[Figure]:
    began = time.monotonic()
    titles_are_the_callers = patch.dict(os.environ, {"RECOLLECT_ABBREVIATOR": "off"})
    with tempfile.TemporaryDirectory() as folder, titles_are_the_callers:
        figures = run_rounds(Path(folder), rounds, seed, cold=True)
    print(
        f"{figures.rounds} rounds in {time.monotonic() - began:.0f} s: {figures.acknowledged} messages acknowledged, "
        f"{figures.unanswered} calls left unanswered; lost {len(figures.lost)}, duplicated {len(figures.duplicated)}, "
        f"other faults {len(figures.wrong)}; longest restart {figures.longest_restart:.2f} s"
    )
    _print([*figures.lost, *figures.duplicated, *figures.wrong])
    return [
        Figure("messages acknowledged", figures.acknowledged, "", at=rounds, of="kills"),
        Figure("lost", len(figures.lost), "", goal=_NONE, at=rounds, of="kills"),
        Figure("stored twice", len(figures.duplicated), "", goal=_NONE, at=rounds, of="kills"),
        Figure("other faults", len(figures.wrong), "", goal=_NONE, at=rounds, of="kills"),
        Figure("longest restart", figures.longest_restart, "s", at=rounds, of="kills"),
    ]


def _cut_the_power(losses: int, seed: int) -> list[Figure]:
    began = time.monotonic()
    with memory_folder() as folder:
        faults = list(power_losses(folder, losses, seed))
    print(f"{losses} power failures in {time.monotonic() - began:.0f} s: {len(faults)} faults")
    _print(faults)
    return [Figure("faults", len(faults), "", goal=_NONE, at=losses, of="power failures")]


def _print(faults: list[str]) -> None:
    for fault in faults[:20]:
        print(fault)


if __name__ == "__main__":
    raise SystemExit(not all(figure.goal.met(figure) for figure in main() if figure.goal))
