"""One owner's data, open: its writes, and what is remembered of where conversations end.

`space` writes every line of a conversation. `state` is the end of a conversation, `lines` what is
about to be written, `pending` what a transcript refused, `index_lag` what the index refused and
`catching_up` how the index gets it, `recent_turns` the newest turns in memory, `routes` where
messages of channels go, `locks` the order of the writers. All of `services` may use this package;
it imports nothing else of `services`.
"""
