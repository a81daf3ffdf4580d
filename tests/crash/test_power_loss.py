"""Power failures at random: what was synced is there, of the rest any part.

`python -m bench.crash --power-loss 10000` does more.
"""

from collections.abc import Callable
from unittest import mock

import pytest

from tests.crash.power import memory_folder, power_losses

LOSSES = 1000


def test_after_a_power_failure_all_that_was_acknowledged_is_there_once_and_whole() -> None:
    with memory_folder() as folder:
        assert list(power_losses(folder, LOSSES, seed=1)) == []


def nothing(*_: object) -> None:
    """A sync that is left out."""


@pytest.mark.parametrize(
    ("sync", "instead"),
    [
        ("recollect_server.storage.transcript.writer.sync_folder", nothing),
        ("recollect_server.storage.transcript.files.TranscriptFolder.settle", nothing),
        ("recollect_server.services.catching_up.sync_file", nothing),
        ("recollect_server.services.deletion.sync_folder", nothing),
        ("os.O_DSYNC", 0),
    ],
)
def test_a_sync_that_is_left_out_would_be_noticed(sync: str, instead: int | Callable[..., None]) -> None:
    with memory_folder() as folder, mock.patch(sync, instead):
        assert next(power_losses(folder, LOSSES, seed=3), "") != ""
