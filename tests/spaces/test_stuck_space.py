"""A space whose index hangs, is locked by another process, or takes in much keeps no other space
waiting.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect_server.run.jobs.of_space import RetentionKeeper

from tests.conftest import RunningServer
from tests.server.conftest import server_process, user
from tests.spaces.conftest import Enter, InSpace
from tests.spaces.test_index_threads import hanging
from tests.waiting import until

SECONDS = 2.0
"""Most that a call of another space may take on any machine: 50 ms are meant, and calls that waited
for the other space took 6 s and more.
"""
CALLERS = 8  # more than there are threads for searches, and for writes
SEARCH = recall_api.SearchRequest(query="zebra")

pytestmark = pytest.mark.files


@contextmanager
def locked(data_dir: Path, space: str) -> Iterator[None]:
    """Hold a write transaction of the index of a space, as another process may."""
    (file,) = (data_dir / space).rglob("conversations.db")
    with closing(apsw.Connection(str(file))) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def search(callers: list[InSpace]) -> list[Any]:
    """Begin a search of each caller."""
    return [it.recall.Search.future(SEARCH, timeout=100) for it in callers]


def append(callers: list[InSpace], contents: Callable[[], list[str]]) -> list[Any]:
    """Begin an append of each caller to a conversation of its own."""
    return [
        it.conversations.AppendTurn.future(
            api.AppendTurnRequest(
                conversation_id=it.create().id, messages=[user(text) for text in contents()]
            ),
            timeout=100,
        )
        for it in callers
    ]


def call(other: InSpace, is_over: Callable[[], bool]) -> None:
    """Append and search, one call after the other, until it is over. No call may take long."""
    request = api.AppendTurnRequest(conversation_id=other.create().id, messages=[user("zebra")])
    while not is_over():
        other.conversations.AppendTurn(request, timeout=SECONDS)
        assert other.recall.Search(SEARCH, timeout=SECONDS).results


def test_calls_that_wait_for_a_locked_index_hold_up_no_other_space(
    tmp_path: Path, enter: Enter
) -> None:
    with server_process(tmp_path) as (_, target):
        stuck = enter(target, "stuck")
        name = stuck.conversation_of("zebra")
        assert stuck.found("zebra") == [name]
        other = enter(target, "other")
        other.conversation_of("zebra")
        callers = [enter(target, "stuck") for _ in range(CALLERS)]
        with locked(tmp_path, "stuck"):
            stuck.append(name, user("zebra"))
            waiting = search(callers)
            appends = append(callers, lambda: ["zebra"])
            end = time.monotonic() + 3  # less than the 5 s after which the index gives up the lock
            call(other, lambda: time.monotonic() > end)
            assert not any(it.done() for it in waiting)
        until(lambda: all(it.done() for it in waiting + appends))


def test_batches_with_many_new_words_hold_up_no_other_space(tmp_path: Path, enter: Enter) -> None:
    chance = random.Random(2)  # noqa: S311 - words

    def batch() -> list[str]:
        return [" ".join(f"{chance.getrandbits(40):x}" for _ in range(450)) for _ in range(800)]

    with server_process(tmp_path) as (_, target):
        other = enter(target, "other")
        other.conversation_of("zebra")
        callers = [enter(target, "busy") for _ in range(4)]
        appends = append(callers, batch)
        call(other, lambda: all(it.done() for it in appends))
        searches = search(callers)
        call(other, lambda: all(it.done() for it in searches))
        assert [it.exception() for it in appends + searches] == [None] * 8


def test_jobs_that_wait_for_an_index_hold_up_those_of_no_other_space(
    server: RunningServer, enter: Enter
) -> None:
    stuck = enter(server.target, "stuck")
    name = stuck.conversation_of("word")
    enter(server.target, "other").conversation_of("word")
    spaces = {it.name: it for it in server.app.spaces.open_now()}
    with hanging(spaces["stuck"]._space.index):
        stuck.append(name, user("word"))
        # those of retention wait for each other, so that all together stay within their bound
        jobs = {job: it for job, it in spaces["stuck"].jobs.items() if job != RetentionKeeper.name}
        for it in jobs.values():
            it.next_at = 0.0
        until(lambda: any(it.is_at_work for it in jobs.values()))
        began = time.monotonic()
        hangs = [job for job, it in jobs.items() if it.is_at_work]
        others = [spaces["other"].jobs[job] for job in hangs]
        for job in others:
            job.next_at = began
        until(lambda: all((it.ran_at or 0.0) > began for it in others))
        assert any(jobs[job].is_at_work for job in hangs)
    until(lambda: not any(it.is_at_work for it in jobs.values()))
