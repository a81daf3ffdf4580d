"""The client for asyncio. Each module has a twin of the same name in `_sync`, which differs in `await`."""
