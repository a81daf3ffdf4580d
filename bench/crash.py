"""A server under load from 8 callers is killed at random moments, started again, and held against all that was acknowledged.

`python -m bench.crash [--rounds 100] [--seed 1]`
"""

import argparse
import tempfile
import time
from pathlib import Path

from tests.crash.rounds import run_rounds


def main() -> None:
    """Prints the figures; the exit status is 1 if anything was lost, stored twice or read in two ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        figures = run_rounds(Path(folder), chosen.rounds, chosen.seed)
    print(
        f"{figures.rounds} rounds in {time.monotonic() - began:.0f} s: {figures.acknowledged} messages acknowledged, "
        f"{figures.unanswered} calls left unanswered; lost {len(figures.lost)}, duplicated {len(figures.duplicated)}, "
        f"other faults {len(figures.wrong)}; longest restart {figures.longest_restart:.2f} s"
    )
    faults = figures.lost + figures.duplicated + figures.wrong
    print(*faults[:20], sep="\n", end="\n" if faults else "")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
