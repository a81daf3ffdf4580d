"""Checkpoints of agents' threads: a kind of log of its own."""
