"""Calls of the contract: one module for each service, one function for each RPC, which turns
arguments into a `Call`.

`parts` has the parts that several requests share. Only `_sync` and `_async` import it.
"""
