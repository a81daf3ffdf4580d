"""Erasing text, from logs, index and what features keep, to the last byte: `deletion`,
`redaction` and `unindexing` of one log, `bulk_removal` of many, `removals` as calls ask for them.
`erasing` is what they share: the order of steps that a kill may interrupt anywhere, and the
participants that features register.
"""
