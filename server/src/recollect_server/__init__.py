"""Recollect: keeps every conversation an AI agent has, streams it live and finds it again.

`run` is the process, `contract` what callers see; `kernel` keeps, orders, indexes, erases and
streams conversations, and every other package is a feature over it. Each imports only from those
below it, by `pyproject.toml`.
"""

from recollect._commit import suffix

__version__ = "0.1.0"
__version__ += suffix()
