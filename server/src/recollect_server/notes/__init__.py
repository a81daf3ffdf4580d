"""Notes of conversations: titles, topics, abbreviations and summaries.

`naming` writes those of idle conversations, `compaction` condenses long ones; `conversation_notes`
is what callers set and read. A writer is `offline`, or asks a model (`hosted`).
"""
