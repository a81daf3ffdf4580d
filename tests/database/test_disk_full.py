"""PostgreSQL whose disk is full: appends are refused or held with its reason, reads go on, and all
is well by itself once there is room.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from tests.conftest import Start
from tests.postgres import Postgres, running
from tests.server.conftest import Connect, failure_in, user
from tests.waiting import until

SIZE = 160 << 20


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Mount a small disk, which is in memory."""
    folder = Path(tempfile.mkdtemp(prefix="recollect-disk-"))
    folder.chmod(0o755)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=755", "tmpfs", str(folder)]
    try:
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("a small disk cannot be mounted here: that needs root")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        folder.rmdir()


@pytest.fixture
def small(small_disk: Path) -> Iterator[Postgres]:
    """Start a PostgreSQL with its tables on the small disk, and its write-ahead log elsewhere: it
    stops, as it must, where that cannot grow.
    """
    with running(small_disk) as server, tempfile.TemporaryDirectory() as beside:
        server.stop()
        Path(beside).chmod(0o755)
        wal, log = Path(beside) / "wal", server.data / "pg_wal"
        shutil.copytree(log, wal)
        for path in (wal, *wal.rglob("*")):
            os.chown(path, server.data.stat().st_uid, -1)
        wal.chmod(0o700)
        shutil.rmtree(log)
        log.symlink_to(wal)
        server.start()
        yield server
        server.stop()


@pytest.mark.timeout(180)
def test_a_full_disk_refuses_appends_with_its_reason_until_there_is_room(
    small: Postgres, small_disk: Path, start_server: Start, connect: Connect, no_log: None
) -> None:
    url = small.new_database()
    service = connect(start_server(store=url))
    conversation_id, other = service.told("zebra"), service.told("other")
    filler = small_disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
    texts = ["zebra"]
    refused = None
    for number in range(40):
        text = f"{number} {os.urandom(150_000).hex()}"  # which nothing compresses much
        texts.append(text)
        try:
            service.append(conversation_id, user(text), request_id=f"r{number}")
        except grpc.RpcError as error:
            refused = failure_in(error)
            break
    assert refused is not None
    assert (refused.code, refused.reason) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE")
    assert "No space left on device" in refused.text, refused.text
    # Reads go on, of the logs too.
    assert service.found("zebra") == [conversation_id]
    assert service.load(other).messages[0].content == "other"
    assert {it.id for it in service.pages()[0]} == {conversation_id, other}
    filler.unlink()

    def is_stored() -> bool:
        with suppress(grpc.RpcError):
            service.append(conversation_id, user(text), request_id=f"r{number}")
            return True
        return False

    until(is_stored)
    for at in range(number + 1):
        repeated = service.append(conversation_id, user(texts[at + 1]), request_id=f"r{at}")
        assert repeated.duplicate
    loaded = service.load(conversation_id, max_turns=1000, max_tokens=1 << 30).messages
    assert [it.content for it in loaded] == texts
