"""Run the benchmark: `python -m bench.household`."""

from bench.household import main

main()
