"""The commit of the sources that run, which tells states of one version from each other.

A checkout says it in git's own files, which are read without the program. An image has it in the
file `COMMIT` beside the package (Dockerfile). A package that was installed from a release has
neither.
"""

import re
from contextlib import suppress
from pathlib import Path

_PACKAGE = Path(__file__).parent
_DIGITS = 7


def suffix(package: Path = _PACKAGE) -> str:
    """Return what a version ends with, as PEP 440 writes it: `+g1a2b3c4`; empty for a release.
    `package` is the folder of the client's package.
    """
    commit = ""
    with suppress(OSError, ValueError, IndexError):
        commit = _read(package / "COMMIT") or _head(package.parents[2])
    return f"+g{commit[:_DIGITS]}" if re.fullmatch("[0-9a-f]{40,64}", commit) else ""


def _head(root: Path) -> str:
    """Return the commit of a checkout of these sources; empty for another folder."""
    git = root / ".git"
    if not (root / "proto/recollect/v1").is_dir():
        return ""
    if not git.is_dir():  # another worktree of a repository
        git = root / _read(git).removeprefix("gitdir: ")
    name = _read(git / "HEAD").removeprefix("ref: ")
    common = git / _read(git / "commondir")
    packed = re.search(rf"^(\w+) {re.escape(name)}$", _read(common / "packed-refs"), re.MULTILINE)
    return _read(common / name) or (packed[1] if packed else name)


def _read(file: Path) -> str:
    """Return the text of a file without white space around it; empty if there is none."""
    return file.read_text("utf-8").strip() if file.is_file() else ""
