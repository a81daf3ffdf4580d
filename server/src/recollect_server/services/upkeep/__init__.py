"""Upkeep of transcripts and index: `recovery` at the start, `verification` and `backup` on request.
`app`, `jobs` and `cli` call it; no other service does.
"""
