"""Generate the blocking client, `recollect._sync`, from the asyncio client, `recollect._async`.

    python scripts/unasync.py           # writes the modules of `_sync`
    python scripts/unasync.py --check   # fails if one of them is not what this would write

The two clients differ in `await`. Whatever else differs between threads and tasks is in
`recollect._backends`, under the same names in `tasks` and `threads`. A line that ends with
`# async only` is left out. The idea is that of encode/httpcore's script of the same name.
"""

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "client" / "src" / "recollect"
SOURCE, TARGET = PACKAGE / "_async", PACKAGE / "_sync"
ASYNC_ONLY = "  # async only\n"
HEADER = "# Generated from recollect/_async/{name} by scripts/unasync.py: edit that one.\n"

SUBSTITUTIONS = [
    (r"async (def|for|with)", r"\1"),
    (r"await ", ""),
    (r"Async(Client|Iterator)", r"\1"),
    (r"StopAsyncIteration", "StopIteration"),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"Awaitable\[(None|object)\]", r"\1"),
    (r"import asyncio", "import time"),
    (r"asyncio\.sleep", "time.sleep"),
    (r"recollect\._async", "recollect._sync"),
    (r"recollect\._backends\.tasks", "recollect._backends.threads"),
    (r"The client for asyncio", "The client that blocks"),
    (r"Tasks of one event loop", "Threads"),
]
PATTERNS = [
    (re.compile(rf"(?<!\w){pattern}(?!\w)" if pattern[-1].isalnum() else rf"(?<!\w){pattern}"), by)
    for pattern, by in SUBSTITUTIONS
]
# The substitutions change the order of imports, leave some unused, and make some loops `yield
# from`.
FIXES = ("check", "--fix", "--unsafe-fixes", "--select", "I,F401,UP028", "--quiet")


def generate(path: Path, unused: set[str]) -> str:
    """Return the blocking twin of an asyncio module. Take the patterns that match off `unused`."""
    text = "".join(line for line in path.open() if not line.endswith(ASYNC_ONLY))
    for pattern, replacement in PATTERNS:
        text, count = pattern.subn(replacement, text)
        if count:
            unused.discard(pattern.pattern)
    text = HEADER.format(name=path.name) + text
    for command in (FIXES, ("format", "--quiet")):
        text = _ruff(text, path.name, *command)
    return text


def _ruff(text: str, name: str, *command: str) -> str:
    arguments = [
        sys.executable,
        "-m",
        "ruff",
        *command,
        "--stdin-filename",
        str(TARGET / name),
        "-",
    ]
    ended = subprocess.run(arguments, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return ended.stdout


def main(arguments: list[str]) -> int:
    """Write or check every module and return the exit code."""
    check = arguments == ["--check"]
    if arguments and not check:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    unused = {pattern.pattern for pattern, _ in PATTERNS}
    generated = {path.name: generate(path, unused) for path in sorted(SOURCE.glob("*.py"))}
    if unused:
        sys.stderr.write(f"No module needs these substitutions: {', '.join(sorted(unused))}\n")
        return 1
    present = {path.name: path.read_text() for path in TARGET.glob("*.py")}
    stale = sorted(it for it in {*generated, *present} if generated.get(it) != present.get(it))
    if check:
        for name in stale:
            sys.stderr.write(f"{TARGET / name} is not current: run `make format`.\n")
        return 1 if stale else 0
    for name in stale:
        if name in generated:
            (TARGET / name).write_text(generated[name])
        else:
            (TARGET / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
