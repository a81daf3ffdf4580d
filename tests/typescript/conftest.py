"""The TypeScript client, compiled."""

import fcntl
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

NO_NETWORK = ("ENOTCACHED", "EAI_AGAIN", "ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT")
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
    """Compile the client with its tests, once for all processes that run tests, if it changed.

    Their types are checked by `.ci/typescript`, which takes most of the time of a compilation.
    """
    program = node()
    with Path(CLIENT / "node_modules" / ".building").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = CLIENT / "build" / "test"
        made = folder / ".made"
        sources = [*CLIENT.glob("*.json"), *CLIENT.glob("src/**/*.ts"), *CLIENT.glob("test/*.ts")]
        newest = max(source.stat().st_mtime_ns for source in sources)
        if made.exists() and made.stat().st_mtime_ns > newest:
            return folder
        compiler = CLIENT / "node_modules" / "typescript" / "bin" / "tsc"
        result = subprocess.run(
            [program, compiler, "--noCheck", "-p", CLIENT / "tsconfig.test.json"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stdout
        made.touch()
    return folder


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


def npm(*arguments: str | Path, cwd: Path) -> str:
    """Run npm, which must succeed, and return its output; skip where it finds no registry."""
    program = shutil.which("npm")
    if program is None:
        pytest.skip("there is no npm here")
    with Path(CLIENT / "node_modules" / ".packing").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # to pack the client makes its `dist` anew
        result = subprocess.run(
            [program, *arguments, "--no-audit", "--no-fund", "--fetch-retries=1"],
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
    if result.returncode and any(code in result.stderr for code in NO_NETWORK):
        pytest.skip("npm can fetch no packages here")
    assert result.returncode == 0, result.stderr
    return result.stdout
