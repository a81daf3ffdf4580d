"""The server's tests' service, and a disk that refuses what a test names."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import connect, service

__all__ = ["Disk", "connect", "disk", "service"]


@dataclass
class Disk:
    """Refuses system calls on files whose path ends as said, until `restore` is called."""

    refused: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """By the call's name: the error, how often, and how many bytes a write takes before it."""
    suffix: str = ".jsonl"
    tried: list[str] = field(default_factory=list)
    """Which calls were refused, in order."""

    def refuse(
        self, *calls: str, error: int = errno.EIO, times: int = 1 << 30, after_bytes: int = 0
    ) -> None:
        for call in calls:
            self.refused[call] = (error, times, after_bytes if call == "pwrite" else 0)

    def restore(self) -> None:
        self.refused.clear()

    def check(self, call: str, path: str) -> int | None:
        """Raise if the call is refused; return the number of bytes that it may write before."""
        error, times, after_bytes = self.refused.get(call, (0, 0, 0))
        if times == 0 or not path.endswith((self.suffix, f"{self.suffix}.copy")):
            return None
        if after_bytes:
            self.refused[call] = (error, times, 0)
            return after_bytes
        self.refused[call] = (error, times - 1, 0)
        self.tried.append(call)
        raise OSError(error, os.strerror(error))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Put a disk that may refuse below the servers of this process."""
    refusing = Disk()

    def path_of(file: Any) -> str:
        return str(Path(f"/proc/self/fd/{file}").readlink()) if isinstance(file, int) else str(file)

    def wrapped(call: str) -> Callable[..., Any]:
        real: Callable[..., Any] = getattr(os, call)

        def run(file: Any, *values: Any, **named: Any) -> Any:
            if refusing.refused and not (
                call == "open" and values[0] & os.O_ACCMODE == os.O_RDONLY
            ):
                taken = refusing.check(call, path_of(file))
                if taken:
                    return real(file, bytes(values[0])[:taken], *values[1:])
            return real(file, *values, **named)

        return run

    for call in ("pwrite", "ftruncate", "fsync", "rename", "open"):
        monkeypatch.setattr(os, call, wrapped(call))
    yield refusing
    refusing.restore()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library that a program preloads so that chosen system calls fail."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler: cc")
    path = tmp_path_factory.mktemp("library") / "failing_io.so"
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-o",
        str(path),
        str(Path(__file__).with_name("failing_io.c")),
        "-ldl",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return path
