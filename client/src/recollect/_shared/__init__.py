"""The parts that the blocking and the asyncio client share: everything but `await`.

`calls` turns arguments into a `Call`: a method of the contract, its request, and the reader of its
answer (`fill`, `read` and its like). The invoker of either client runs it, with the options of
`channel`, the retries of `retry` and the exceptions of `failures`. `watching` is a watch's state.

The packages over it (`adapters`, `cli`, `mcp`, `web`) may import what several of them need:
`channel` and `retry` for a command's options, `history` for whole conversations, `moments` for
times as people write them, `plain` for JSON, `startup` for the first steps of a program. It imports
neither client.
"""
