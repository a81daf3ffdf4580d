"""Access: tokens and what they may do (`principal`), limits, and the audit of what was changed,
read and refused. Each has its file or its log beside it.
"""
