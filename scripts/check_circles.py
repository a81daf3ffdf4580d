"""Fail where modules import each other in a circle: none can then be read, or tested, alone.

    python scripts/check_circles.py

It sees what runs only for the type checker, imports within functions and those by name
(`import_module`), in Python and in the page's TypeScript.
"""

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = (
    *(ROOT / "server/src", ROOT / "client/src", ROOT / "web/src"),
    *sorted(ROOT.glob("packages/*/src")),
)
_IMPORT = re.compile(r"""\b(?:from|import)\s*\(?\s*["'](\.[^"']+)["']""")


def imports_of(sources: Iterable[Path]) -> dict[str, set[str]]:
    """Return the modules below some folders, each with those there that it imports."""
    python: dict[str, Path] = {}
    page: dict[str, Path] = {}
    for source in sources:
        python |= {_name(path.relative_to(source)): path for path in source.rglob("*.py")}
        page |= {os.path.relpath(path, source): path for path in source.rglob("*.ts*")}
    imports = {
        name: set(_named(ast.parse(path.read_text("utf-8")), name, python))
        for name, path in python.items()
    }
    for name, path in page.items():
        bases = (
            os.path.normpath(Path(name).parent / it)
            for it in _IMPORT.findall(path.read_text("utf-8"))
        )
        ends = ("", ".ts", ".tsx", "/index.ts", "/index.tsx")
        imports[name] = {base + end for base in bases for end in ends} & page.keys()
    return imports


def circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the modules that import each other, by way of others too: each circle once."""
    reach = {name: _reached(imports, name) for name in imports}
    all_circles = {
        tuple(sorted(it for it in reach[name] if name in reach[it]))
        for name in imports
        if name in reach[name]
    }
    return [list(it) for it in sorted(all_circles)]


def _reached(imports: Mapping[str, set[str]], name: str) -> set[str]:
    reach: set[str] = set()
    left = [*imports[name]]
    while left:
        if (it := left.pop()) not in reach:
            reach.add(it)
            left += imports[it]
    return reach


def _name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _named(tree: ast.Module, own: str, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules that a module imports. A package that only leads to them is none."""
    for node in ast.walk(tree):
        names: list[str] = []
        match node:
            case ast.Import():
                names = [it.name for it in node.names]
            case ast.ImportFrom(module=str(module)):
                names = [
                    inner if (inner := f"{module}.{it.name}") in modules else module
                    for it in node.names
                ]
            case ast.Call(func=function, args=[ast.Constant(value=str(name))]) if ast.unparse(
                function
            ).endswith("import_module"):
                names = [name]
        yield from (it for it in names if it in modules and it != own)


def main() -> int:
    """Print each circle, and return 1 if there is one."""
    all_circles = circles(imports_of(SOURCES))
    for circle in all_circles:
        print("these import each other:", ", ".join(circle), file=sys.stderr)
    return bool(all_circles)


if __name__ == "__main__":
    sys.exit(main())
