"""The client that waits. Each module has a twin of the same name in `_async`, which differs in `await`."""
