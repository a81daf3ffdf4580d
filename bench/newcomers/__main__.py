"""Run the benchmark: `python -m bench.newcomers`."""

from bench.newcomers import main

main()
