"""Live updates: every change of a space, delivered to its subscribers in order.

`log` is the engine of every stream: a log that is read by position, the newest updates from memory
(`ring`), those before from the order of changes (`replaying`), and its watchers. `live` is the log
of conversations, with their snapshots and unfinished answers (`drafts`); that of communications is
`people.communication_stream`. Nothing here sends anything.
"""
