"""One owner's data, open: its writes, and what is remembered of where conversations end.

`space` has the verbs of the other services and puts the parts together. `logs` appends to logs of
any kind and keeps the index up to them; `conversation_logs` says what is particular to
conversations, and `features` and `checks` what is registered with them. Of conversations, `writes`
appends, `states` loads and keeps their ends, `pending` holds what a transcript refused, `requests`
answers a repeated one, `deletion` removes. `projection` is the index with what it lacks
(`overlay`), `upkeep` repairs it. `locks` is the order of the writers, `events` what subscribers
receive. All of `services` may use this package; it imports nothing else of `services`.
"""
