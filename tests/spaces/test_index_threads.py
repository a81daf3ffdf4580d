"""One thread writes the indexes of all spaces, and no space waits for the disk of another."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import apsw
from recollect_server.kernel.index.index import Index
from recollect_server.run.features import FEATURES

from tests.conftest import RunningServer
from tests.spaces.conftest import Enter
from tests.waiting import until


def threads() -> int:
    """Return the number of threads that write indexes."""
    return sum(thread.name == "index" for thread in threading.enumerate())


@contextmanager
def hanging(index: Index) -> Iterator[None]:
    """Have the index be written to as long as the block lasts, as on a disk that hangs."""
    beginning, end = threading.Event(), threading.Event()

    def work(_: apsw.Connection, __: int) -> None:
        beginning.set()
        end.wait(60)

    writer = threading.Thread(target=index.write, args=(work,))
    writer.start()
    assert beginning.wait(60)
    try:
        yield
    finally:
        end.set()
        writer.join()


def test_open_spaces_at_rest_share_one_thread(server: RunningServer, enter: Enter) -> None:
    for number in range(12):
        enter(server.target, f"space-{number}").conversation_of("Words")
    assert len(server.app.spaces.names()) == 13
    until(lambda: threads() == 1)


def test_indexes_that_hang_hold_up_no_other(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(6)]
    for folder in folders:
        folder.mkdir()
    *stuck, free = (Index(it, FEATURES.tables) for it in folders)
    with ExitStack() as stack:
        for index in stuck:
            stack.enter_context(hanging(index))
        assert free.write(lambda connection, _: connection.execute("SELECT 1").get) == 1
    for index in (*stuck, free):
        index.close()


def test_threads_that_are_not_needed_end(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(4)]
    for folder in folders:
        folder.mkdir()
    indexes = [Index(it, FEATURES.tables) for it in folders]
    with ExitStack() as stack:
        for index in indexes:
            stack.enter_context(hanging(index))
        assert threads() >= len(indexes)
    until(lambda: threads() == 1)
    for index in indexes:
        index.close()
