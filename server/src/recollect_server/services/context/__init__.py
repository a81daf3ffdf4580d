"""Building contexts: `own_tiers` selects from the present conversation (`own`), `past` from all the
others (`recalled_turns`), and `building` puts them together, within its limits (`fitting`).

`packing` decides which messages are packed and why, `domain.rendering` how they are written. The
newest turns come from `recent_turns`, a cache in memory. `app` makes the builder, and RecallService
calls it.
"""
