"""Building contexts: `own` selects from the present conversation, `past` from all the others, and
`building` puts them together.

`packing` decides which messages are packed and why, `domain.rendering` how they are written. The
newest turns come from `recent_turns`, a cache in memory. `app` makes the builder, and RecallService
calls it.
"""
