"""One owner's data, open: its writes, and what is remembered of where conversations end.

`space` has the verbs and puts the parts together. `logs` appends to logs of any kind and keeps the
index up to them; `conversation_logs` says what is particular to conversations, and `features` what
is registered. Of conversations, `writes` appends, `states` loads and keeps their ends and what a
transcript refused, `requests` answers a repeated one. `projection` is the index with what it lacks,
`index_upkeep` repairs it, `following` takes in what other processes wrote. `locks` is the order of
the writers, `events` what subscribers receive.

`turns` reads the turns of a conversation, and what one is loaded with. `spaces` opens and closes
the spaces of their owners, and `opened` is what one is to it.
"""
