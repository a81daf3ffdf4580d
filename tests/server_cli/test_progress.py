"""Progress of long work: as services report it, and as a person sees it."""

import itertools
from pathlib import Path

import pytest
from recollect import Client, Message
from recollect_server.backup.folder import back_up
from recollect_server.backup.manifest import read_manifest
from recollect_server.backup.restoring import restore
from recollect_server.kernel.compare.recovery import rebuild, recover
from recollect_server.kernel.compare.verification import verify
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.run.commands.folder import shown
from recollect_server.run.features import FEATURES

from tests.conftest import RunningServer


class Reports:
    """Remembers what was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, done: int, of: int) -> None:
        self.calls.append((done, of))

    def take(self) -> list[tuple[int, int]]:
        taken, self.calls = self.calls, []
        return taken


def test_each_long_work_tells_of_every_conversation(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    for _ in range(3):
        client.conversations.append_turn(
            client.conversations.create("web").id, [Message.user("zebra")]
        )
    server.stop()
    folder = FolderStore(server.folder)
    each = [(0, 3), (1, 3), (2, 3)]
    reports = Reports()
    rebuild(folder, FEATURES, system_clock, reports).index.close()
    assert reports.take() == [*each, (3, 3)]
    recover(folder, FEATURES, system_clock, reports).index.close()
    assert reports.take() == [(0, 0)], "nothing was left to do"
    (server.folder / "conversations.db").unlink()
    recover(folder, FEATURES, system_clock, reports).index.close()
    assert reports.take() == [*each, (3, 3)]
    assert verify(folder, FEATURES, reports).problems == []
    assert reports.take() == each
    back_up({"default": folder}, tmp_path / "backup", reports)
    assert reports.take() == each
    backup = read_manifest(tmp_path / "backup").spaces["default"]
    restore(backup, FolderStore.of(tmp_path / "new", "default"), reports)
    assert reports.take() == each


def test_a_person_is_shown_it_after_a_second_then_every_second_and_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seconds = itertools.count(step=0.4)
    show = shown("Verifying", lambda: next(seconds))
    for done in range(8):
        show(done, 7)
    assert capsys.readouterr().err.splitlines() == [
        "Verifying: 3 of 7 conversations",
        "Verifying: 6 of 7 conversations",
        "Verifying: 7 of 7 conversations",
    ]


def test_of_a_work_that_is_done_within_a_second_nothing_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seconds = itertools.count(step=0.1)
    show = shown("Verifying", lambda: next(seconds))
    for done in range(5):
        show(done, 4)
    assert capsys.readouterr().err == ""
