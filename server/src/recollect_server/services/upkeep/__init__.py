"""Upkeep of transcripts and index: `recovery` at the start, `verification` and `backing_up` on
request. `app`, `jobs` and `cli` call it; no other service does.
"""
