"""Keeps transcripts and index sound: `recovery` at the start, `repairing` while the server runs,
`verification` and `backing_up` when somebody asks. `app`, `jobs` and `cli` call it; nothing else of
`services` does.
"""
