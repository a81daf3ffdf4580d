"""The TypeScript client, compiled, and driven from here."""

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import scripted

__all__ = ["scripted"]

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"


def node() -> str:
    """Return the path of node; skip the test where there is none."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("there is no node here")
    if not (CLIENT / "node_modules").exists():
        pytest.skip("npm ci was not done in clients/typescript")
    return program


@cache
def built() -> Path:
    """Compile the client with its tests, once for all processes that run tests, if it changed."""
    program = node()
    with Path(CLIENT / "node_modules" / ".building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        compiler = CLIENT / "node_modules" / "typescript" / "bin" / "tsc"
        result = subprocess.run(
            [program, compiler, "-p", CLIENT / "tsconfig.test.json"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert result.returncode == 0, result.stdout
    return CLIENT / "build" / "test"


def ran(*arguments: str | Path, cwd: Path = CLIENT, **environment: str) -> str:
    """Run a program with node, which must succeed, and return its output."""
    result = subprocess.run(
        [node(), *arguments],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr
    return result.stdout


class Failed(AssertionError):
    """A call of the driven client failed."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(str(error))
        self.error = error


class Driver:
    """A process with the TypeScript client, which does what the test says."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [node(), built() / "driver.js"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
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
        assert line, f"the driver ended with {self._process.wait(10)}"
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
def driver() -> Iterator[Driver]:
    """Start a process with the TypeScript client."""
    started = Driver()
    yield started
    started.close()
