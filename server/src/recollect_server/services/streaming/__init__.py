"""Live updates: every change of a space, told in its order to whoever watches.

`log` is what the watchers read by position: the newest updates in memory, encoded once for all, and
behind those the index's log. `reading` makes updates of what the log and the transcripts have.
`subscription` is one watcher's position and what comes next for it. `snapshot` is what one begins
with. `drafts` are the answers that are still being written. `watching` is what whoever sends need
know of all this, and of others that are watched. Nothing here sends anything.
"""
