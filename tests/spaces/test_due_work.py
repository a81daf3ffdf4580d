"""The queue of closed spaces with work due."""

import time
from pathlib import Path
from typing import Any

import pytest
from recollect import Client
from recollect_server.admin.due import DueMarkers
from recollect_server.kernel.space.spaces import Lease
from recollect_server.run.jobs.due_work import DueKeeper, DueWork

from tests.conftest import MovableClock, RunningServer, Start
from tests.waiting import until

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


def test_a_space_that_is_due_again_while_it_is_opened_is_held_once(
    server: RunningServer, clock: MovableClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(server.target, space="ada") as client:
        client.conversations.create("web")
    spaces = server.app.spaces

    def is_closed() -> bool:
        spaces.evict("ada")
        return "ada" not in spaces.names()

    until(is_closed)
    due = DueWork(DueMarkers(tmp_path), "default")
    leases: list[Lease[Any] | None] = []
    use = spaces.use_behind

    def use_behind(name: str) -> Lease[Any] | None:
        leases.append(use(name))
        if len(leases) == 1:
            due.request(name, clock())  # as another server asks for it
        return leases[-1]

    monkeypatch.setattr(spaces, "use_behind", use_behind)
    due.request("ada", clock())
    keeper = DueKeeper(spaces, due, clock)
    until(lambda: leases)
    keeper.stop()  # after its round, in which the space was due again
    until(is_closed)
    assert len(leases) == 1


class CountedWork(DueWork):
    """Due times, with the times at which a space was put back."""

    def __init__(self, folder: Path) -> None:
        super().__init__(DueMarkers(folder), "default")
        self.postponed: list[float] = []

    def postpone(self, space: str, due: int) -> None:
        super().postpone(space, due)
        self.postponed.append(time.monotonic())


def test_a_space_that_finds_no_place_is_tried_again_after_a_pause(
    start_server: Start, tmp_path: Path
) -> None:
    server = start_server(max_open_spaces=1)
    with Client(server.target, space="ada") as client:
        client.conversations.create("web")
    due = CountedWork(tmp_path / "due")
    with server.app.spaces.use("default"):
        due.request("ada", server.clock())
        keeper = DueKeeper(server.app.spaces, due, server.clock)
        until(lambda: len(due.postponed) >= 3)
        keeper.stop()
    assert due.postponed[2] - due.postponed[0] >= 0.9
