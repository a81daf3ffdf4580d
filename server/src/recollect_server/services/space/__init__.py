"""One owner's data, open: its writes, and what is remembered of where conversations end.

`space` writes every line of a conversation. `logs` appends to logs of any kind and keeps the index
up to them, `conversation_logs` says what is a conversation's in it. `state` is the end of a
conversation, `pending` what a transcript refused, `overlay` what the index may not have yet,
`requests` how a repeated one is answered, `routes` where messages of channels go, `locks` the order
of the writers, `events` what subscribers are told, `deletion` the steps of a delete. All of
`services` may use this package; it imports nothing else of `services`.
"""
