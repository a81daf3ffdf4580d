"""The client for asyncio. `client/unasync.py` generates `_sync` from `_async`.

`recollect` exports its client alone; no other package imports it.
"""
