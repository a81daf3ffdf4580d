"""`recollect import` of formats that other distributions add."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from recollect.imports import table

from tests.client_cli.conftest import Run

GUIDE = Path(__file__).parents[2] / "docs/guides/import-export.md"
Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a distribution, by its module and its entry point."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(site)

    def install(module: str, source: str) -> None:
        about = site / f"{module}-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        entry = f"[{table.GROUP}]\nown = {module}:FORMAT\n"
        (about / "entry_points.txt").write_text(entry)
        (site / f"{module}.py").write_text(source)
        monkeypatch.delitem(sys.modules, module, raising=False)  # of another case
        table.added.cache_clear()

    yield install
    table.added.cache_clear()


def example() -> str:
    """Return the module of the guide."""
    section = GUIDE.read_text().partition("### A format of your own")[2]
    source = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert source is not None
    return source[1]


def notes(folder: Path) -> Path:
    path = folder / "notes.jsonl"
    lines = [{"note": "Plums are ripe.", "number": 1}, {"note": "Call Kim.", "number": 2}]
    path.write_text("".join(f"{json.dumps(it)}\n" for it in lines))
    return path


def test_a_format_of_another_distribution_is_recognised_and_read_once(
    run: Run, tmp_path: Path, install: Install
) -> None:
    path = notes(tmp_path)
    assert run("import", path, "--dry-run").code == 6  # nobody knows it yet
    install("jotter_import", example())
    first, again = run("import", path), run("import", path, "--format", "jotter")
    assert (first.code, first.lines[0]["messagesNew"]) == (0, 2)
    assert (again.code, again.lines[0]["messagesNew"], again.lines[0]["messagesKnown"]) == (0, 0, 2)
    listed = run("list", "--channel", "jotter")
    assert len(listed.lines) == 2


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('not today')", "RuntimeError: not today"),
        ("FORMAT = 7", "TypeError: broken_import:FORMAT is no recollect.imports.forms.Format"),
        ("", "AttributeError: module 'broken_import' has no attribute 'FORMAT'"),
        (
            "from recollect.imports.telegram import FORMAT",
            "ValueError: there is a format telegram-export already",
        ),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (
            "from dataclasses import replace\n"
            "from recollect.imports.telegram import FORMAT as other\n"
            "FORMAT = replace(other, name='\\x1b[2J\\nEvil')",
            r"ValueError: '\x1b[2J\nEvil' is no name of a channel",
        ),
    ],
)
def test_a_format_that_is_none_is_named_and_the_others_are_read(
    run: Run, tmp_path: Path, install: Install, source: str, reason: str
) -> None:
    install("broken_import", source)
    install("jotter_import", example())
    ran = run("import", notes(tmp_path), "--dry-run")
    assert (ran.code, ran.lines[-1]["messagesNew"]) == (0, 2)
    assert ran.err == f"a format is left out: own of broken_import: {reason}\n"
    named = run("import", notes(tmp_path), "--format", "own")
    assert named.code == 2
    assert f"a format is left out: own of broken_import: {reason}\n" in named.err


def failing(**functions: str) -> str:
    """Return the module of a format of which each of these functions is an expression."""
    lines = [f"FORMAT = replace(FORMAT, {name}={of})" for name, of in functions.items()]
    return "\n".join(["from dataclasses import replace", example(), *lines])


MESSAGES = {"messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    ("name", "value", "count"),
    [("is_item", MESSAGES, 1), ("is_head", MESSAGES, 1), ("refusal", {"says": "Hi"}, 0)],
)
def test_a_format_that_fails_to_recognise_keeps_no_file_from_the_others(
    run: Run, tmp_path: Path, install: Install, name: str, value: object, count: int
) -> None:
    path = tmp_path / "messages.jsonl"
    path.write_text(json.dumps(value))
    alone = run("import", path, "--dry-run")
    install("failing_import", failing(name="'failing'", **{name: "lambda value: 1 / 0"}))
    beside = run("import", path, "--dry-run")
    assert (beside.code, beside.out) == (alone.code, alone.out)
    assert beside.err.replace("Jotter, ", "") == alone.err  # among those that are known
    assert alone.lines[-1]["messagesNew"] == count


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        ("lambda reading, options: 1 / 0", "ZeroDivisionError: division by zero"),
        ("lambda reading, options: [None]", "TypeError: None is neither a Plan nor a Skip"),
    ],
)
def test_a_format_that_fails_to_read_is_named_with_the_file(
    run: Run, tmp_path: Path, install: Install, read: str, reason: str
) -> None:
    install("failing_import", failing(read=read))
    ran = run("import", notes(tmp_path), "--dry-run")
    assert ran.code == 6
    assert f"notes.jsonl: the format jotter failed: {reason}\n" in ran.err
