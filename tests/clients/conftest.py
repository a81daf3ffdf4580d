"""The clients in other languages, compiled, and driven from here: each by a program that does with
the client what a line of JSON says, and answers with a line.
"""

import fcntl
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import scripted
from tests.typescript.conftest import built, node

__all__ = ["scripted"]

GO = Path(__file__).parents[2] / "clients" / "go"
_CANNOT = 69  # exit code of `scripts/go` where go or its sources lack


@cache
def go_programs() -> Path:
    """Build the programs of the Go client, once for all processes that run tests; return their
    folder. Skip the test where there is no go.
    """
    folder = GO / "build" / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = go(
            "build", "-o", f"{folder}/", "./internal/driver", "./internal/conformance", "./example"
        )
    assert result.returncode == 0, result.stderr
    return folder


def go(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run go in the Go client's folder; skip the test where there is none."""
    command: list[str | Path] = [GO / "scripts" / "go", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if result.returncode == _CANNOT:
        pytest.skip(result.stderr.strip())
    return result


@dataclass(frozen=True)
class Language:
    """The programs of a client in one language, as commands."""

    driver: Sequence[str | Path]
    conformance: Sequence[str | Path]


def _typescript() -> Language:
    program = node()
    return Language((program, built() / "driver.js"), (program, built() / "conformance.js"))


def _go() -> Language:
    return Language((go_programs() / "driver",), (go_programs() / "conformance",))


@pytest.fixture(params=[_typescript, _go], ids=["typescript", "go"])
def language(request: pytest.FixtureRequest) -> Language:
    """Return a client's programs."""
    made: Language = request.param()
    return made


class Failed(AssertionError):
    """A call of the driven client failed."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(str(error))
        self.error = error


class Driver:
    """A process with a client, which does what the test says."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, **command: Any) -> None:
        """Send a command without waiting for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Return the next answer. Raises Failed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the driver ended with {self._process.wait()}"
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["answer"]

    def do(self, **command: Any) -> Any:
        """Send a command and return its answer. Raises Failed."""
        self.begin(**command)
        return self.answer()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def driver(language: Language) -> Iterator[Driver]:
    """Start a process with a client."""
    started = Driver(language.driver)
    yield started
    started.close()
