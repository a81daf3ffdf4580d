"""Benchmarks: every figure is a ratio against a baseline that is measured in the same run, on the
same machine.

Run one with `.venv/bin/python -m bench.append`; `bench/README.md` has the figures that were seen,
with their dates.
"""
