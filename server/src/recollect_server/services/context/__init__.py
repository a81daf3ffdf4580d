"""Building contexts: `own` chooses from the conversation that goes on, `others` from all the
others, `building` puts them together.

What is packed, and why, is decided by `packing`, how it is written by `domain.rendering`.
The newest turns come from `recent_turns`, which keeps them in memory. `app` makes the builder, and
RecallService calls it.
"""
