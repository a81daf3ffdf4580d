"""Building contexts: `tails` keeps the newest turns of conversations in memory, `own` chooses from the conversation that goes on,
`others` from all the others, `building` puts them together. What is packed, and why, is decided by `domain.packing`.
"""
