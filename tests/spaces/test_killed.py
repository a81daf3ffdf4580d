"""Servers of many spaces that are killed: each space is held against its own history, as
`tests.crash` holds the only one. Few have their files open, so that most appends go to spaces at
rest.
"""

import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from tests.crash.checker import check, check_index, repeat
from tests.crash.history import History
from tests.crash.load import Callers
from tests.programs import Forked
from tests.spaces import few_awake
from tests.spaces.conftest import Enter
from tests.waiting import until

SPACES = [f"space-{number}" for number in range(5)]
ROUNDS = 3
MOST_OPEN = 4


def are_answered(histories: dict[str, History], least: int) -> bool:
    """Return whether so many calls were answered."""
    return acknowledged_by(histories) >= least


def acknowledged_by(histories: dict[str, History]) -> int:
    """Return the number of calls that were answered."""
    return sum(call.answered for history in histories.values() for call in history.calls())


@pytest.mark.timeout(300)
def test_spaces_at_rest_lose_nothing_and_double_nothing_when_the_server_is_killed(
    real_disk_path: Path, enter: Enter
) -> None:
    data = real_disk_path / "data"
    rng = random.Random(1)  # noqa: S311 - a test's numbers
    histories = {space: History() for space in SPACES}
    since = dict.fromkeys(SPACES, 0)
    for left in range(ROUNDS, -1, -1):
        with Forked(few_awake.__name__, [str(data), str(MOST_OPEN)]) as server:
            assert server.stdout is not None
            target = server.stdout.readline().split()[3]
            services = {space: enter(target, space) for space in SPACES}
            for space, service in services.items():
                history, folder = histories[space], data / space / "conversations"
                first = since[space] if left else 0
                before = check(history, service, folder, first)
                wrong = repeat(history, service, first)
                for verdict in (before, check(history, service, folder, first)):
                    assert (verdict.lost, verdict.duplicated, verdict.wrong) == ([], [], [])
                assert wrong == []
                since[space] = len(history.calls())
            if not left:
                server.terminate()
                server.wait()
                break
            with ThreadPoolExecutor(len(SPACES)) as pool:
                for space in SPACES:
                    callers = Callers(histories[space], services[space], left)
                    pool.submit(callers.run, 10_000, 1)
                many = acknowledged_by(histories) + rng.randint(20, 150)
                until(partial(are_answered, histories, many))
                server.kill()
    for space in SPACES:
        assert check_index(data / space / "conversations", real_disk_path / f"anew {space}") == []
