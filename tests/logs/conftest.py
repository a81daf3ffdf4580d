"""Every log store, empty. A second implementation joins the list, and must pass what the first
passes.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.store import LogStore

Open = Callable[[], LogStore]
"""Opens the same logs, as another process would."""

STORES: dict[str, Callable[[Path], LogStore]] = {
    "folder": lambda folder: FolderStore(folder / "conversations", sync=False)
}


@pytest.fixture(params=STORES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    return lambda: STORES[request.param](tmp_path)


@pytest.fixture
def store(open_store: Open) -> LogStore:
    return open_store()
