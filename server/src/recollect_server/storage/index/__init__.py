"""The index: one SQLite database beside the transcripts. Everything in it can be learnt again from them.

Who works with it imports `index` (the door, one for each space) and the types of what it is asked and answers; `checking` and
`external_checking` read all of it for `verify`. Inside:

- `connections` opens the file, `database` is its one writer with the queue before it, `file` its condition;
- `migrations` is the history of its tables (`external_tables` and `channel_tables` are steps), `incoming` what an append adds;
- the door's parts, each beside its tables: `search` (with `words`), `log` (of `updates`), `removal`, `routing`, `note_queue`,
  `external_index` (with `external`), `tier_log`;
- `conversations`, `turns` and `requests` are tables that several parts ask; `lengths` and `seen` what is kept of them in memory.

Errors of SQLite leave this package as `IndexUnavailable`.
"""
