"""What the tests of the command `recollect` share: it is run as a program, into a pipe or on a terminal."""

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from recollect import Client, Conversation, Message
from recollect.cli.group import run

from tests.programs import CLIENT, Forked, ran

TIMEOUT = 60


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
        """Into a pipe."""
        return Ran(*ran(CLIENT, arguments, stdin=stdin, env=environment(self.address, **more), seconds=TIMEOUT))

    def on_terminal(self, *arguments: str, typed: tuple[str, ...] = (), **more: str) -> Ran:
        """On a terminal of 120 columns. Its standard error is apart. Each of `typed` is typed at a prompt of its own."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        with Forked(
            CLIENT,
            arguments,
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env=environment(self.address, COLUMNS="120", **more),
            text=False,
        ) as process:
            os.close(theirs)
            seen, asked = b"", 0
            try:
                while chunk := _read(ours):
                    seen += chunk
                    while asked < len(typed) and seen.count(b"> ") > asked:
                        os.write(ours, typed[asked].encode())
                        asked += 1
            except BaseException:
                process.kill()  # a test that is given up may not wait for it
                raise
            assert process.stderr is not None
            err = process.stderr.read().decode()
            code = process.wait(TIMEOUT)
        os.close(ours)
        return Ran(code, seen.decode(), err)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[Forked]:
        """Into a pipe, and still running. It is killed at the end if it runs then."""
        with Forked(CLIENT, arguments, stderr=subprocess.PIPE, env=environment(self.address), text=False) as process:
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
    """Runs `recollect` in this process, which takes a tenth of the time that a program takes to start."""

    address: str
    patch: pytest.MonkeyPatch

    def __call__(self, *arguments: str, stdin: str = "", on_terminal: bool = False) -> Ran:
        """With streams of its own. On a terminal it prints for people, and may ask: `stdin` is what is typed."""
        streams = [_Stream(stdin.encode(), is_terminal=on_terminal), *(_Stream(is_terminal=on_terminal) for _ in range(2))]
        with self.patch.context() as patch:
            for name, value in environment(self.address, COLUMNS="160", NO_COLOR="1", TERM="dumb").items():
                patch.setenv(name, value)
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patch.setattr(sys, name, stream)
            code = run(list(arguments))
        return Ran(code, streams[1].text(), streams[2].text())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # what Linux says where the last writer is gone
        return b""


@pytest.fixture
def recollect(server: Any) -> Recollect:
    """The command, for the server of the test."""
    return Recollect(server.target)


@pytest.fixture
def inside(no_log: None, server: Any, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """The command, for the server of the test, in this process."""
    return Inside(server.target, monkeypatch)


@pytest.fixture
def talked(client: Client) -> Callable[..., Conversation]:
    """Begins a conversation of so many turns."""

    def talk(turns: int = 1, *, channel: str = "web", said: str = "line", title: str = "", **fields: Any) -> Conversation:
        conversation = client.conversations.create(channel, **fields)
        for turn in range(1, turns + 1):
            messages = [Message.user(f"{said} {turn}", sender="alex"), Message.assistant(f"answer {turn}")]
            client.conversations.append_turn(conversation.id, messages)
        if title:
            client.conversations.rename(conversation.id, title)
        return client.conversations.get(conversation.id)

    return talk
