"""Building contexts: `own_tiers` selects from the present conversation, `recalled` from all the
others, and `building` puts them together, within its limits (`fitting`).

`packing` decides which messages are packed and why, `context.rendering` how they are written. The
newest turns come from `recent_turns`, a cache in memory; `profile` is
what is known of the person. RecallService calls the builder.
"""
