"""Recall: find conversations and messages again. Called by `transport`, `jobs` and
`services.context`.

A search goes through these modules: `recall` takes the request; `candidates` runs the retrievers,
by words in the index and by `meaning` in the vectors' copy in memory; the scores that each
retriever gives to every candidate are the arrays of `retrievers`; `fusion` turns them into one
ranking and `calibration` into probabilities; `recall` reads the best messages from their logs, and
`showing` chooses their snippets. `dates` reads the dates that a question names.

`embedding` is the write side: it computes the vectors of new messages behind the appends, paced by
`jobs.embedder`.
"""
