# Generated from recollect/_async/__init__.py by scripts/unasync.py: edit that one.
"""The client that blocks. `scripts/unasync.py` generates `_sync` from `_async`.

`recollect` exports its client alone; no other package imports it.
"""
