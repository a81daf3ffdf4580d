"""People: owners and their addresses (`identities`), the routing from a place to a conversation,
and the messages of third parties with the answers to them.

`communication_service` is that of third parties; `communication_logs` writes their transcripts
and keeps the index up to date, and `communication_stream` sends a panel its updates. `received`
remembers what was delivered into what is deleted.
"""
