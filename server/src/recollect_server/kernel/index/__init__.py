"""The index: one SQLite database beside the transcripts. Everything in it can be rebuilt from them.

Callers import `index` (one `Index` for each space) and the types of its queries and results;
`checking` reads all of it for `verify`. Inside:

- `columns` declares the columns of the tables, each once: rows, the trigger that takes in an append
  and the comparison with the transcripts derive from it; `migrations` is the history of the tables;
- `file` is the file and the connections to it; `writer` is the only one that changes it, behind a
  queue; `database` adds the readers and the file's condition, and is what the parts share;
- `derived` has what is asked of logs of any kind, the conditions of queries, and what features
  register: tables, those of other kinds of logs, and the analysis of texts, which `tokenizer` cuts
  into words;
- the parts of an `Index`, each beside its tables: `conversations`, `messages`, `requests`, `log`
  (of `updates`), `removal`;
- tables of features stand in their packages; who needs one makes it over an index, as `Search` of
  `recall.search`.

Errors of SQLite leave this package as `IndexUnavailable`: whatever asks an index raises it, and no
docstring here says so again.
"""
