"""Fail where a test asserts nothing itself: it could fail by a time-out alone, which names nothing.

    python scripts/check_tests.py

A test asserts with `assert`, `pytest.raises`, or a call of a helper that is named for it.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKERS = frozenset({"check", "checked", "compare", "raises", "run_state_machine_as_test"})
"""Last names of helpers that assert, beside those that begin with `assert`."""


def is_assertion(node: ast.AST) -> bool:
    """Return whether a node of a test's tree asserts something."""
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).rpartition(".")[2]
        return name in CHECKERS or name.startswith("assert")
    return isinstance(node, ast.Assert)


def tests_without(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the tests of a module that assert nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test_"
        ):
            # The decorators only choose what the test runs with.
            parts = (part for line in node.body for part in ast.walk(line))
            if not any(map(is_assertion, parts)):
                yield node


def main() -> int:
    """Print each test that asserts nothing, and return 1 if there is one."""
    places = [
        f"{path.relative_to(ROOT)}:{test.lineno}: {test.name} asserts nothing"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for test in tests_without(ast.parse(path.read_text("utf-8")))
    ]
    if places:
        print("\n".join(places), file=sys.stderr)
    return bool(places)


if __name__ == "__main__":
    sys.exit(main())
