"""Anchors: statements of a person with a key, by callers or from what was said. Their ledger
(`log`) is the truth, their table is derived.
"""
