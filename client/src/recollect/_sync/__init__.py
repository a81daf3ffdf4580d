"""The client that waits. Each module has a twin of the same name in `_async`, which differs in `await`.

`recollect` exports its client and nothing else of it; the rest of the package does not import it.
"""
