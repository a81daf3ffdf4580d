"""Conversations that are trees: each edited question, and each answer asked for again, begins a
branch.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from recollect.imports.transcript import Damaged
from recollect.imports.values import pass_over

NOT_STATED = ""
"""The parent of a message of which the export does not say which it is."""
_NIL = re.compile("0{8}-[0-]{4}")


def parent_of(fields: dict[str, Any], name: str, default: str = NOT_STATED) -> str | None:
    """Return a parent as exports name it: None for none, which some write as an id of zeros."""
    value = fields.get(name, default)
    if value is None or (isinstance(value, str) and _NIL.match(value)):
        return None
    if not isinstance(value, str):
        pass_over(fields, name, f"{name}: it is no text", value)
        return default
    return value


def branch_of(
    parents: Mapping[str, str | None], end: str, times: Mapping[str, datetime | None]
) -> tuple[list[str], dict[str, str]]:
    """Return the names from the root to `end`, and the parents among them that are missing.

    Where `end` is none of the names, the newest one without children is. Before one whose parent is
    missing or not stated comes the newest of the others that is older. Raises Damaged.
    """
    ranks: dict[str, tuple[datetime, int]] = {}
    time = datetime.min.replace(tzinfo=UTC)
    for index, name in enumerate(parents):
        time = times.get(name) or time
        ranks[name] = time, index
    with_children = set(parents.values())
    leaves = sorted((it for it in parents if it not in with_children), key=ranks.__getitem__)
    if end not in parents:
        if not leaves:
            reason = "its messages form a circle: none is the last"
            raise Damaged(reason if parents else "it has no messages")
        end = leaves[-1]
    names: list[str] = []
    passed: set[str] = set()
    missing: dict[str, str] = {}

    def climb(name: str | None) -> list[str]:
        """Return the names from one up to its root; nothing where it leads to what was passed."""
        path: list[str] = []
        while name is not None and name in parents:
            if name in passed:
                return []
            passed.add(name)
            path.append(name)
            name = parents[name]
        return path

    if not (path := climb(end)):
        raise Damaged(f"message {end} is its own ancestor, or one of its ancestors is")
    names += path
    while (parent := parents[names[-1]]) is not None and leaves:
        leaf = leaves.pop()
        if leaf not in passed and ranks[leaf] < ranks[names[-1]] and (path := climb(leaf)):
            if parent != NOT_STATED:
                missing[names[-1]] = parent
            names += path
    return names[::-1], missing
