"""The data classes that users hold: frozen, in plain Python types. No protobuf here, and nothing of
the rest of the package.

`scripts/client_types.py` generates them from the contract and its comments; those with methods of
their own, `message` and `recent`, are written by hand. `recollect` exports all of it: users and the
packages over it import it from there, the clients and `_shared` from here.

In all of them an unset text is empty, another unset value `None`, and a time has its zone: UTC.
"""
