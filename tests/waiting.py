"""Waiting for a condition."""

import time
from collections.abc import Callable
from typing import TypeVar

from recollect_server.storage.index import checking as index
from recollect_server.storage.vectors import checking as vectors

from tests.conftest import RunningServer
from tests.server.conftest import Service

T = TypeVar("T")

_SHORTEST, _LONGEST = 0.01, 0.1
"""Seconds between two looks: what comes at once is seen at once, and a long wait leaves the
processor to what is awaited.
"""


def until(
    condition: Callable[[], T | None],
    seconds: float = 30.0,
    progress: Callable[[], object] = lambda: None,
) -> T:
    """Return the condition's value once it is true; fail after `seconds` without progress."""
    last, end = progress(), time.monotonic() + seconds
    pause = _SHORTEST
    while True:
        if value := condition():
            return value
        if (now := progress()) != last:
            last, end = now, time.monotonic() + seconds
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(pause)
        pause = min(_LONGEST, 1.5 * pause)


def until_embedded(service: Service, server: RunningServer) -> None:
    """Wait until everything acknowledged is embedded and visible to searches, on a busy machine for
    as long as it goes on.
    """

    def progress() -> tuple[object, ...]:
        state = vectors.state_of(server.folder)
        return state.lines, state.vectors, state.parts

    service.listed(page_size=1)  # answered once the index has taken in everything
    until(lambda: index.state_of(server.folder).lines == progress()[0], progress=progress)
    # The file has them a moment before searches see them.
    until(lambda: all(it._meaning.waiting is None for it in server.app.spaces.open_now()))
    until(lambda: not service.search("anything").degraded)
