"""Recall: find conversations and messages again. Called by `contract`, the jobs and
`context`.

A search goes through these modules: `recall` takes the request, and `retrieval` answers it in
three steps. In `proposals` the retrievers run, by words in the index and by `meaning` in the
vectors' copy in memory; in `retrievers` each candidate gets the score of every one; `fusion` turns
these into one ranking and `calibration` into probabilities. The answer is `candidates`, the best
of which `recall` reads and shows, with snippets. `dates` reads the dates that a question names.

`embedding.service` is the write side: it computes the vectors of new messages behind the appends,
paced by `run.jobs.of_space`.
"""
