"""Floor 4: what the product does, in plain Python types. `transport` and `jobs` call it; it knows nothing of them.

`space` holds one owner's data open; `conversations`, `deletion` and `working_context` do the work of the RPCs of those
names; what has several parts is a room of its own: `recall`, `context`, `channels`, `external`, `streaming`. `recovery` brings the
index up to the transcripts at the start.
"""
