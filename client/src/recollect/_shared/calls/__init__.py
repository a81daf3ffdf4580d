"""Arguments into calls: one module for each service, one function for each RPC. Both clients are
made of it.

`parts` has what several requests are made of. Only `_sync` and `_async` import it.
"""
