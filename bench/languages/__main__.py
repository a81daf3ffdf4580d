"""Run the benchmark: `python -m bench.languages`."""

from bench.languages import main

main()
