"""Power failures at random: what was synced is there, of the rest any part.

`python -m bench.crash --power-loss 10000` does more.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from recollect_server.kernel.log.repair import make_durable

from tests.cases import each
from tests.crash.disk import Disk
from tests.crash.history import Call
from tests.crash.power import FOLDER, Life, memory_folder, note, power_losses

LOSSES = {13: 300, 2: 100}
"""Power failures by seed: so many that each sync that is left out below would be noticed."""

pytestmark = pytest.mark.timeout(600)  # a start for each loss


@pytest.mark.parametrize("seed", LOSSES)  # apart, so that no worker is left with all of them
def test_after_a_power_failure_all_that_was_acknowledged_is_there_once_and_whole(seed: int) -> None:
    with memory_folder() as folder:
        assert list(power_losses(folder, LOSSES[seed], seed)) == []


def test_what_was_cut_off_a_deleted_transcript_never_outlives_it() -> None:
    with memory_folder() as folder:
        disk = Disk(folder / "run")
        disk.root.mkdir()
        with disk.recording():
            life = Life(disk.root)
            call = Call("create", "r1")
            note(call, life.send(call))
            life.end()
            tail = os.open(
                disk.root / FOLDER / f"{call.conversation_id}.jsonl", os.O_WRONLY | os.O_DSYNC
            )
            os.pwrite(tail, b"half a line", os.fstat(tail).st_size)
            os.close(tail)
            life = Life(disk.root)
            before = len(disk.steps)
            life.send(Call("delete", "r2", call.conversation_id))
            life.end()
        assert any(step.name.endswith(".torn") for step in disk.steps[:before])
        for number in range(100):
            state = folder / str(number)
            state.mkdir()
            disk.after_power_loss(
                before + number % (len(disk.steps) - before),
                random.Random(number),  # noqa: S311
                state,
            )
            Life(state).end()
            left = {path.suffix for path in (state / FOLDER).glob("conv-*")}
            assert left in (set(), {".jsonl", ".torn"})


def nothing(*_: object) -> None:
    """Leave a sync out."""


def only_synced(path: Path, _start: int, end: int) -> None:
    """Sync the present bytes instead of writing them once more."""
    make_durable(path, end, end)


@each(
    ("sync", "instead", "seed"),
    [
        ("recollect_server.kernel.log.writer.sync_folder", nothing, 13),
        ("recollect_server.kernel.log.folder.FolderStore._settle", nothing, 1003),
        ("recollect_server.kernel.log.repair.make_durable", nothing, 401),
        ("recollect_server.kernel.log.repair.make_durable", only_synced, 206),
        ("recollect_server.kernel.log.folder.sync_folder", nothing, 22),
        ("os.O_DSYNC", 0, 21),
    ],
)
def test_a_sync_that_is_left_out_would_be_noticed(
    sync: str, instead: int | Callable[..., None], seed: int
) -> None:
    with memory_folder() as folder, mock.patch(sync, instead):
        # The first one is enough. With another seed a few hundred power failures may go by before
        # it.
        assert next(power_losses(folder, 10_000, seed=seed), "") != ""
