"""Recollect: keeps every conversation an AI agent has, streams it live and finds it again.

The package has layers, each importing only from those below (`pyproject.toml` enforces it):
`cli` > `app` > `transport`, `jobs` > `services` > `storage`, `inference` > `domain`.
"""

from recollect._commit import suffix

__version__ = "0.1.0"
__version__ += suffix()
