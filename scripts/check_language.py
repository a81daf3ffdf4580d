"""Check the language of docstrings and names against a baseline that may only fall.

    python scripts/check_language.py           # fail if a count rose
    python scripts/check_language.py --write   # lower the baseline to the present counts
    python scripts/check_language.py --list    # print each place

Five counts for each part of the tree:

- `openings`: docstrings that begin with a question word (What, Whether, Where, Who, How, When)
  instead of a verb or a noun;
- `moods`: docstrings of functions that ruff's D401 finds not imperative;
- `names`: variables, arguments and attributes that are participles without a noun, such as `found`;
- `metaphors`: docstrings, comments and names with a word of `METAPHORS`; the field has its own:
  changes or updates, delivered, repair, caller;
- `classes`: class names that mean several things: more than one class of the part has them.
"""

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASELINE = Path(__file__).with_suffix(".json")
PARTS = {
    "server": "server/src",
    "client": "client/src",
    "packages": "packages",
    "tests": "tests",
    "bench": "bench",
    "examples": "examples",
    "scripts": "scripts",
}
GENERATED = ("client/src/recollect/v1/", "client/src/recollect/_sync/")

OPENING = re.compile(r"(What|Whether|Where|Whom?|Whose|How|When)\b")
NAMES = frozenset(
    [
        "asked",
        "begun",
        "found",
        "gone",
        "heard",
        "kept",
        "known",
        "mended",
        "said",
        "seen",
        "told",
        "wanted",
    ]
)

METAPHORS = re.compile(
    r"(?<![a-z])(?:heard|house|mend(?:s|ed)?|news|told|unheard|whoever)(?![a-z])", re.I
)

ALLOWED = {
    "client/src/recollect/_types/conversation.py": {"kept"},  # a field of the contract
}
"""Listed names that are right in a file."""

Place = tuple[str, int, str]


def places(folder: Path) -> Iterator[tuple[str, Place]]:
    """Yield each thing that a count is about, with the name of the count."""
    for path in sorted(folder.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if not name.startswith(GENERATED):
            yield from _places_of(name, path.read_text())
    ruff = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        "D401",
        "--output-format",
        "json",
        str(folder),
    ]
    for finding in json.loads(
        subprocess.run(ruff, capture_output=True, text=True, check=False).stdout
    ):
        name = str(Path(finding["filename"]).relative_to(ROOT))
        if not name.startswith(GENERATED):
            yield "moods", (name, finding["location"]["row"], finding["message"])


def openings(source: str) -> list[tuple[int, str]]:
    """Return the docstrings of a module that begin with a question word, by line."""
    return [(line, text) for line, text in _docstrings(source) if OPENING.match(text)]


def names(text: str) -> list[tuple[int, str]]:
    """Return the names that a module gives to values and that are listed in `NAMES`, by line."""
    given = []
    for node in _nodes(text):
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
                | ast.arg(arg=name)
            ):
                given.append((node.lineno, name))
    return [(line, name) for line, name in given if name.strip("_") in NAMES]


def metaphors(text: str) -> list[tuple[int, str]]:
    """Return the metaphors in the docstrings, comments and names of a module, by line."""
    if not METAPHORS.search(text):  # most have none, and to tokenize a module takes long
        return []
    used = [
        (line + text[: match.start()].count("\n"), match[0])
        for line, text in _docstrings(text)
        for match in METAPHORS.finditer(text)
    ]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.NAME):
            used += [(token.start[0], match[0]) for match in METAPHORS.finditer(token.string)]
    return used


def classes(text: str) -> list[tuple[int, str]]:
    """Return the names of the classes of a module, by line: inner ones too."""
    return [(node.lineno, node.name) for node in _nodes(text) if isinstance(node, ast.ClassDef)]


def same_names(classes: Sequence[Place]) -> list[Place]:
    """Return the classes that have the name of another one."""
    number = Counter(name for _, _, name in classes)
    return [place for place in classes if number[place[2]] > 1]


def main(arguments: Sequence[str]) -> int:
    """Compare the counts with the baseline and return the exit code."""
    counts: dict[str, Counter[str]] = {}
    listed: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for part, folder in PARTS.items():
        counts[part] = Counter(openings=0, moods=0, names=0, metaphors=0, classes=0)
        for count, place in places(ROOT / folder):
            listed[part, count].append(place)
        listed[part, "classes"] = same_names(listed.pop((part, "class"), []))
        counts[part].update({count: len(listed[part, count]) for count in counts[part]})
        counts[part]["classes"] = len({name for _, _, name in listed[part, "classes"]})
    if "--list" in arguments:
        for of_count in listed.values():
            print("\n".join(f"{name}:{line}: {text}" for name, line, text in of_count))
        return 0
    if "--write" in arguments:
        BASELINE.write_text(
            json.dumps({part: dict(of) for part, of in counts.items()}, indent=2) + "\n"
        )
        return 0
    return compare(counts, json.loads(BASELINE.read_text()))


def compare(counts: dict[str, Counter[str]], baseline: dict[str, dict[str, int]]) -> int:
    """Print each count that rose or fell, and return 1 if one rose."""
    rose = False
    for part, of in counts.items():
        for count, number in of.items():
            before = baseline.get(part, {}).get(count, 0)
            if number > before:
                rose = True
                print(
                    f"{part}: {count} rose from {before} to {number}: see scripts/check_language.py --list",
                    file=sys.stderr,
                )
            elif number < before:
                print(
                    f"{part}: {count} fell from {before} to {number}: run scripts/check_language.py --write"
                )
    return int(rose)


def _places_of(name: str, text: str) -> Iterator[tuple[str, Place]]:
    yield from (
        ("openings", (name, line, opening.partition("\n")[0])) for line, opening in openings(text)
    )
    yield from (
        ("names", (name, line, used))
        for line, used in names(text)
        if used not in ALLOWED.get(name, ())
    )
    yield from (("metaphors", (name, line, used)) for line, used in metaphors(text))
    yield from (("class", (name, line, used)) for line, used in classes(text))


@lru_cache(maxsize=1)
def _nodes(source: str) -> tuple[ast.AST, ...]:
    """Return the nodes of a module's tree. All counts of one module are taken before the next."""
    return tuple(ast.walk(ast.parse(source)))


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield every text that stands alone in a body: docstrings of modules, classes, functions and
    attributes.
    """
    for node in _nodes(source):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for it in node.body:
                if (
                    isinstance(it, ast.Expr)
                    and isinstance(it.value, ast.Constant)
                    and isinstance(it.value.value, str)
                ):
                    yield it.lineno, it.value.value.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
