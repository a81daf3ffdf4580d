"""The PostgreSQL store: the same lines as rows, in a database that one server process uses.

`database` holds the connections, the schema and the right to write; `store` is the log store of a
space on them. `migrations` has the steps of the schema as SQL, in the order of their numbers: each
is applied once, whole or not at all, and never changed after a release.

A server takes the database over when it starts (`Database.open`): it holds an advisory lock, so
that a second one is refused, and a number that every change is checked against, so that a server
that lost its connection and was replaced can change nothing any more.

Needs the extra `recollect-server[postgres]` (psycopg and psycopg-pool), which no
other package knows.
"""
