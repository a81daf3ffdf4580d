"""The writer of notes without a model: `extractive` (also titles), of `sentences`, `phrases`,
`nouns` (topics), `condensing` (summaries) and `tools` (their names in a summary).
"""
