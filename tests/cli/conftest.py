"""What the tests of commands share: the command line, small recall sets, and transcripts as the server writes them."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from recollect import Client
from recollect_server.cli import commands
from recollect_server.domain.conversation import Content
from recollect_server.storage.logs.record import Entry, Stamp, encode

from tests.conftest import RunningServer
from tests.server.conftest import Connect, agent, connect, user

__all__ = ["connect"]
Set = Callable[..., Path]
"""What the fixtures `write_set` and `write_transcript` are."""


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """The server of a test runs in this process: its log may not stand between what a command prints."""


@dataclass(frozen=True)
class Counts:
    """The numbers of an import's summary."""

    conversations_new: int
    conversations_known: int
    messages_new: int
    messages_known: int
    skipped: int


def counts_of(output: str) -> Counts:
    """The numbers of the summary, which must be the only line."""
    match = re.fullmatch(
        r"Conversations: (\d+) new, (\d+) already there\. Messages: (\d+) new, (\d+) already there\. Skipped: (\d+)\. .*\n", output
    )
    assert match, output
    return Counts(*map(int, match.groups()))


def run(*arguments: object, env: dict[str, str | None] | None = None) -> Result:
    """Runs `recollect-server` with these arguments."""
    return CliRunner().invoke(commands, [str(it) for it in arguments], env=env)


BringIn = Callable[..., Counts]
"""What the fixture `bring_in` is."""


@pytest.fixture
def bring_in(server: Any) -> BringIn:
    """Runs `import` against `server` and answers the numbers of its summary."""

    def run_import(path: Path, *flags: str) -> Counts:
        result = run("import", path, "--target", server.target, *flags)
        assert result.exit_code == 0, result.output
        return counts_of(result.stdout)

    return run_import


def said(number: int, role: str = "user", content: str = "", **fields: Any) -> dict[str, Any]:
    """A message of a recall set."""
    time = f"2024-05-01T10:{number // 60:02d}:{number % 60:02d}Z"
    return {"id": f"m{number}", "role": role, "content": content or f"line {number}", "timestamp": time} | fields


def talk(count: int) -> list[dict[str, Any]]:
    """So many messages, the user's and the agent's in turn."""
    return [said(number, "assistant" if number % 2 else "user") for number in range(count)]


def set_line(name: str, messages: list[dict[str, Any]], group: str = "alex", **fields: Any) -> dict[str, Any]:
    """A conversation of a recall set."""
    return {"group": group, "id": name, "started": "2024-05-01T10:00:00Z", "messages": messages} | fields


@pytest.fixture
def write_set(tmp_path: Path) -> Set:
    """Writes a recall set and answers its folder. Lines may be conversations or raw text."""

    def write(*lines: dict[str, Any] | str, name: str = "small-set") -> Path:
        folder = tmp_path / "sets" / name
        folder.mkdir(parents=True, exist_ok=True)
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (folder / "conversations.jsonl").write_text("".join(f"{text}\n" for text in texts))
        return folder

    return write


@pytest.fixture
def write_transcript(tmp_path: Path) -> Set:
    """Writes a transcript, each of its batches given as a list, and answers its path."""

    def write(name: str, *batches: Iterable[Content], folder: str = "transcripts") -> Path:
        path = tmp_path / folder / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = []
        for number, batch in enumerate(batches):
            contents = list(batch)
            for index, content in enumerate(contents, start=1):
                stamp = Stamp(f"request-{number}", "0" * 32, (index, len(contents)))
                lines.append(encode(Entry(content, stamp)))
        path.write_bytes(b"".join(lines))
        return path

    return write


def messages_of(client: Client, conversation_id: str) -> list[str]:
    """The contents of a conversation of at most a few hundred turns, oldest first."""
    return [message.content for message in client.conversations.load(conversation_id, max_turns=1000, max_tokens=10**9).messages]


QUERIES = ["zebra", "butter", "北京"]


@pytest.fixture
def filled(server: RunningServer, connect: Connect) -> list[str]:
    """Conversations with something of everything, on `server`."""
    service = connect(server)
    made = [service.create("web", model="m", request_id=f"create {n}".replace(" ", "-")).id for n in range(5)]
    for number, conversation_id in enumerate(made):
        for turn in range(number + 1):
            service.append(
                conversation_id, user(f"zebra {turn} 北京", sender="ana"), agent("butter"), request_id=f"a-{number}-{turn}"
            )
    service.rename(made[0], "Named")
    service.abbreviate(made[1], "notes", ["tea"])
    service.compress(made[4], 2, "summary")
    service.delete(made[2])
    return [name for name in made if name != made[2]]


def on(server: RunningServer, command: str, *arguments: object) -> Result:
    return run(command, *arguments, "--data-dir", server.data_dir)
