"""Benchmarks on a tiny size: their processes are forked, for nobody reads these figures."""

import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Any

import pytest

from bench import figures
from bench import servers as bench_servers
from tests.programs import SERVER, Forked

_OWN_PROCESS = "soak"
"""The one benchmark that runs in a process of its own, as all do outside the tests."""


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
