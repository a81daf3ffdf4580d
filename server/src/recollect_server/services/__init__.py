"""Floor 4: what the product does, in plain Python types. `transport` and `jobs` call it; it knows nothing of them.

`space` holds one owner's data open; `conversations`, `deletion`, `working_context` and `recall` do the work of the RPCs of those
names; `recovery` brings the index up to the transcripts at the start.
"""
