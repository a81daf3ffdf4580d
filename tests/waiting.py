"""Waiting for a condition."""

import time
from collections.abc import Callable
from typing import TypeVar

from recollect_server.kernel.index import checking as index
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.vectors import checking as vectors

from tests.conftest import RunningServer
from tests.server.conftest import Service

T = TypeVar("T")

_SHORTEST, _LONGEST = 0.01, 0.1
"""Seconds between two looks: what comes at once is seen at once, and a long wait leaves the
processor to what is awaited.
"""


def until(condition: Callable[[], T | None]) -> T:
    """Return the condition's value once it is true.

    There is no limit but that of the test: on a busy machine another would decide the result.
    """
    pause = _SHORTEST
    while not (value := condition()):
        time.sleep(pause)
        pause = min(_LONGEST, 1.5 * pause)
    return value


def until_embedded(service: Service, server: RunningServer) -> None:
    """Wait until everything acknowledged is embedded and visible to searches."""
    service.listed(page_size=1)  # answered once the index has taken in everything
    until(lambda: index.state_of(server.folder).lines == vectors.state_of(server.folder).lines)
    # The file has them a moment before searches see them.
    until(lambda: all(it.service(Meaning).waiting is None for it in server.app.spaces.open_now()))
    until(lambda: not service.search("anything").degraded)
