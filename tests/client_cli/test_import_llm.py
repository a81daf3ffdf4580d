"""`recollect import` of the databases that the command line `llm` wrote, with its plugin
`llm-echo`: version 0.31, and 0.36 that went on with the same database.
"""

import lzma
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from recollect import Client, Message, Role

from tests.client_cli.conftest import Run

PRODUCTS = Path(__file__).parent / "products"


def logs_of(version: str, path: Path) -> Path:
    """Write the database of a version."""
    path.write_bytes(lzma.decompress((PRODUCTS / f"llm-{version}.db.xz").read_bytes()))
    return path


def by_title(client: Client, title: str) -> list[Message]:
    [it] = client.conversations.list(query=title)
    return list(client.conversations.load(it.id).messages)


def test_a_database_that_a_newer_version_went_on_with_comes_whole(
    run: Run, client: Client, tmp_path: Path
) -> None:
    path = logs_of("0.31", tmp_path / "logs.db")
    ran = run("import", path)
    assert (ran.code, ran.lines[0]["conversationsNew"], ran.lines[0]["messagesNew"]) == (0, 1, 4), (
        ran.err
    )
    ran = run("import", logs_of("0.36", path))
    counts = [ran.lines[0][it] for it in ("conversationsNew", "messagesNew", "messagesKnown")]
    assert (ran.code, counts) == (6, [2, 8, 4])
    assert "logs.db: what the product hides: thread " in ran.err
    assert ran.err.splitlines()[0].endswith(": Be brief")
    tower = by_title(client, "How tall is the tower?")
    assert [it.content for it in tower if it.role is Role.USER] == [
        "How tall is the tower?",
        "We plant forty birch trees.\n\nAnd the plan?",
        "And how wide?",
    ]
    [fragment] = [it for it in client.conversations.list() if it.title.startswith("We plant")]
    assert by_title(client, fragment.title)[0].content == "We plant forty birch trees.\n"


def test_calls_results_thinking_and_files_of_newer_versions_come(
    run: Run, client: Client, tmp_path: Path
) -> None:
    run("import", logs_of("0.36", tmp_path / "logs.db"))
    question, call, result, answer = by_title(client, "How salty?")
    assert question.attachments[0].media_type == "image/png"
    assert (call.tool_calls[0].name, call.tool_calls[0].arguments) == ("weigh", '{"what": "salt"}')
    assert call.thinking_text.startswith("First I consider")
    assert (result.tool_call_id, result.content) == (call.tool_calls[0].id, "20 g of salt")
    assert answer.metadata["model"] == "echo"
    assert run("import", tmp_path / "logs.db").lines[0]["messagesNew"] == 0


@pytest.mark.parametrize(
    "view",
    [
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n",
        "SELECT 1 AS id FROM t a, t b, t c, t d, t e, t f, t g, t h",
    ],
    ids=["recursive", "product"],
)
def test_a_view_without_an_end_is_not_read(run: Run, tmp_path: Path, view: str) -> None:
    path = tmp_path / "logs.db"
    with closing(sqlite3.connect(path)) as logs:
        logs.executescript("CREATE TABLE t (x); CREATE TABLE conversations (id, name)")
        logs.executemany("INSERT INTO t VALUES (?)", [(1,)] * 1000)
        logs.execute(f"CREATE VIEW responses AS {view}")
        logs.commit()
    ran = run("import", path, "--dry-run")
    assert (ran.code, "no such table: responses" in ran.err) == (6, True)
