"""Promises of the folder of JSONL files beyond those of every log store."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.erase.erasing import finish_interrupted
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.store import (
    START,
    LogNotFound,
    LogUnavailable,
    Version,
    has_conversation,
    has_version,
    is_taken,
)
from recollect_server.kernel.space.conversation_logs import ConversationLogs


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


def test_a_log_that_never_had_anything_is_gone_when_it_is_recovered(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "conversations", sync=False)
    store.create()
    empty, cut_short = (store.path(f"conv-{number:026}") for number in range(2))
    empty.touch()
    cut_short.write_bytes(b'{"type":"conversation"')
    with pytest.raises(LogNotFound):
        store.recover(empty.stem)
    torn = store.recover(cut_short.stem)
    assert torn is not None
    assert list(store.logs(Kind.CONVERSATION)) == []
    assert list(store.logs(Kind.CONVERSATION, Version.TORN)) == [(cut_short.stem, torn.bytes_cut)]


def take_back(store: FolderStore, name: str) -> None:
    """Finish the redaction of a log that a crash kept unchanged, which asks no index."""
    nothing: Any = None
    finish_interrupted(
        ConversationLogs(store), nothing, nothing, name, 0, nothing, is_rebuilt=False
    )


def test_a_swap_that_a_crash_kept_from_changing_the_log_is_taken_back(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "conversations", sync=False)
    name = f"conv-{0:026}"
    store.append(name, START, [b"one\n"])
    path = store.path(name)
    path.with_name(path.name + ".redacting").hardlink_to(path)
    path.with_name(path.name + ".copy").write_bytes(b"xxx\nmore\n")
    torn = path.with_name(path.name + ".torn")
    torn.write_bytes(b"tw")
    assert list(store.logs(Kind.CONVERSATION, Version.REPLACED)) == [(name, 4)]
    take_back(store, name)
    # Where a file has one name, what it was is a copy, of which a crash leaves a part.
    path.with_name(path.name + ".redacting").write_bytes(b"on")
    take_back(store, name)
    assert {it.name for it in path.parent.iterdir()} == {path.name, torn.name}
    assert list(store.raw(name)) == [b"one"]


@pytest.mark.parametrize("suffix", ["", ".deleting", ".torn"])
@pytest.mark.parametrize(
    "make", [Path.touch, lambda path: path.symlink_to("nowhere")], ids=["empty", "link to nowhere"]
)
def test_a_name_is_taken_by_a_file_without_a_byte_and_by_a_link_that_leads_nowhere(
    tmp_path: Path, suffix: str, make: Callable[[Path], None]
) -> None:
    store = FolderStore(tmp_path / "conversations", sync=False)
    store.create()
    name = f"conv-{0:026}"
    assert not is_taken(store, name)
    path = store.path(name)
    make(path.with_name(path.name + suffix))
    assert is_taken(store, name)
    is_there = path.exists()
    assert has_conversation(store, name) == has_version(store, name, Version.PRESENT) == is_there


def test_a_ledger_is_no_conversation(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "conversations", sync=False)
    store.append("anchors", START, [b"one\n"])
    assert has_version(store, "anchors", Version.PRESENT)
    assert not has_conversation(store, "anchors")
