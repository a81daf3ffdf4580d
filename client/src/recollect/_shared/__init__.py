"""What the sync and the async client have in common: everything but `await`.

Two doors lead here. `calls` turns arguments into a `Call` (a method of the contract, its request, and how its answer is
read); the invoker of either client runs it, with the options of `channel`, the retries of `retry` and the exceptions of
`failures`.
"""
