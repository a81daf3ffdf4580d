"""A server that is killed while it stores, removes or deletes records: what was answered is there,
and every call is there whole or not at all.
"""

from pathlib import Path

import pytest
from recollect import CheckpointRecord, Client, RecollectError
from recollect_server.checkpoints.checkpoint import log_of

from tests.conftest import Start
from tests.crash.load import process
from tests.server_cli.conftest import run

POINTS = [
    "create.file_made", "create.half_written", "create.written", "create.synced", "append.begun",
    "append.half_written", "append.written", "append.written:2", "anchors.copied", "anchors.replaced",
    "checkpoints.removed", "delete.begun", "delete.renamed", "delete.durable", "delete.file_removed",
    "delete.file_gone",
]  # fmt: skip
OF_CHECKPOINTS = {"checkpoints.removed"}
"""The points that nothing but a thread reaches."""

Records = dict[str, bytes]

PUT: list[list[tuple[str, bytes]]] = [
    [("a", b"1" * 3000), ("b", b"2" * 3000)],
    [("a", b"3" * 3000), ("c", b"4"), ("d", b"5" * 9000)],
    [("e", b"6")],
]


def steps(client: Client) -> None:
    """Store, remove and delete."""
    for number, records in enumerate(PUT):
        client.checkpoints.put_records(
            "alex", [CheckpointRecord(*it) for it in records], request_id=f"r{number}"
        )
    client.checkpoints.remove_records("alex", ["b", "d"])
    client.checkpoints.delete_thread("alex")


def states() -> list[Records]:
    """Return the thread as it is behind each of the steps."""
    every: list[Records] = [{}]
    for records in PUT:
        every.append({**every[-1], **dict(records)})
    every.append({key: value for key, value in every[-1].items() if key not in "bd"})
    return [*every, {}]


@pytest.mark.parametrize("point", POINTS)
def test_a_server_that_is_killed_leaves_every_step_whole_or_undone(
    point: str, tmp_path: Path, start_server: Start
) -> None:
    data_dir = tmp_path / "killed"
    with process(data_dir, point) as server:
        with Client(server.target, retry=None) as client, pytest.raises(RecollectError):
            steps(client)
        assert server.was_killed
    running = start_server(data_dir=data_dir)
    folder = data_dir / "default" / "threads"
    with Client(running.target) as client:
        left = {it.key: it.value for it in client.checkpoints.list_records("alex").records}
        assert left in states()
        assert list(folder.glob("*.deleting")) == []
        if left:
            assert b"b" in (folder / f"{log_of('alex')}.jsonl").read_bytes()
        reached = states().index(left)
        if 0 < reached <= len(PUT):  # repeated, the steps that were done change nothing
            for number, records in enumerate(PUT[:reached]):
                sent = [CheckpointRecord(*it) for it in records]
                stored = client.checkpoints.put_records("alex", sent, request_id=f"r{number}")
                assert stored == 0
        steps(client)
        assert client.checkpoints.list_records("alex").records == ()
    running.stop()
    assert [path.name for path in folder.iterdir() if path.suffix != ".torn"] == []
    assert run("verify", "--data-dir", data_dir).exit_code == 0
