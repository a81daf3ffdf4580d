"""The benchmarks of notes run, on a tiny size."""

from pathlib import Path

import orjson
import pytest

from bench import abbreviations, background


def test_abbreviations_of_both_writers_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    time = "2026-01-01T00:00:00Z"
    conversations = [
        {
            "group": "ann",
            "id": name,
            "started": time,
            "messages": [
                {
                    "id": f"{name}:0",
                    "role": "user",
                    "content": f"The {animal} went to Kyoto.",
                    "timestamp": time,
                }
            ],
            "abbreviation": "They talked of animals.",
        }
        for name, animal in (("a1", "wombat"), ("a2", "narwhal"))
    ]
    question: dict[str, object] = {
        "group": "ann",
        "id": "q",
        "query": "Where did the wombat go?",
        "category": "1",
    }
    question |= {"gold_conversations": ["a1"], "gold_messages": []}
    for name, lines in (("conversations", conversations), ("queries", [question])):
        (tmp_path / f"{name}.jsonl").write_bytes(
            b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
        )
    abbreviations.main(["--set", str(tmp_path)])
    output = capsys.readouterr().out
    assert ": 2 conversations with a model's abbreviation" in output
    for way in ("words", "vectors"):
        assert f"{way}: recall@10 of the extractive writer is " in output


def test_background_runs(capsys: pytest.CaptureFixture[str]) -> None:
    small = [
        "--conversations",
        "3",
        "--turns",
        "2",
        "--callers",
        "2",
        "--calls",
        "8",
        "--rounds",
        "1",
    ]
    background.main([*small, "--idle", "5", "--seconds", "0.2"])
    output = capsys.readouterr().out
    for words in (
        "3 idle conversations: ",
        "AppendTurn meanwhile: ",
        "p99 meanwhile is ",
        "5 conversations that wait: ",
    ):
        assert words in output
