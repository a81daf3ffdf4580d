"""`recollect import` of a file of each format in which one item is broken and one of a kind that
is not known: what is good comes, the other two are named, and a second run adds nothing.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from recollect.imports import table
from recollect.imports.forms import Format

from tests.client_cli.conftest import Run
from tests.client_cli.test_import_types import OWNER, RECALL_SET, SAMPLES, TRANSCRIPT

BROKEN = '{"id": "broken", "messages": tru}'
UNKNOWN = {"kindOfTomorrow": {"says": "something"}}


PRODUCTS = [(of, whole) for of, whole in SAMPLES if of.name in table.NAMES]


@pytest.mark.parametrize(
    ("of", "whole"),
    PRODUCTS,
    ids=[f"{it.name}-{number}" for number, (it, _) in enumerate(PRODUCTS)],
)
def test_what_is_good_comes_and_the_rest_is_named(
    run: Run, tmp_path: Path, of: Format, whole: list[Any]
) -> None:
    good = tmp_path / "good" / "day.jsonl"
    good.parent.mkdir()
    good.write_text("".join(f"{json.dumps(it)}\n" for it in whole))
    options = ["--format", of.name, "--owner", OWNER]
    alone = run("import", good, *options, "--dry-run")
    path = tmp_path / "export.jsonl"
    path.write_text(f"{good.read_text()}{BROKEN}\n{json.dumps(UNKNOWN)}\n")

    first = run("import", path, *options)
    assert first.code == 6
    assert first.lines[0]["messagesNew"] >= alone.lines[-1]["messagesNew"] > 0
    assert f"export.jsonl:{len(whole) + 1}: no JSON: Expecting value" in first.err
    assert first.lines[0]["leftOut"] - alone.lines[-1]["leftOut"] == 2
    assert re.search(rf"(:|line ){len(whole) + 2}\b", first.err), first.err

    again = run("import", path, *options)
    assert (again.code, again.lines[0]["messagesNew"]) == (6, 0)
    assert again.lines[0]["messagesKnown"] == first.lines[0]["messagesNew"]
    assert again.lines[0]["leftOut"] == first.lines[0]["leftOut"]


@pytest.mark.parametrize("whole", [TRANSCRIPT, RECALL_SET], ids=["transcript", "recall set"])
def test_so_it_does_of_a_servers_own_files(run: Run, tmp_path: Path, whole: list[Any]) -> None:
    path = tmp_path / ("conv-1.jsonl" if whole is TRANSCRIPT else "conversations.jsonl")
    path.write_text("".join(f"{json.dumps(it)}\n" for it in whole))
    path.write_text(f"{path.read_text()}{BROKEN}\n{json.dumps(UNKNOWN)}\n")
    first = run("import", tmp_path)
    assert (first.code, first.lines[0]["messagesNew"], first.lines[0]["leftOut"]) == (6, 2, 2)
    for line in (1, 2):
        assert f"{path.name}:{len(whole) + line}" in first.err
    again = run("import", tmp_path)
    assert (again.code, again.lines[0]["messagesNew"], again.lines[0]["leftOut"]) == (6, 0, 2)
    assert again.lines[0]["messagesKnown"] == 2
