"""The disk itself: full, read-only, with a limit on files; and too few open files. The service goes
on without a restart.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from recollect_server.kernel.log.lines import messages_of

from tests.at_rest import lines_of
from tests.programs import SERVER, Forked, ran
from tests.server.conftest import Service, agent, code_of, failure_of, server_process, user
from tests.streaming.conftest import Subscriber
from tests.waiting import until


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """Mount a disk of this size."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def served(
    data_dir: Path, *flags: str, before: str = ""
) -> Iterator[tuple[Service, "Forked | subprocess.Popen[str]"]]:
    """Run a server as a process of its own; `before` is code that it runs first."""
    if not before:
        with server_process(data_dir, *flags) as (process, target):
            yield Service(target), process
        return
    code = f"import resource, signal, sys; {before}; from recollect_server.__main__ import main; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        str(data_dir),
        *flags,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Recollect listens on"), line
            yield Service(line.split()[3]), process
        finally:
            process.kill()


def refused(data_dir: Path) -> tuple[int, str, str]:
    """Run a server that does not start; return its exit status, its output and its errors."""
    return ran(SERVER, ["serve", "--listen", "127.0.0.1:0", "--data-dir", str(data_dir)])


def fill_up(folder: Path) -> Path:
    """Write a file until the disk is full, and return it."""
    path = folder / "ballast"
    with path.open("wb", buffering=0) as file:
        size = 1 << 16
        while size:
            try:
                file.write(b"x" * size)
            except OSError:
                size //= 2
    return path


def contents(folder: Path, conversation_id: str) -> list[str]:
    """Return the messages of a transcript, whose every line must be whole."""
    path = folder / "default/conversations" / f"{conversation_id}.jsonl"
    lines = lines_of(path)
    assert all(line.entry is not None for line in lines)
    assert lines[-1].end == path.stat().st_size
    return [it.content for it in messages_of(lines)]


def test_on_a_full_disk_what_was_acknowledged_is_read_and_its_cursor_delivered_or_reset(
    tmp_path: Path,
) -> None:
    """The transcript has room in its last block, and the index has none."""
    with (
        mounted(tmp_path / "disk", "8m") as disk,
        server_process(disk / "data") as (process, target),
    ):
        service = Service(target)
        name = service.conversation_of("zebra one", "zebra two")
        watcher = Subscriber(target).ready()
        ballast = fill_up(disk)
        cursor = ""
        for turn in range(3, 6):
            cursor = (
                service.append(
                    name, user(f"zebra {turn}"), agent("Noted."), request_id=f"turn-{turn}"
                ).cursor
                or cursor
            )
            loaded = service.load(name)
            assert (loaded.conversation.turn_count, loaded.messages[-2].content) == (
                turn,
                f"zebra {turn}",
            )
            assert service.get(name).turn_count == turn
            assert service.listed().conversations[0].turn_count == turn
            assert service.context(name).messages[-2].content == f"zebra {turn}"
            assert service.append(
                name, user(f"zebra {turn}"), agent("Noted."), request_id=f"turn-{turn}"
            ).duplicate
        fresh = Subscriber(target).ready()
        assert fresh.of("conversation_loaded")[0].messages[-2].content == "zebra 5"
        assert cursor
        ballast.unlink()
        watcher.until(lambda: any(it.cursor == cursor or it.reset for it in watcher.updates[2:]))
        resumed = Subscriber(target, cursor=cursor).ready()
        assert resumed.updates[0].reset
        assert resumed.of("conversation_loaded")[0].messages[-2].content == "zebra 5"
        for subscriber in (watcher, fresh, resumed):
            subscriber.close()
        process.terminate()
        assert process.wait(20) == 0


def test_a_full_disk_refuses_appends_answers_reads_and_takes_up_again_when_there_is_room(
    tmp_path: Path,
) -> None:
    with mounted(tmp_path / "disk", "8m") as disk, served(disk / "data") as (service, process):
        ids = [service.conversation_of("zebra one") for _ in range(3)]
        ballast = fill_up(disk)
        texts: dict[str, list[str]] = {name: ["zebra one"] for name in ids}
        refused = 0

        def append(name: str, turn: int) -> str:
            texts = (user(f"turn {turn} " + "x" * 3000), agent(f"answer {turn}"))
            return code_of(lambda: service.append(name, *texts, request_id=f"{name}-{turn}"))

        for turn in range(20):
            for name in ids:
                code = append(name, turn)
                assert code in ("OK", "UNAVAILABLE")
                refused += code != "OK"
                texts[name] += [f"turn {turn} " + "x" * 3000, f"answer {turn}"]
        assert refused > 0
        assert service.load(ids[0]).messages[0].content == "zebra one"
        assert code_of(service.create) in ("OK", "UNAVAILABLE")
        ballast.unlink()
        for turn in range(20):
            for name in ids:
                assert service.append(
                    name,
                    user(f"turn {turn} " + "x" * 3000),
                    agent(f"answer {turn}"),
                    request_id=f"{name}-{turn}",
                ).duplicate
        until(lambda: not service.search("zebra").degraded)
        assert set(service.found("zebra")) == set(ids)
        assert [contents(disk / "data", name) for name in ids] == [texts[name] for name in ids]
        process.terminate()
        assert process.wait(20) == 0
        with served(disk / "data") as (again, _):
            assert [again.get(name).message_count for name in ids] == [41] * 3


def test_a_disk_that_turns_read_only_refuses_writes_and_answers_reads(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "16m") as disk, served(disk / "data") as (service, _):
        name = service.conversation_of("zebra one", "zebra two")
        service.search("zebra")

        def remount(how: str) -> bool:
            # Open for writing, a file keeps its file system writable: the flag of the mount alone
            # is what an operator changes.
            return (
                subprocess.run(
                    ["mount", "-o", f"remount,bind,{how}", str(disk)],
                    capture_output=True,
                    check=False,
                ).returncode
                == 0
            )

        subprocess.run(["mount", "--bind", str(disk), str(disk)], check=True)
        if not remount("ro"):
            pytest.skip("no disk can be made read-only here")
        try:
            assert len(service.load(name).messages) == 2
            assert service.found("zebra") == [name]
            assert code_of(service.create) == "UNAVAILABLE"
        finally:
            assert remount("rw")
            subprocess.run(["umount", "--lazy", str(disk)], check=True)
        assert service.append(name, user("zebra three")).turn_number == 3


def test_a_limit_on_the_size_of_files_is_said_and_the_short_conversations_go_on(
    tmp_path: Path,
) -> None:
    before = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, 800_000))"
    with served(tmp_path / "data", before=before) as (service, process):
        long, short = service.conversation_of("one"), service.conversation_of("zebra")
        texts = ["one"]
        written = True
        while written:
            request = user(f"{len(texts)} " + "y" * 50_000)
            written = code_of(lambda request=request: service.append(long, request)) == "OK"  # type: ignore[misc]
            texts += [request.content] * written
        refused = failure_of(lambda: service.append(long, user("small"), request_id="small"))
        assert (refused.code, refused.reason) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE")
        assert service.append(short, user("goes on")).turn_number == 2
        assert contents(tmp_path / "data", long) == texts
        process.kill()
    with served(tmp_path / "data") as (again, _):
        assert again.get(long).message_count == len(texts)
        assert again.append(long, user("small"), request_id="small").duplicate is False
        assert again.found("zebra") == [short]


def test_more_active_conversations_than_open_files_are_all_served(tmp_path: Path) -> None:
    """With 128 open files, of which the server's own parts need some 60."""
    before = "resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))"
    with served(tmp_path / "data", "--log-level", "error", before=before) as (service, _):
        ids = [service.create().id for _ in range(600)]
        for turn in range(2):
            for name in ids:
                service.append(name, user(f"turn {turn}"), request_id=f"{name}-{turn}")
        assert {service.get(name).message_count for name in ids} == {2}
        assert code_of(lambda: service.search("turn")) == "OK"


def test_a_data_folder_that_cannot_be_written_is_named_at_the_start(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "1m") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        code, _, error = refused(disk / "data")
        assert code == 1
        assert error.startswith("Error: cannot use the data folder")


def test_a_disk_without_room_for_an_index_is_said_at_the_start_and_no_transcript_suffers(
    tmp_path: Path,
) -> None:
    with mounted(tmp_path / "disk", "4m") as disk:
        with served(disk / "data") as (service, process):
            name = service.conversation_of("zebra one")
            process.terminate()
            assert process.wait(20) == 0
        for path in (disk / "data/default/conversations").glob("conversations.db*"):
            path.unlink()
        ballast = fill_up(disk)
        code, _, error = refused(disk / "data")
        assert (code, "Traceback" in error) == (1, False)
        assert "Error: the space default cannot be opened: the index cannot be made" in error
        ballast.unlink()
        with served(disk / "data") as (again, _):
            assert again.found("zebra") == [name]
