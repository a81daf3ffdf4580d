"""An index has as many connections that read as there are reads at the same time."""

import sys
import threading
from pathlib import Path

import pytest
from recollect_server.kernel.index.index import Index
from recollect_server.run.features import FEATURES

from tests.server.conftest import at_once


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
def test_threads_share_the_connections_that_read(tmp_path: Path) -> None:
    index = Index(tmp_path, FEATURES.tables)
    for _ in range(5):
        thread = threading.Thread(target=index.log.last_cursor)
        thread.start()
        thread.join()
    assert _count(tmp_path) == 2  # the one that reads, and the writer
    inside = threading.Barrier(3)

    def read(_: int) -> int:
        with index.reading() as connection, index.reading() as same:
            assert connection is same
            inside.wait(30)
            return id(connection)

    assert len(set(at_once(3, read))) == 3
    index.close()


def _count(folder: Path) -> int:
    """Count how many times this process has the index file open."""
    path = str(folder / "conversations.db")
    files = Path("/proc/self/fd")
    return sum(str(it.readlink()) == path for it in files.iterdir() if it.exists())
