"""Other memories beside Recollect: what needs no installation runs; what fails is a row."""

import dataclasses
import sqlite3
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import orjson
import pytest
from recollect.imports import recall_sets

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


def test_a_run_goes_on_from_its_journal(
    recall_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal, report = tmp_path / "journal.jsonl", tmp_path / "peers.json"
    command = ["--set", str(recall_set), "--here", "--journal", str(journal), "--json", str(report)]
    alone = peers.main([*command, "--peers", PLAIN_FTS5.name])
    [measured] = orjson.loads(report.read_bytes())["sets"]["set"]["rows"]
    assert "ann: plain FTS5 ..." in capsys.readouterr().err
    with journal.open("ab") as file:
        file.write(b'\n{"set": "set", "group": "ann", "peer": "Recol')  # ended while it wrote

    both = peers.main([*command, "--peers", PLAIN_FTS5.name, RECOLLECT_WORDS.name])
    errors = capsys.readouterr().err
    assert "ann: Recollect, embedder off ..." in errors
    assert "plain FTS5" not in errors, "it is not measured again"
    [_, taken] = orjson.loads(report.read_bytes())["sets"]["set"]["rows"]
    assert taken == measured
    assert [it.value for it in both if it.part == PLAIN_FTS5.name] == [it.value for it in alone]

    lines = [it for it in journal.read_bytes().splitlines() if it.endswith(b"}")]
    assert [orjson.loads(it)["peer"] for it in lines] == [PLAIN_FTS5.name, RECOLLECT_WORDS.name]


def test_another_version_of_a_library_is_measured_anew(
    recall_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    row = Row(PLAIN_FTS5)
    plans = recall.read_conversations(recall_set / recall_sets.FILE, abbreviations=False)
    questions = recall.read_questions(recall_set / recall.QUERIES)
    peers.run_group(row, plans["ann"], questions["ann"], tmp_path)
    peers.Journal(path).add("set", "ann", row)
    row_again = peers.Journal(path).row("set", "ann", PLAIN_FTS5)
    assert row_again is not None
    assert row_again.summary(0) == row.summary(0)
    newer = dataclasses.replace(PLAIN_FTS5, packages=("sqlite==4",))
    monkeypatch.setattr(peers, "PEERS", (newer,))
    assert peers.Journal(path).row("set", "ann", newer) is None


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
