"""PostgreSQL whose disk is full: appends are refused or held with its reason, reads go on, and all
is well by itself once there is room. Where its write-ahead log has no room it serves nobody until
it is started again, and nothing that was acknowledged is lost.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import grpc
import psycopg
import pytest

from tests.conftest import Start
from tests.crash.checker import check, repeat
from tests.database.load import Load
from tests.postgres import Postgres, copy_transcripts, running
from tests.server.conftest import Connect, failure_in, failure_of, user
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


def move_log(server: Postgres, place: Path) -> None:
    """Stop a PostgreSQL, and start it with its write-ahead log in a folder of `place`."""
    server.stop()
    wal, log = place / "wal", server.data / "pg_wal"
    shutil.copytree(log, wal)
    for path in (wal, *wal.rglob("*")):
        os.chown(path, server.data.stat().st_uid, -1)
    wal.chmod(0o700)
    shutil.rmtree(log)
    log.symlink_to(wal)
    server.start()


@pytest.fixture
def small(small_disk: Path) -> Iterator[Postgres]:
    """Start a PostgreSQL with its tables on the small disk, and its write-ahead log elsewhere."""
    with running(small_disk) as server, tempfile.TemporaryDirectory() as beside:
        Path(beside).chmod(0o755)
        move_log(server, Path(beside))
        yield server
        server.stop()


def fill(disk: Path) -> Path:
    """Fill a disk by one file."""
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
    return filler


@pytest.mark.timeout(180)
def test_a_full_disk_refuses_appends_with_its_reason_until_there_is_room(
    small: Postgres, small_disk: Path, start_server: Start, connect: Connect, no_log: None
) -> None:
    url = small.new_database()
    service = connect(start_server(store=url))
    conversation_id, other = service.conversation_of("zebra"), service.conversation_of("other")
    filler = fill(small_disk)
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


@pytest.mark.timeout(180)
def test_a_full_disk_of_the_write_ahead_log_stops_postgresql_and_loses_nothing(
    small_disk: Path, start_server: Start, connect: Connect, tmp_path: Path, no_log: None
) -> None:
    with running() as postgres, ThreadPoolExecutor() as pool:
        move_log(postgres, small_disk)
        url = postgres.new_database()
        service = connect(start_server(store=url))
        read = service.conversation_of("zebra")
        load = Load([service], pace=0.02)
        callers = [pool.submit(load.run, number) for number in range(2)]
        try:
            load.until_answered(20)
            filler = fill(small_disk)
            with suppress(psycopg.Error):
                while True:  # its next segments find no room
                    postgres.execute(
                        "SELECT pg_logical_emit_message(true, 'x', 'x'), pg_switch_wal()"
                    )
            until(lambda: load.refusals)
            refused = failure_of(lambda: service.append(read, user("one"), request_id="r1"))
            assert (refused.code, refused.reason) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE")
            assert ": PostgreSQL" in refused.text
            assert read in {it.id for it in service.pages()[0]}
            assert service.search("zebra").degraded
            assert "No space left on device" in (postgres.folder / "log").read_text()
            filler.unlink()
            # PostgreSQL 18 may wait for ever, without serving, once its recovery found no room.
            postgres.stop()
            postgres.start()
            load.until_answered(20)
        finally:
            load.end()
        for caller in callers:
            caller.result()
        assert service.append(read, user("one"), request_id="r1").messages
        assert [it.content for it in service.load(read).messages] == ["zebra", "one"]
        assert repeat(load.history, service) == []
        for call in load.history.calls():
            call.cursor = ""
        copy_transcripts(url, tmp_path / "copied")
        assert check(load.history, service, tmp_path / "copied").problems == []
