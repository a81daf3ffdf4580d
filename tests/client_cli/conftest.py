"""Fixtures for the tests of the command `recollect`, which runs as a program, into a pipe or on a
terminal.
"""

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, Conversation, Message
from recollect.cli import group
from recollect.cli.exits import INCOMPLETE
from recollect_server.kernel.domain.conversation import Content
from recollect_server.kernel.log.lines import Entry, Stamp, encode

from tests.programs import CLIENT, Forked, ran


@dataclass(frozen=True)
class Ran:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its output, where it is JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


def environment(address: str, **more: str) -> dict[str, str]:
    return os.environ | {"RECOLLECT_ADDRESS": address, "TZ": "UTC", "TERM": "xterm-256color"} | more


@dataclass(frozen=True)
class Recollect:
    """Runs `recollect` against one server."""

    address: str

    def __call__(self, *arguments: str, stdin: str = "", **more: str) -> Ran:
        """Run the command with its output in a pipe."""
        return Ran(
            *ran(
                CLIENT,
                arguments,
                stdin=stdin,
                env=environment(self.address, **more),
            )
        )

    def on_terminal(
        self, *arguments: str, typed: tuple[str, ...] = (), columns: int = 120, **more: str
    ) -> Ran:
        """Run the command on a terminal of some columns, with its standard error apart. Each of
        `typed` answers one prompt.
        """
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        with Forked(
            CLIENT,
            arguments,
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env=environment(self.address, COLUMNS=str(columns), **more),
            text=False,
        ) as process:
            os.close(theirs)
            output, prompts = b"", 0
            try:
                while chunk := _read(ours):
                    output += chunk
                    while prompts < len(typed) and output.count(b"> ") > prompts:
                        os.write(ours, typed[prompts].encode())
                        prompts += 1
            except BaseException:
                process.kill()  # a test that is given up may not wait for it
                raise
            assert process.stderr is not None
            err = process.stderr.read().decode()
            code = process.wait()
        os.close(ours)
        return Ran(code, output.decode(), err)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[Forked]:
        """Start the command with its output in a pipe. If it still runs at the end, it is
        killed.
        """
        with Forked(
            CLIENT, arguments, stderr=subprocess.PIPE, env=environment(self.address), text=False
        ) as process:
            try:
                yield process
            finally:
                process.kill()


class _Stream(io.TextIOWrapper):
    """A standard stream in memory, which says whether it is a terminal."""

    def __init__(self, content: bytes = b"", *, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def text(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode()


@dataclass(frozen=True)
class Inside:
    """Runs `recollect` in this process, which takes a tenth of the time that a program takes to
    start.
    """

    address: str
    patch: pytest.MonkeyPatch

    def __call__(self, *arguments: str, stdin: str = "", on_terminal: bool = False) -> Ran:
        """Run the command with its own streams. On a terminal it prints for people and may ask;
        `stdin` has the answers.
        """
        streams = [
            _Stream(stdin.encode(), is_terminal=on_terminal),
            *(_Stream(is_terminal=on_terminal) for _ in range(2)),
        ]
        with self.patch.context() as patch:
            for name, value in environment(
                self.address, COLUMNS="160", NO_COLOR="1", TERM="dumb"
            ).items():
                patch.setenv(name, value)
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patch.setattr(sys, name, stream)
            code = group.run(list(arguments))
        return Ran(code, streams[1].text(), streams[2].text())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # what Linux says where the last writer is gone
        return b""


@pytest.fixture
def recollect(server: Any) -> Recollect:
    """Return the command, set to the server of the test."""
    return Recollect(server.target)


@pytest.fixture
def inside(no_log: None, server: Any, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """Return the command in this process, set to the server of the test."""
    return Inside(server.target, monkeypatch)


@dataclass(frozen=True)
class Counts:
    """The numbers that an import prints."""

    conversations_new: int
    conversations_known: int
    messages_new: int
    messages_known: int
    left_out: int


def counts_of(ran: Ran) -> Counts:
    """Return the numbers of an import, which must be the only line. The exit code says whether
    something was left out.
    """
    assert ran.code in (0, INCOMPLETE), ran
    [line] = ran.lines
    names = ("conversationsNew", "conversationsKnown", "messagesNew", "messagesKnown", "leftOut")
    counts = Counts(*(line[name] for name in names))
    assert (ran.code == INCOMPLETE) == bool(counts.left_out or line.get("notes"))
    return counts


Run = Callable[..., Ran]
"""The type of the fixture `run`."""
Set = Callable[..., Path]
"""The type of the fixtures `write_set` and `write_transcript`."""
BringIn = Callable[..., Counts]
"""The type of the fixture `bring_in`."""


@pytest.fixture
def run_at(no_log: None, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in this process for the server at an address, with arguments of any type."""
    return lambda address, *arguments: Inside(address, monkeypatch)(*map(str, arguments))


@pytest.fixture
def run(run_at: Run, server: Any) -> Run:
    """Run the command in this process for `server`, with arguments of any type."""
    return partial(run_at, server.target)


@pytest.fixture
def bring_in(run: Run) -> BringIn:
    """Run `import` against `server` and return its numbers."""
    return lambda path, *flags: counts_of(run("import", path, *flags))


def said(number: int, role: str = "user", content: str = "", **fields: Any) -> dict[str, Any]:
    """Return a message of a recall set."""
    time = f"2024-05-01T10:{number // 60:02d}:{number % 60:02d}Z"
    return {
        "id": f"m{number}",
        "role": role,
        "content": content or f"line {number}",
        "timestamp": time,
    } | fields


def talk(count: int) -> list[dict[str, Any]]:
    """Return `count` messages, the user's and the agent's in turn."""
    return [said(number, "assistant" if number % 2 else "user") for number in range(count)]


def set_line(
    name: str, messages: list[dict[str, Any]], group: str = "alex", **fields: Any
) -> dict[str, Any]:
    """Return a conversation of a recall set."""
    return {
        "group": group,
        "id": name,
        "started": "2024-05-01T10:00:00Z",
        "messages": messages,
    } | fields


@pytest.fixture
def write_set(tmp_path: Path) -> Set:
    """Return a function that writes a recall set and returns its folder. Lines may be conversations
    or raw text.
    """

    def write(*lines: dict[str, Any] | str, name: str = "small-set") -> Path:
        folder = tmp_path / "sets" / name
        folder.mkdir(parents=True, exist_ok=True)
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        (folder / "conversations.jsonl").write_text("".join(f"{text}\n" for text in texts))
        return folder

    return write


@pytest.fixture
def write_transcript(tmp_path: Path) -> Set:
    """Return a function that writes a transcript, each batch given as a list, and returns its
    path.
    """

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
    """Return the contents of a conversation of at most a few hundred turns, oldest first."""
    return [
        message.content
        for message in client.conversations.load(
            conversation_id, max_turns=1000, max_tokens=10**9
        ).messages
    ]


@pytest.fixture
def talked(client: Client) -> Callable[..., Conversation]:
    """Return a function that begins a conversation with some turns."""

    def talk(
        turns: int = 1, *, channel: str = "web", text: str = "line", title: str = "", **fields: Any
    ) -> Conversation:
        conversation = client.conversations.create(channel, **fields)
        for turn in range(1, turns + 1):
            messages = [
                Message.user(f"{text} {turn}", sender="alex"),
                Message.assistant(f"answer {turn}"),
            ]
            client.conversations.append_turn(conversation.id, messages)
        if title:
            client.conversations.rename(conversation.id, title)
        return client.conversations.get(conversation.id)

    return talk
