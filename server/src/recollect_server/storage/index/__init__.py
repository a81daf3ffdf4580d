"""The index: one SQLite database beside the transcripts. Everything in it can be learnt again from them.

`database` opens it (one writer, a reader a thread), `migrations` is its history, `index` is the door for the floors above, and
the other modules each know one group of tables. Errors of SQLite leave this package as `IndexUnavailable`.
"""
