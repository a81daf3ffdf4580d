"""The public benchmarks run on data of their authors' format, and count as their scorers do."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from bench import published
from bench.figures import Figure


def _session(*turns: tuple[str, str, bool | None]) -> list[dict[str, Any]]:
    return [
        {"role": role, "content": content} | ({} if evidence is None else {"has_answer": evidence})
        for role, content, evidence in turns
    ]


def _entry(name: str, kind: str, question: str, right: list[str]) -> dict[str, Any]:
    return {
        "question_id": name,
        "question_type": kind,
        "question": question,
        "answer": "in the loft",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["answer_a_1", "sharegpt_b_0", "answer_a_2"],
        "haystack_dates": [
            "2023/05/20 (Sat) 02:21",
            "2023/05/21 (Sun) 10:00",
            "2023/05/30 (Tue) 23:39",
        ],
        "haystack_sessions": [
            _session(
                ("user", "I put the wombat in the loft", True),
                ("assistant", "A fine place for a wombat", False),
            ),
            _session(("user", "Which bread keeps longest?", None), ("assistant", "Rye", None)),
            _session(
                ("user", "Name a gift for a climber", False),
                ("assistant", "A narwhal mug, surely", True),
            ),
        ],
        "answer_session_ids": right,
    }


def _file(path: Path, value: object) -> str:
    path.write_bytes(orjson.dumps(value))
    return str(path)


def _values(figures: list[Figure]) -> list[float]:
    return [figure.value for figure in figures]


def test_longmemeval_counts_sessions_and_turns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [
        _entry("q1", "single-session-user", "Where is the wombat?", ["answer_a_1"]),
        _entry("q2", "single-session-assistant", "Which mug was it?", ["answer_a_2"]),
        _entry("q3_abs", "single-session-user", "Where is the walrus?", []),
    ]
    data = _file(tmp_path / "longmemeval_s.json", entries)
    figures = published.main(["longmemeval", data, "--words"])
    assert _values(figures) == [100.0]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("longmemeval, 2 questions")
    shown = {" ".join(line.split()[:-2]): float(line.split()[-2]) for line in lines[1:25]}
    assert shown["sessions recall_any@1"] == 100
    # the scorer counts what the assistant said as found by nobody
    assert shown["sessions, user's turns recall_any@1"] == 50


def test_longmemeval_gains_are_discounted_as_the_scorer_does() -> None:
    assert published.ndcg([True, False, True], 2) == pytest.approx((1 + 1 / 1.5849625) / 2)
    assert published.ndcg([False, True], 1) == 1.0  # its second place counts as its first
    assert published.ndcg([True], 0) == 0.0


def test_locomo_counts_the_share_of_the_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def turn(speaker: str, number: str, text: str, **more: str) -> dict[str, str]:
        return {"speaker": speaker, "dia_id": number, "text": text} | more

    sample = {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bob",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                turn("Ann", "D1:1", "The wombat moved to the loft"),
                turn("Bob", "D1:2", "Look!", blip_caption="a photo of a narwhal"),
            ],
            "session_2_date_time": "10:00 am on 9 June, 2023",
            "session_2": [turn("Bob", "D2:1", "Rye bread again")],
        },
        "qa": [
            {"question": "Where is the wombat?", "answer": "loft", "evidence": ["D1:1", "D9:9"],
             "category": 1},
            {"question": "Who showed a narwhal?", "answer": "Bob", "evidence": ["D1:2"],
             "category": 4},
            {"question": "Who ate rye?", "adversarial_answer": "Ann", "evidence": [],
             "category": 5},
        ],
    }  # fmt: skip
    figures = published.main(["locomo", _file(tmp_path / "locomo10.json", [sample]), "--words"])
    assert _values(figures) == [pytest.approx(100 * 2.5 / 3)]
    assert "turns any@5" in capsys.readouterr().out
