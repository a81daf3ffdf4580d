"""The walk of one append: how many calls and files of the server a reader of it goes through."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import recollect_server
import structlog
from recollect_server import app
from recollect_server.domain.ids import new_ulid
from recollect_server.settings import Settings

from tests.conftest import LOOPBACK
from tests.server.conftest import Service, agent, user

SOURCE = str(Path(recollect_server.__file__).parent)
MOST_CALLS, MOST_FILES = 154, 43
"""As docs/decisions/append-rate.md has them, with the two locks that are made when first held."""


class Walk:
    """Calls of our own functions in threads for writes, while it is on."""

    def __init__(self) -> None:
        self.is_on = False
        self.calls: list[tuple[str, str]] = []
        """File and function of each."""

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call, as `sys.setprofile` reports it."""
        code = frame.f_code
        is_ours = event == "call" and code.co_filename.startswith(SOURCE)
        if self.is_on and is_ours and threading.current_thread().name.startswith("write"):
            self.calls.append((code.co_filename, code.co_name))


@pytest.fixture
def walk() -> Iterator[Walk]:
    """Profile the threads that are started from here on."""
    made, before = Walk(), threading.getprofile()
    threading.setprofile(made.note)
    yield made
    made.is_on = False
    threading.setprofile(before)


def test_an_append_of_two_messages_takes_few_calls_in_few_files(walk: Walk, tmp_path: Path) -> None:
    at_info = structlog.make_filtering_bound_logger(logging.INFO)  # as a server that somebody runs
    structlog.configure(wrapper_class=at_info)
    settings = Settings.load(None, {"data_dir": tmp_path / "data", "listen": f"{LOOPBACK}:0"})
    server = app.start(settings)  # without what checks the order of locks in other tests
    service = Service(server.address)
    try:
        conversation_id = service.create().id
        walks: list[list[tuple[str, str]]] = []
        for walk.is_on in (False, False, False, *[True] * 5):
            walk.calls = []
            question = user("What time is it?")  # the first one gives the conversation its name
            service.append(conversation_id, question, agent("Noon."), request_id=new_ulid())
            walks += [walk.calls] * walk.is_on
        walk.is_on = False
    finally:
        service.channel.close()
        server.stop()
    middle = sorted(walks, key=len)[2]  # the end of a call may fall into the next one's
    files = {file for file, _ in middle}
    assert MOST_CALLS // 2 < len(middle) <= MOST_CALLS
    assert len(files) <= MOST_FILES
