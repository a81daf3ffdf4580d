"""The data classes that users hold: frozen, in plain Python types. No protobuf here, and nothing of
the rest of the package.

`recollect` exports all of it: users and the extras import it from there, the clients and `_shared`
from here.

In all of them an unset text is empty, and a time has its zone: UTC.
"""
