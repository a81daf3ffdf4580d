"""The audit log on the disk: sealed, rotated, shared by processes, whole after a crash."""

import fcntl
import os
import resource
import signal
import stat
from multiprocessing import get_context
from pathlib import Path

import pytest
from recollect_server.access.audit_file import NAME, AuditLog, read_audit

from tests.crash.load import connected, process

OF_THE_AUDIT = {"audit.half_written", "audit.rotated"}
"""Failpoints at which a test here kills the server."""


def numbers(data_dir: Path) -> list[int | None]:
    """Return the records of an audit log, by the numbers that tests gave them; None for damage."""
    return [None if it is None else it["n"] for _, _, it in read_audit(data_dir)]


def test_records_are_lines_that_only_the_owner_reads(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 1 << 20, 2)
    log.append({"n": 1}, {"n": 2})
    log.append({"n": 3}, durable=True)
    log.close()
    assert numbers(tmp_path) == [1, 2, 3]
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_a_changed_byte_is_damage_and_hides_no_other_record(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 1 << 20, 2)
    for n in range(3):
        log.append({"n": n})
    path = tmp_path / NAME
    path.write_bytes(path.read_bytes().replace(b'"n":1', b'"n":7'))
    assert numbers(tmp_path) == [0, None, 2]


def test_a_full_file_is_set_aside_and_the_oldest_are_removed(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 100, 2)
    for n in range(20):
        log.append({"n": n})  # 26 or 27 bytes each: four a file
    assert sorted(path.name for path in tmp_path.iterdir()) == [NAME, f"{NAME}.1", f"{NAME}.2"]
    assert numbers(tmp_path) == list(range(8, 20))


def test_without_older_files_only_the_newest_records_are_kept(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 100, 0)
    for n in range(6):
        log.append({"n": n})
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert numbers(tmp_path) == [4, 5]


def _write(data_dir: Path, first: int) -> None:
    log = AuditLog(data_dir, 1000, 1000)
    for n in range(first, first + 300):
        log.append({"n": n})


def test_processes_that_write_and_rotate_at_once_lose_no_record(tmp_path: Path) -> None:
    writers = [
        get_context("fork").Process(target=_write, args=(tmp_path, first)) for first in (0, 1000)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    read = numbers(tmp_path)
    assert None not in read
    for first in (0, 1000):
        own = [n for n in read if n is not None and first <= n < first + 1000]
        assert own == list(range(first, first + 300))


def test_a_torn_tail_is_ended_by_the_next_writer(tmp_path: Path) -> None:
    AuditLog(tmp_path, 1 << 20, 2).append({"n": 1})
    with (tmp_path / NAME).open("ab") as file:
        file.write(b'{"n":2,"cr')
    assert numbers(tmp_path) == [1]
    AuditLog(tmp_path, 1 << 20, 2).append({"n": 3})
    assert numbers(tmp_path) == [1, None, 3]


def test_a_disk_that_is_full_leaves_whole_records_and_takes_more_later(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, 1 << 20, 2)
    log.append({"n": 1})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        # ten bytes more fit: a part of the next record
        resource.setrlimit(
            resource.RLIMIT_FSIZE, ((tmp_path / NAME).stat().st_size + 10, before[1])
        )
        with pytest.raises(OSError, match=r"No space left|File too large"):
            log.append({"n": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert numbers(tmp_path) == [1]
    log.append({"n": 3})
    assert numbers(tmp_path) == [1, 3]


def test_a_writer_that_stands_still_with_the_lock_holds_up_nobody_for_long(
    tmp_path: Path,
) -> None:
    AuditLog(tmp_path, 1 << 20, 2).append({"n": 1})
    handle = os.open(tmp_path / NAME, os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    log = AuditLog(tmp_path, 1 << 20, 2, patience=0.01)
    with pytest.raises(OSError, match="another process holds its lock"):
        log.append({"n": 2})
    os.close(handle)
    log.append({"n": 3})
    assert numbers(tmp_path) == [1, 3]


@pytest.mark.parametrize("point", sorted(OF_THE_AUDIT))
def test_a_server_that_is_killed_while_it_writes_the_audit_leaves_every_earlier_record(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_AUDIT_BYTES", "4096")
    data = tmp_path / "data"
    data.mkdir()
    log = AuditLog(data, 4096, 4)
    for n in range(200):
        log.append({"n": n})
    if point == "audit.rotated":
        while (data / NAME).stat().st_size < 4096:
            log.append({"n": 200})
    before = [record for _, _, record in read_audit(data)]
    with process(data, point) as server:
        with connected(server.target) as service:
            conversation_id = service.create().id
            with pytest.raises(Exception, match="UNAVAILABLE"):
                service.delete(conversation_id)
        assert server.was_killed
    assert [record for _, _, record in read_audit(data)][: len(before)] == before
    AuditLog(data, 4096, 4).append({"n": 999})
    assert numbers(data)[-1] == 999
