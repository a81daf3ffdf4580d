"""Upkeep of transcripts and index: `recovery` at the start, `repairing` while the server runs,
`verification` and `backing_up` on request. `app`, `jobs` and `cli` call it; no other service does.
"""
