"""External communications: the messages of third parties and the answers to them, with transcripts,
tables and a stream of their own.

`external` is the service. `store` writes the transcripts and keeps the index up to date, and `live`
sends a panel its updates.

`transport` calls it and `app` builds it. `services.channels` passes strangers' messages to it, and
`recovery` and `verification` cover its logs with those of the conversations. Positions
in the update log are those of `services.streaming`.
"""
