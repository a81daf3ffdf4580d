"""Lives of a program in each of which another system call fails, and what they leave."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson

EARLY, LATE, SHORT = range(3)
"""How a call fails: it does nothing; it is done, and says that it failed; it does a part."""

Case = tuple[str, int, int, bool, bool, int]
"""What fails: a part of the file's path, errno, how, for ever, writes only; and by how many calls each life fails later."""


def lives(library: Path, program: Path, root: Path, case: Case) -> list[Path]:
    """Runs the program's lives until nothing fails in one; their folders, below `root`."""
    values = [str(int(value)) if isinstance(value, bool) else str(value) for value in case]
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
