"""Promises of the folder of JSONL files beyond those of every log store."""

from collections.abc import Callable
from pathlib import Path

import pytest
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.store import LogUnavailable


@pytest.mark.parametrize(
    "listing",
    [lambda store: list(store.logs(Kind.CONVERSATION)), lambda store: store.deleted()],
    ids=["logs", "deleted"],
)
def test_a_folder_that_cannot_be_listed_is_named(
    tmp_path: Path, listing: Callable[[FolderStore], object]
) -> None:
    (tmp_path / "conversations").write_text("a file in its place")
    store = FolderStore(tmp_path / "conversations", sync=False)
    with pytest.raises(LogUnavailable, match="the conversations cannot be listed: Not a"):
        listing(store)
