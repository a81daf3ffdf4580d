"""External communications: what third parties write and are told. They have transcripts, tables and
a stream of their own.

`external` is the service. `store` writes their transcripts and keeps the index up to them, over
`communication_logs`, which says what is theirs in a log. `live` tells a panel what happens.

`transport` calls it and `app` builds it; `services.channels` hands it what strangers write, and
`recovery`, `repairing` and `verification` look after its logs with those of the conversations.
Positions in the update log are those of `services.streaming`.
"""
