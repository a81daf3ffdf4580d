"""Lives of a program in each of which another system call fails, and what they leave."""

import atexit
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

EARLY, LATE, SHORT = range(3)
"""Ways in which a call fails: without effect, with its whole effect, with a part of it."""

Case = tuple[str, int, int, bool, bool, int]
"""A failure: a part of the file's path, errno, how, for ever, writes only; and by how many calls
each life fails later.
"""

_FEWER, _FEWEST = (1, 1) if "HOSTILE_SCALE" in os.environ else (2, 4)
"""Thinning of lives with hundreds of calls, which differ in how they fail and not in where. `make
hostile` lives them all.
"""


def lives(
    library: Path, program: Path, root: Path, cases: Mapping[str, Case], name: str
) -> list[Path]:
    """Run the program's lives of a case until nothing fails in one; return their folders, below
    `root`.

    Cases begin at different calls, so that together they fail most of them; `make hostile` fails
    every call.
    """
    *failure, step = cases[name]
    step *= _FEWER if failure[0] == ".jsonl" else _FEWEST
    first = 1 + 5 * list(cases).index(name) % step
    runner = _runner(library, program)
    assert runner.stdin is not None
    assert runner.stdout is not None
    values = [
        int(value) if isinstance(value, bool) else value
        for value in (str(root), *failure, first, step)
    ]
    runner.stdin.write(orjson.dumps(values).decode() + "\n")
    runner.stdin.flush()
    count = runner.stdout.readline()
    assert count, "the program of the lives died: what it printed says why"
    folders = sorted(root.iterdir())
    assert len(folders) == int(count) > 1
    return folders


@cache
def _runner(library: Path, program: Path) -> "subprocess.Popen[str]":
    """Start the program once for all cases: its imports take as long as dozens of lives."""
    process = subprocess.Popen(
        [sys.executable, str(program), str(library)],
        env=os.environ | {"LD_PRELOAD": str(library)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)  # its input ends, and so does it
    return process


def answers_in(life: Path) -> list[dict[str, Any]]:
    """Return the answers that the caller of a life got, in order. The life must have ended normally
    or refused to start.
    """
    end = (life / "ended").read_text()
    assert end == "ended" or end.startswith("did not start: "), end
    return [orjson.loads(line) for line in (life / "journal").read_text().splitlines()]
