"""Benchmarks on a tiny size: their processes are forked, for nobody reads these figures."""

import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import orjson
import pytest

from bench import figures
from bench import servers as bench_servers
from tests.programs import SERVER, Forked

_OWN_PROCESS = "soak"
"""The one benchmark that runs in a process of its own, as all do outside the tests."""

GOLD = [
    {"group": "ann", "id": "ann/q", "query": "Where did the wombat go?", "category": "1"},
    {
        "group": "bob",
        "id": "bob/q",
        "query": "What about the narwhal?",
        "category": "2",
        "asked_at": "2026-01-02T00:00:00Z",
    },
]


@pytest.fixture
def recall_set(tmp_path: Path) -> Path:
    """Return a set of two groups. In the second, the best match is newer than the question."""

    def conversation(group: str, name: str, day: int, *contents: str) -> bytes:
        time = f"2026-01-{day:02}T00:00:00Z"
        messages = [
            {
                "id": f"{name}:{i}",
                "role": "assistant" if i % 2 else "user",
                "content": content,
                "timestamp": time,
            }
            for i, content in enumerate(contents)
        ]
        notes = {"abbreviation": f"They talked: {contents[0]}."}
        return orjson.dumps(
            {"group": group, "id": f"{group}/{name}", "started": time, "messages": messages} | notes
        )

    folder = tmp_path / "set"
    folder.mkdir()
    lines = [
        conversation("ann", "a1", 1, "The wombat went to Kyoto", "Really?"),
        conversation("ann", "a2", 2, "It rains"),
        conversation("bob", "b1", 1, "A narwhal swam by", "In the harbour?"),
        conversation("bob", "b2", 3, "narwhal narwhal narwhal"),
    ]
    (folder / "conversations.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    gold = [
        {"gold_conversations": ["ann/a1"], "gold_messages": ["a1:0"]},
        {"gold_conversations": ["bob/b1"], "gold_messages": []},
    ]
    questions = [orjson.dumps(question | more) for question, more in zip(GOLD, gold, strict=True)]
    (folder / "queries.jsonl").write_bytes(b"\n".join(questions) + b"\n")
    return folder


def _forked(
    command: list[str], *, stdout: int, stderr: IO[str] | None = None, text: bool = True
) -> Forked:
    python, flag, program, *arguments = command
    assert (python, flag, text) == (sys.executable, "-m", True)
    errors = stderr.fileno() if stderr else subprocess.DEVNULL
    return Forked(
        SERVER if program == "recollect_server" else program,
        arguments,
        stdout=stdout,
        stderr=errors,
    )


def _measured(module: str, arguments: list[str]) -> list[Any]:
    return (figures.measured if module == _OWN_PROCESS else figures._run)(module, arguments)


@pytest.fixture(autouse=True)
def processes_are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes of a benchmark: it starts several, and a cold start imports for a
    second.
    """
    monkeypatch.setattr(bench_servers, "Popen", _forked)
    monkeypatch.setattr("bench.__main__.measured", _measured)
    real: Callable[[str], Any] = multiprocessing.get_context
    forkserver = real("forkserver")
    forkserver.set_forkserver_preload(["bench.calls", "bench.watchers"])
    monkeypatch.setattr(
        multiprocessing,
        "get_context",
        lambda method: forkserver if method == "spawn" else real(method),
    )
