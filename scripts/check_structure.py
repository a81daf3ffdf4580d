"""Check the size of the tree, and what its modules import, against a baseline.

    python scripts/check_structure.py           # fail if a number rose
    python scripts/check_structure.py --write   # write the present numbers: a rise is seen

- `statements`: by package, written by hand: without docstrings, without generated modules;
- `imports`: modules of its own package that a module of the server imports, in hundredths.

What a walk costs in calls is measured by `tests/server/test_walk.py`.
"""

import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.check_circles import ROOT, imports_of

BASELINE = Path(__file__).with_suffix(".json")
PACKAGES = {
    "server": "server/src",
    "client": "client/src",
    **{it: f"packages/{it}/src" for it in ("adapters", "cli", "imports", "mcp", "page")},
}
GENERATED = ("client/src/recollect/v1/", "client/src/recollect/_sync/")


def statements(text: str) -> int:
    """Return the number of statements of a module, docstrings left out; 0 of a generated one."""
    if "generated" in text[:600].lower():
        return 0
    nodes = ast.walk(ast.parse(text))
    return sum(isinstance(it, ast.stmt) and not _is_docstring(it) for it in nodes)


def measured() -> dict[str, Any]:
    """Return the numbers of the tree."""
    sizes: Counter[str] = Counter()
    for package, folder in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not str(path.relative_to(ROOT)).startswith(GENERATED):
                sizes[package] += statements(path.read_text("utf-8"))
    imports = imports_of([ROOT / PACKAGES["server"]])
    total = sum(map(len, imports.values()))
    return {
        "statements": dict(sizes) | {"all": sizes.total()},
        "imports": round(100 * total / len(imports)),
    }


def risen(now: Mapping[str, Any], baseline: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each number that rose."""
    for name, count in now["statements"].items():
        if count > (before := baseline["statements"].get(name, 0)):
            yield f"{name}: statements rose from {before} to {count}"
    if now["imports"] > baseline["imports"]:
        yield (
            "own imports of a module of the server rose from"
            f" {baseline['imports'] / 100} to {now['imports'] / 100}"
        )


def main(arguments: Sequence[str]) -> int:
    """Print what rose, and return 1 if anything did."""
    now = measured()
    if "--write" in arguments:
        BASELINE.write_text(json.dumps(now, indent=1) + "\n", "utf-8")
        return 0
    rises = list(risen(now, json.loads(BASELINE.read_text("utf-8"))))
    for it in rises:
        print(it, file=sys.stderr)
    return bool(rises)


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
