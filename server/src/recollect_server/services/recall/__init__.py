"""Recall: conversations and messages found again. `transport`, `jobs` and the room of contexts call it.

The way of a search: `recall` is asked. `candidates` runs the legs: by words in the index, and by `meaning` in the copy of the
vectors in memory. What each leg says of everything that any of them found are the arrays of `domain.legs`, of which
`domain.fusion` makes one order. Of the best `recall` reads the lines in the transcripts, and `showing` chooses what is shown.

`embedding` is the other side: it works out the vectors of what was said, behind the appends, when `jobs.embedder` lets it.
"""
