"""What a user holds: frozen dataclasses, in plain Python types. No protobuf here; `recollect` re-exports all of it.

In all of them a text that is unset is empty, and a time knows its zone: UTC.
"""
