"""The walks of five calls: how many calls and files of the server a reader of each goes through."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import recollect_server
import structlog
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect_server.kernel.domain.ids import new_ulid
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.conftest import LOOPBACK
from tests.server.conftest import Service, agent, user

SOURCE = str(Path(recollect_server.__file__).parent)
WRITER = "/kernel/index/writer.py"
"""Module whose `write` has the thread of the index do a job, and waits for it."""
CONVERSATIONS = 20
QUESTION = "Which disk is full?"
MOST = {
    "append": (154, 43),
    "search": (1977, 63),
    "context": (4347, 67),
    "load": (122, 37),
    "delete": (385, 65),
}
"""Calls and files of each at the most: as docs/architecture.md has them. They may only fall."""


def append(service: Service, ids: list[str]) -> None:
    service.append(ids[0], user("What time is it?"), agent("Noon."), request_id=new_ulid())


def search(service: Service, _: list[str]) -> None:
    service.search(QUESTION)


def context(service: Service, ids: list[str]) -> None:
    service.recall.BuildContext(
        recall_api.BuildContextRequest(conversation_id=ids[0], message=QUESTION)
    )


def load(service: Service, ids: list[str]) -> None:
    service.conversations.Load(api.LoadRequest(conversation_id=ids[0]))


def delete(service: Service, ids: list[str]) -> None:
    service.delete(ids.pop())


CALLS: dict[str, Callable[[Service, list[str]], None]] = {
    it.__name__: it for it in (append, search, context, load, delete)
}


class Walk:
    """Calls of our own functions in the threads of calls and the one of the index, while it is on:
    what jobs do beside them is none.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.calls: list[tuple[str, str]] = []
        """File and function of each."""

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call, as `sys.setprofile` reports it."""
        code = frame.f_code
        if self.is_on and event == "call" and code.co_filename.startswith(SOURCE):
            thread = threading.current_thread().name.split("_")[0]
            if thread in ("write", "search", "call", "index"):
                self.calls.append((code.co_filename, code.co_name))


def walks_of(name: str, data_dir: Path) -> list[list[tuple[str, str]]]:
    """Return the walks of a call that is made nine times, by a server in this process: of the whole
    process, for the thread of the index serves all servers in it.
    """
    walk = Walk()
    threading.setprofile(walk.note)
    at_info = structlog.make_filtering_bound_logger(logging.INFO)  # as a server that somebody runs
    structlog.configure(wrapper_class=at_info)
    settings = Settings.load(None, {"data_dir": data_dir, "listen": f"{LOOPBACK}:0"})
    server = app.start(settings)  # without what checks the order of locks in other tests
    service = Service(server.address)
    try:
        texts = [f"The disk of room {at} is full" for at in range(CONVERSATIONS)]
        ids = [service.conversation_of(text) for text in texts]
        walks: list[list[tuple[str, str]]] = []
        for walk.is_on in (False, False, False, *[True] * 9):
            walk.calls = []
            CALLS[name](service, ids)
            walks += [walk.calls] * walk.is_on
        walk.is_on = False
    finally:
        service.channel.close()
        server.stop()
    return walks


@pytest.mark.parametrize("name", CALLS)
def test_a_call_takes_few_calls_in_few_files(name: str, tmp_path: Path) -> None:
    # Each process is forked from one that has imported this module and runs nothing.
    processes = get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(1, processes) as alone:
        walks = alone.submit(walks_of, name, tmp_path / "data").result()
    # the end of a call may fall into the next one, and work of the index thread into any
    chosen = sorted(walks, key=len)[1]
    files = {file for file, _ in chosen}
    most_calls, most_files = MOST[name]
    assert most_calls // 2 < len(chosen) <= most_calls
    assert len(files) <= most_files
    jobs = [file for file, function in chosen if function == "write" and file.endswith(WRITER)]
    assert len(jobs) == (name == "delete")
