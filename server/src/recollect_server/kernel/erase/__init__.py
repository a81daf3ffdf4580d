"""Erasing text, from logs, index and what features keep, to the last byte: `deletion` of a log,
`redaction` of messages and their removal from the index alone, `bulk_removal` of many logs.
`erasing` is what they share: the order of steps that a kill may interrupt anywhere, and the
participants that features register.
"""
