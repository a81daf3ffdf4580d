"""The PostgreSQL store: the same lines as rows, in a database that any number of servers use.

`database` holds a pool of `connections`; `store` is the log store of a space on them, and `sharing`
what the servers ("replicas") share of it. `schema` applies the steps in `migrations`, which are
SQL, in the order of their numbers: each once, whole or not at all. None is ever changed after a
release.

All replicas are equal. An append names the end of the log that it knows, so of two that
append at the same time one gets a conflict and tries again behind the other. Each has a
number, which its changes name.

Needs the extra `recollect-server[postgres]` (psycopg and psycopg-pool), which no other package
knows.
"""
