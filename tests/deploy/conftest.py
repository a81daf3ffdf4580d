"""The files of `deploy/`, and the settings that they give to a server."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from recollect_server.run.settings import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"

Load = Callable[..., Settings]
"""Type of the fixture `load`."""


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Load:
    """Return the function that loads settings from an environment. It raises WrongSettings for a
    name that is none, and for a value that cannot be.
    """

    def load(environment: Mapping[str, str], file: Path | None = None) -> Settings:
        for name in [it for it in os.environ if it.startswith("RECOLLECT_")]:
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        return Settings.load(file, {})

    return load
