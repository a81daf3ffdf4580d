"""Waiting for a condition."""

import time
from collections.abc import Callable
from typing import TypeVar

from recollect_server.storage.index import checking as index
from recollect_server.storage.vectors import checking as vectors

from tests.conftest import RunningServer
from tests.server.conftest import Service

T = TypeVar("T")

_PAUSE = 0.02


def until(condition: Callable[[], T | None], seconds: float = 30.0) -> T:
    """Return the condition's value once it is true; fail after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(_PAUSE)


def until_embedded(service: Service, server: RunningServer) -> None:
    """Wait until everything acknowledged is embedded and visible to searches."""
    service.listed(page_size=1)  # answered once the index has taken in everything
    until(lambda: index.state_of(server.folder).lines == vectors.state_of(server.folder).lines)
    # The file has them a moment before searches see them.
    until(lambda: all(it._meaning.waiting is None for it in server.app.spaces.open_now()))
    until(lambda: not service.search("anything").degraded)
