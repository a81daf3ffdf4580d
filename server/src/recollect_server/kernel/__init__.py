"""The kernel of a space: logs, their order, the index, erasing and streams. It imports no feature:
a feature registers what it has (`space.features`, and the table in `docs/architecture.md`).

- `domain` is its vocabulary, which features use too;
- `log` is the truth, lines of JSON, in files or where another store keeps them;
- `index` is derived from it: one SQLite database a space;
- `space` holds one owner's data open, and every write goes through it; `space.spaces` opens them;
- `compare` finds whether what is derived says what the logs say, and makes it anew;
- `erase` deletes, redacts and takes out of the index;
- `stream` delivers every change in order.

What asks the index raises IndexUnavailable, and what reads a log StorageUnavailable, both of them
DataUnavailable: docstrings say so where somebody may expect otherwise, or must do something about
it. `contract` answers both with UNAVAILABLE. `failpoints` names the places at which a test may kill
the process.
"""
