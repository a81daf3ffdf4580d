"""Generate the blocking client, `recollect._sync`, from the asyncio client, `recollect._async`.

    python unasync.py   # writes the modules of `_sync` that are not current

The two clients differ in `await`. Whatever else differs between threads and tasks is in
`recollect._backends`, under the same names in `tasks` and `threads`. A line that ends with
`# async only` is left out. The idea is that of encode/httpcore's script of the same name.

Every build of the package runs this, an editable installation too (`hatch_build`), and `make` where
a module of `_async` is newer. Nobody commits what it writes, and nothing formats it.
"""

import re
from pathlib import Path

PACKAGE = Path(__file__).parent / "src" / "recollect"
SOURCE, TARGET = PACKAGE / "_async", PACKAGE / "_sync"
ASYNC_ONLY = "  # async only\n"
HEADER = "# Generated from recollect/_async/{name} by client/unasync.py: edit that one.\n"

SUBSTITUTIONS = [
    (r"async (def|for|with)", r"\1"),
    (r"await ", ""),
    (r"Async(Client|Iterator)", r"\1"),
    (r"StopAsyncIteration", "StopIteration"),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"Awaitable\[(None|object)\]", r"\1"),
    (r"recollect\._async", "recollect._sync"),
    (r"recollect\._backends\.tasks", "recollect._backends.threads"),
    (r"The client for asyncio", "The client that blocks"),
    (r"Tasks of one event loop", "Threads"),
]
PATTERNS = [
    (re.compile(rf"(?<!\w){pattern}(?!\w)" if pattern[-1].isalnum() else rf"(?<!\w){pattern}"), by)
    for pattern, by in SUBSTITUTIONS
]


def generate(path: Path, unused: set[str]) -> str:
    """Return the blocking twin of an asyncio module. Take the patterns that match off `unused`."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(line for line in lines if not line.endswith(ASYNC_ONLY))
    for pattern, replacement in PATTERNS:
        text, count = pattern.subn(replacement, text)
        if count:
            unused.discard(pattern.pattern)
    return HEADER.format(name=path.name) + text


def write() -> None:
    """Write what is not current, and remove what has no twin. Raises ValueError for a substitution
    that no module needs.
    """
    unused = {pattern.pattern for pattern, _ in PATTERNS}
    generated = {path.name: generate(path, unused) for path in sorted(SOURCE.glob("*.py"))}
    if unused:
        raise ValueError(f"no module needs these substitutions: {', '.join(sorted(unused))}")
    TARGET.mkdir(exist_ok=True)
    present = {path.name: path.read_text(encoding="utf-8") for path in TARGET.glob("*.py")}
    for name in present.keys() - generated.keys():
        (TARGET / name).unlink()
    for name, text in generated.items():
        if present.get(name) != text:
            (TARGET / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
