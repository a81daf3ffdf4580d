"""Promises of the folder of JSONL files beyond those of every log store."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.store import LogUnavailable


@pytest.mark.parametrize(
    "listing",
    [lambda store: list(store.logs(Kind.CONVERSATION)), lambda store: store.strays()],
    ids=["logs", "strays"],
)
def test_a_folder_that_cannot_be_listed_is_named(
    tmp_path: Path, listing: Callable[[FolderStore], object]
) -> None:
    (tmp_path / "conversations").write_text("a file in its place")
    store = FolderStore(tmp_path / "conversations", sync=False)
    with pytest.raises(LogUnavailable, match="the conversations cannot be listed: Not a"):
        listing(store)


def test_a_log_that_goes_while_its_folder_is_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path / "conversations", sync=False)
    store.create()
    stays, goes = (store.path(f"conv-{number:026}") for number in range(2))
    stays.write_bytes(b"12345")
    goes.touch()
    scan = os.scandir

    def after_a_delete(folder: Path) -> AbstractContextManager[list[os.DirEntry[str]]]:
        with scan(folder) as entries:
            listed = list(entries)
        goes.unlink()
        return nullcontext(listed)

    monkeypatch.setattr(os, "scandir", after_a_delete)
    assert list(store.logs(Kind.CONVERSATION)) == [(stays.stem, 5)]
