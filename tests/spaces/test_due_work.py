"""The queue of closed spaces with work due."""

from pathlib import Path

from recollect_server.jobs.due_work import DueWork
from recollect_server.storage.due import DueMarkers

WEEK = 7 * 86_400_000


def test_a_space_that_opens_and_closes_for_ever_takes_no_more_memory(tmp_path: Path) -> None:
    due = DueWork(DueMarkers(tmp_path), "default")
    for now in range(2_000):
        for space in ("alex", "kim"):
            due.opened(space, now)
            due.closed(space, now + WEEK)
    assert len(due) < 200
    assert due.take(1_998 + WEEK) is None
    assert [due.take(1_999 + WEEK) for _ in range(3)] == ["alex", "kim", None]
