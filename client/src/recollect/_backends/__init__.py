"""The differences between tasks and threads, under the same names in `tasks` and `threads`.

`_async` imports `tasks`; `_sync`, which is generated from it, imports `threads`.
"""
