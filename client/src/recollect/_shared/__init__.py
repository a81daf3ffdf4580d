"""What the sync and the async client have in common: everything but `await`.

Two doors lead here for the clients. `calls` turns arguments into a `Call` (a method of the
contract, its request, and how its answer is read: `fill`, `read` and its like); the invoker of
either client runs it, with the options of `channel`, the retries of `retry` and the exceptions of
`failures`. `watching` is where a watch stands.

The extras (`adapters`, `bridge`, `cli`) may import what several of them need: `channel` and `retry`
for what a command is given, `history` for all of a conversation, `moments` for times as people
write them, `plain` for JSON. This imports neither client.
"""
