"""External communications: what third parties write and are told. They have transcripts, tables and a stream of their own.

`external` is the service. `store` writes their transcripts and keeps the index up to them, `catching_up` does that after a crash
or for a rebuild. `live` tells a panel what happens, `checking` compares transcripts and index.

`transport` calls it and `app` builds it; `services.channels` hands it what strangers write, and `recovery`, `repairing` and
`verification` look after its files with those of the conversations. Positions in a log are those of `services.streaming`.
"""
