"""A server for a folder: shared by processes, and gone with the last of them, however it ends."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import recollect
from mcp import Client as McpClient
from mcp import StdioServerParameters
from recollect import Message, Unavailable

from tests.conftest import Start
from tests.mcp.conftest import COMMAND
from tests.waiting import until

PROGRAM = """
import sys, recollect
client = recollect.embedded(sys.argv[1])
it = client.conversations.create("web", messages=[recollect.Message.user(sys.argv[2])])
print(it.id, flush=True)
sys.stdin.read()
print(len(list(client.conversations.list())), flush=True)
"""

Program = subprocess.Popen[str]


def is_served(folder: Path) -> bool:
    """Return whether a server has the lock of a folder."""
    with (folder / "recollect.lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def servers(folder: Path) -> list[int]:
    """Return the processes that serve a folder."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,args="], capture_output=True, text=True, check=True
    )
    lines = (line.split(maxsplit=1) for line in listed.stdout.splitlines())
    needle = f"serve --data-dir {folder} "
    return [int(pid) for pid, arguments in lines if needle in arguments]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "notes"
    for pid in servers(tmp_path / "notes"):  # of a test that failed
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def program(folder: Path) -> Iterator[Callable[[str], Program]]:
    """Return a function that starts a client process, which ends with its input."""
    started: list[Program] = []

    def start(text: str) -> Program:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_processes_that_begin_at_once_share_one_server_which_ends_with_the_last(
    folder: Path, program: Callable[[str], Program]
) -> None:
    processes = [program(f"from {number}") for number in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("conv-")
    [server] = servers(folder)
    first, *others, last = processes
    assert first.communicate()[0] == "4\n"
    for process in others:
        process.kill()
        process.wait()
    assert servers(folder) == [server]
    assert last.communicate()[0] == "4\n"
    until(lambda: not servers(folder))
    assert not is_served(folder)
    with recollect.embedded(folder) as client:
        assert len(list(client.conversations.list())) == 4
    until(lambda: not servers(folder))
    assert not (folder / ".embedded" / "socket").exists()


def test_a_client_that_is_killed_leaves_no_server_and_loses_nothing(
    folder: Path, program: Callable[[str], Program]
) -> None:
    process = program("the last words")
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    assert servers(folder)
    process.kill()
    until(lambda: not servers(folder))
    with recollect.embedded(folder) as client:
        [message] = client.conversations.load(name).messages
    assert message.content == "the last words"


def test_a_start_that_is_cancelled_leaves_no_server(folder: Path) -> None:
    async def cancelled() -> None:
        starting = asyncio.create_task(recollect.embedded_async(folder))
        while not servers(folder):
            await asyncio.to_thread(servers, folder)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(cancelled())
    until(lambda: not servers(folder))


def test_only_its_owner_may_enter_the_folder_and_the_socket(folder: Path) -> None:
    with recollect.embedded(folder):
        assert [path.stat().st_mode & 0o777 for path in (folder, folder / ".embedded")] == [
            0o700
        ] * 2
        assert (folder / ".embedded" / "socket").stat().st_mode & 0o777 == 0o600


def test_a_server_that_is_killed_is_started_again_by_the_next_client_for_all(folder: Path) -> None:
    with recollect.embedded(folder) as first:
        first.conversations.create("web")
        [server] = servers(folder)
        os.kill(server, signal.SIGKILL)
        until(lambda: not is_served(folder))
        with recollect.embedded(folder) as second:
            second.conversations.create("web")
            assert len(list(first.conversations.list())) == 2


def test_a_server_that_runs_already_is_called_where_it_listens_and_left_running(
    start_server: Start, folder: Path
) -> None:
    server = start_server(data_dir=folder)
    with recollect.embedded(folder) as client:
        client.conversations.create("web")
        assert servers(folder) == []
    with recollect.Client(server.target) as direct:
        assert len(list(direct.conversations.list())) == 1
    server.stop()
    assert (folder / "recollect.lock").read_bytes() == b""


async def test_tasks_use_it_too_and_a_path_may_be_long(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    async with await recollect.embedded_async(folder) as client:
        it = await client.conversations.create("web", messages=[Message.user("hi")])
        async with await recollect.embedded_async(folder, timeout=5) as another:
            assert (await another.conversations.get(it.id)).message_count == 1
    until(lambda: not servers(folder))


def test_what_keeps_it_from_starting_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RECOLLECT_THREADS", "many")
    with pytest.raises(Unavailable, match=rf"started on {folder}: .*threads"):
        recollect.embedded(folder)
    monkeypatch.delenv("RECOLLECT_THREADS")
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        recollect.embedded(tmp_path / "file")
    monkeypatch.setitem(sys.modules, "recollect_server", None)
    with pytest.raises(Unavailable, match="needs the package recollect-server: install it"):
        recollect.embedded(folder)
    assert servers(folder) == []


async def test_the_mcp_bridge_needs_no_running_server(folder: Path) -> None:
    with recollect.embedded(folder) as client:
        client.conversations.create("web", messages=[Message.user("the disk is full")])
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[*COMMAND, "--embedded", str(folder)],
        env={"PATH": os.environ["PATH"], "RECOLLECT_EMBEDDER": "off"},
    )
    async with McpClient(parameters) as connected:
        answer = await connected.call_tool("search_conversations", {"query": "disk"})
        assert not answer.is_error
        assert answer.structured_content is not None
        assert len(answer.structured_content["results"]) == 1
    until(lambda: not servers(folder))
