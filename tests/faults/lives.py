"""Lives of a program in each of which another system call fails, and what they leave."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

EARLY, LATE, SHORT = range(3)
"""How a call fails: it does nothing; it is done, and says that it failed; it does a part."""

Case = tuple[str, int, int, bool, bool, int]
"""A failure: a part of the file's path, errno, how, for ever, writes only; and by how many calls each life fails later."""

_THINNED = 1 if "HOSTILE_SCALE" in os.environ else 2
"""Thinning of lives with hundreds of calls, which differ in how they fail and not in where. `make hostile` lives them all."""


def lives(library: Path, program: Path, root: Path, cases: Mapping[str, Case], name: str) -> list[Path]:
    """Run the program's lives of a case until nothing fails in one; return their folders, below `root`.

    Cases begin at different calls, so that together they still fail every call.
    """
    *failure, step = cases[name]
    if failure[0] != ".jsonl":
        step *= _THINNED
    first = 1 + list(cases).index(name) % step
    values = [str(int(value)) if isinstance(value, bool) else str(value) for value in (*failure, first, step)]
    done = subprocess.run(
        [sys.executable, str(program), str(library), str(root), *values],
        env=os.environ | {"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = sorted(root.iterdir())
    assert len(found) == int(done.stdout) > 1
    return found


def told_in(life: Path) -> list[dict[str, Any]]:
    """What the caller of a life was told, in order. The life must have ended as it should, or have refused to start."""
    said = (life / "ended").read_text()
    assert said == "ended" or said.startswith("did not start: "), said
    return [orjson.loads(line) for line in (life / "journal").read_text().splitlines()]
