"""Other memories beside Recollect: what needs no installation runs; what fails is a row."""

import dataclasses
import sqlite3
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import orjson
import pytest
from recollect.cli.formats import recall_sets

from bench import peers, recall
from bench.peer_environments import LANGGRAPH, PLAIN_FTS5, RECOLLECT_WORDS, Peer
from bench.peers import Row


def _run(recall_set: Path, folder: Path, *chosen: Peer, group: str) -> list[dict[str, Any]]:
    """Measure peers on one group; return their rows."""
    plans = recall.read_conversations(recall_set / recall_sets.FILE, abbreviations=False)
    questions = recall.read_questions(recall_set / recall.QUERIES)
    rows = [Row(peer) for peer in chosen]
    for row in rows:
        peers.run_group(
            row, plans[group], questions[group], folder / "environments", folder / "vectors.db"
        )
    return [row.summary(0) for row in rows]


def test_recollect_and_a_baseline_make_a_table_a_report_and_a_picture(
    recall_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, picture = tmp_path / "peers.json", tmp_path / "peers.svg"
    names = ["--peers", PLAIN_FTS5.name, RECOLLECT_WORDS.name]
    flags = ["--here", "--json", str(report), "--picture", str(picture)]
    figures = peers.main(["--set", str(recall_set), *names, *flags])
    of_set = orjson.loads(report.read_bytes())["sets"]["set"]
    assert of_set["groups"] == ["ann"], "no question of bob's has gold messages"
    assert [(it.part, it.value, it.ratio) for it in figures] == [
        (RECOLLECT_WORDS.name, 100, 1),
        (PLAIN_FTS5.name, 100, 1),
    ]
    for row in of_set["rows"]:
        assert (row["questions"], row["messages"], row["found"]["any@1"]) == (1, 3, 100)
        assert (row["held"], row["held_last"]) == ("3 of 3", "20 of 20")
        assert all(row[name] > 0 for name in ("store_ms", "search_ms", "bytes_per_message"))
    output = capsys.readouterr().out
    assert "| plain FTS5 | words | 100.0 |" in output
    texts = {it.text for it in ElementTree.parse(picture).iter()}  # noqa: S314 - our own
    assert {PLAIN_FTS5.name, RECOLLECT_WORDS.name} <= texts

    again = peers.main(["--read", str(report)])
    assert again == figures
    assert capsys.readouterr().out in output


def test_a_question_is_asked_before_anything_newer_is_stored(recall_set: Path) -> None:
    plans = recall.read_conversations(recall_set / recall_sets.FILE, abbreviations=False)["bob"]
    [question] = recall.read_questions(recall_set / recall.QUERIES)["bob"]
    later = dataclasses.replace(question, id="later", asked_at=None)
    made = list(peers.steps(peers.items_of(plans), [later, question]))
    assert [
        ([it.id for it in items], [it.id for it in next_ones]) for items, next_ones in made
    ] == [
        (["b1:0", "b1:1"], ["bob/q"]),
        (["b2:0"], ["later"]),
    ]


def test_a_library_is_driven_and_loses_its_memory_with_its_process(
    recall_set: Path, tmp_path: Path
) -> None:
    pytest.importorskip("langgraph")
    [row] = _run(recall_set, tmp_path, dataclasses.replace(LANGGRAPH, packages=()), group="ann")
    assert row["found"]["any@10"] == 100
    assert (row["held"], row["held_last"]) == ("0 of 3", "0 of 20")
    assert row["search_embedding_ms"] > 0
    vectors = sqlite3.connect(tmp_path / "vectors.db")
    assert vectors.execute("SELECT count(*) FROM vectors").fetchone() == (3 + 20 + 2,)
    vectors.close()


def test_a_library_that_does_not_install_or_run_is_a_row_with_the_reason(
    recall_set: Path, tmp_path: Path
) -> None:
    nowhere = Peer("nowhere", "plain-fts5", (str(tmp_path / "nowhere.whl"),), "words", False)
    unknown = Peer("unknown", "unknown", (), "words", False)
    absent, failed, works = _run(recall_set, tmp_path, nowhere, unknown, PLAIN_FTS5, group="ann")
    assert absent["failure"].startswith("did not install: ERROR: ")
    assert failed["failure"] == "KeyError: 'unknown'"
    assert works["found"]["any@10"] == 100
    shown = peers.table([absent, failed, works]).splitlines()
    assert len(shown) == 5 + 1 + 3
    assert shown[2].startswith("| nowhere | did not install: ")
