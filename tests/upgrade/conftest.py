"""Sources of earlier versions, from the history of this repository."""

import io
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.upgrade_fixture import unpack

ROOT = Path(__file__).parents[2]

Sources = Callable[[str], Path]


@pytest.fixture
def sources_of(tmp_path: Path) -> Sources:
    """Return a function from a commit to a folder with its server and client."""

    def extract(commit: str) -> Path:
        archive = subprocess.run(
            ["git", "archive", commit, "server/src", "client/src"],
            check=False,
            cwd=ROOT,
            capture_output=True,
        )
        if archive.returncode:
            pytest.skip(f"the history has no commit {commit}, as in a copy without it")
        folder = tmp_path / "earlier"
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            unpack(files, folder)
        return folder

    return extract
