"""The index: one SQLite database beside the transcripts. Everything in it can be rebuilt from them.

Callers import `index` (one `Index` for each space) and the types of its queries and results;
`checking` and `external_checking` read all of it for `verify`. Inside:

- `writer` is the only connection that changes the file, behind a queue; `database` adds the readers
  (`connections`) and the file's condition, and is what the parts share; `file` is the file as seen
  from outside;
- `migrations` is the history of its tables (`external_tables` and `channel_tables` are steps),
  `incoming` what an append adds, `columns` the columns of a conversation, from which its document,
  trigger and rows derive;
- the parts of an `Index`, each beside its tables: `conversations`, `messages`, `requests`, `search`
  (with `words`), `log` (of `updates`), `removal`, `notes`, `anchors`, `routing`, `external_index`
  (with `external`), `tiers`;
- `lengths` is what is kept of conversations in memory.

Errors of SQLite leave this package as `IndexUnavailable`.
"""
