"""The writer of notes without a model: `extractive`, of `sentences`, `phrases`, `titles`, `nouns`
(topics), `condensing` (summaries) and `tools` (their names in a summary).
"""
