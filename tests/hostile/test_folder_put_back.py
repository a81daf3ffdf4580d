"""A copy of the data folder that is put back: no stream misses an update without a `reset`.

The copy has the identity of the index that it was made of, and goes on counting its cursors from
where it was. A cursor that was given out after the copy was made then names a change that it never
had.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MovableClock, RunningServer, Start
from tests.external.conftest import Meet, Watch, meet, watch
from tests.server.conftest import Service
from tests.streaming.conftest import Subscriber

__all__ = ["meet", "watch"]

PutBack = Callable[[Path, Path], None]


def in_a_new_folder(copy: Path, data: Path) -> None:
    shutil.rmtree(data)
    shutil.copytree(copy, data)


def over_what_is_there(copy: Path, data: Path) -> None:
    """Copy as `cp -a` does: every file keeps its inode."""
    for path in data.rglob("*"):
        if path.is_file() and not (copy / path.relative_to(data)).exists():
            path.unlink()
    shutil.copytree(copy, data, dirs_exist_ok=True)


def by_its_name(copy: Path, data: Path) -> None:
    shutil.rmtree(data)
    copy.rename(data)


PUT_BACK: list[PutBack] = [in_a_new_folder, over_what_is_there, by_its_name]


@pytest.mark.parametrize("put_back", PUT_BACK, ids=lambda it: it.__name__)
def test_a_subscriber_whose_cursor_is_of_after_the_copy_begins_again(
    put_back: PutBack, start_server: Start, tmp_path: Path, scale: int
) -> None:
    """Resume with a cursor that is beyond the restored log, before and after the log has grown past
    it.
    """
    running = start_server()
    service = Service(running.target)
    name = service.conversation_of("One")
    running.stop()
    shutil.copytree(running.data_dir, tmp_path / "copy")
    running = start_server()
    service = Service(running.target)
    for number in range(20 * scale):
        service.turn(name, f"lost {number}")
    one = Subscriber(running.target).ready()
    late = one.cursor
    one.close()
    running.stop()
    put_back(tmp_path / "copy", running.data_dir)

    running = start_server()
    assert not running.app.recovered.rebuilt
    ahead = Subscriber(running.target, cursor=late).ready()
    assert ahead.updates[0].reset
    service = Service(running.target)
    texts = [f"after {number}" for number in range(60 * scale)]
    for text in texts:
        service.turn(name, text)
    behind = Subscriber(running.target, cursor=late).ready()
    assert behind.updates[0].reset
    ahead.until(lambda: texts == [text for text in ahead.messages() if text != "Noted."])
    for subscriber in (ahead, behind):
        subscriber.close()


def test_a_panel_whose_cursor_is_of_after_the_copy_begins_again(
    start_server: Start, meet: Meet, watch: Watch, tmp_path: Path
) -> None:
    running = start_server()
    meet(running).write("One", delivered="1")
    running.stop()
    shutil.copytree(running.data_dir, tmp_path / "copy")
    running = start_server()
    for number in range(5):
        meet(running).write("Lost", delivered=f"lost {number}")
    late = watch(server=running).ready().cursor
    running.stop()
    over_what_is_there(tmp_path / "copy", running.data_dir)
    running = start_server()
    assert watch(late, running).ready().updates[0].reset
    for number in range(9):
        meet(running).write("After", delivered=f"after {number}")
    assert watch(late, running).ready().updates[0].reset


def test_a_folder_that_is_renamed_is_the_same_and_a_cursor_goes_on(
    start_server: Start, server: RunningServer, tmp_path: Path, clock: MovableClock
) -> None:
    service = Service(server.target)
    name = service.conversation_of("One")
    one = Subscriber(server.target).ready()
    cursor = one.cursor
    one.close()
    service.turn(name, "Two")
    server.stop()
    server.data_dir.rename(tmp_path / "elsewhere")
    running = start_server(data_dir=tmp_path / "elsewhere")
    again = Subscriber(running.target, cursor=cursor).ready()
    again.close()
    assert again.messages() == ["Two", "Noted."]
    assert not any(update.reset for update in again.updates)
