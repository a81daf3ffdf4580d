"""Live updates: every change of a space, delivered to its subscribers in order.

`log` is read by position: the newest updates in memory (`ring`), and behind those the index's log.
`reading` makes updates from the index's log and the transcripts. `subscription` is the position of
one subscriber and its next updates, `snapshot` its first ones. `drafts` are unfinished answers.
`watching` is the interface that senders use, for these subscriptions and for others. Nothing here
sends anything.
"""
