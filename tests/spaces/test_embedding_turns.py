"""Turns of embedding between spaces: what a person waits for goes before what is old."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from recollect.v1 import recall_service_pb2 as recall_api
from recollect_server.recall.embedding.pace import SHARE
from recollect_server.recall.vectors import checking as vectors
from recollect_server.run.jobs.of_space import EmbedderJob, EmbeddingOrder
from recollect_server.run.jobs.rounds import Job, Rounds

from tests.conftest import RunningServer, Start
from tests.hostile.test_long_texts import WORDS
from tests.server.conftest import user
from tests.spaces.conftest import Enter, InSpace
from tests.waiting import until

_IMPORTS = ("first", "second", "third")
_OWN = 40  # messages of the one who asks
_SECONDS = 4.0  # that the share of a core is measured for
_LENGTH = 4  # of the words of a message, some 80 word pieces


def _vectors(server: RunningServer, space: str) -> int:
    """Return the number of texts of a space that are embedded."""
    return vectors.state_of(Path(server.data_dir) / space / "conversations").vectors


def _messages(space: str, count: int) -> list[str]:
    """Return messages of equal length, no two of which are alike."""
    return [f"{space} {number:03}. {WORDS * _LENGTH}" for number in range(count)]


def _append(service: InSpace, count: int) -> str:
    own = service.create().id
    service.append(own, *(user(text) for text in _messages(service.space, count)))
    return own


def _search(service: InSpace, _: str) -> None:
    service.search("what was written down?")


def _context(service: InSpace, own: str) -> None:
    service.recall.BuildContext(
        recall_api.BuildContextRequest(
            conversation_id=own, message="What was written down in the table about the branch?"
        )
    )


@pytest.mark.timeout(240)
@pytest.mark.parametrize("ask", [_search, _context])
def test_a_space_whose_user_just_asked_is_embedded_before_what_others_imported(
    start_server: Start, enter: Enter, ask: Callable[[InSpace, str], None]
) -> None:
    server = start_server(embedder="onnx")
    for name in _IMPORTS:
        _append(enter(server.target, name), 120)
    until(lambda: all(_vectors(server, name) for name in _IMPORTS))
    asker = enter(server.target, "asker")
    own = _append(asker, _OWN)
    ask(asker, own)
    before = sum(_vectors(server, name) for name in _IMPORTS)
    until(lambda: _vectors(server, "asker") == _OWN)
    others = sum(_vectors(server, name) for name in _IMPORTS) - before
    # In equal turns they would have three times as many as the one who asked.
    assert others < 1.5 * _OWN


class _Waiting(EmbedderJob):
    """A job with texts that wait."""

    def __init__(self, *, is_awaited: bool = False, has_new_lines: bool = False) -> None:
        Job.__init__(self)
        self.has_more = True
        self._is_awaited, self._has_new_lines = is_awaited, has_new_lines
        self.turns = 0

    def turn(self, stopping: threading.Event) -> float:  # noqa: ARG002 - it takes no time
        self.turns += 1
        return 0.0

    @property
    def is_awaited(self) -> bool:
        return self._is_awaited

    @property
    def has_new_lines(self) -> bool:
        return self._has_new_lines


def _turns(jobs: Sequence[Job], count: int) -> list[int]:
    """Return how many turns each of some jobs has that always have more to do."""
    order, turns = EmbeddingOrder(), dict.fromkeys(jobs, 0)
    for number in range(count):
        (job,) = order.next(jobs, [])
        turns[job] += 1
        job.ran_at = number + 1
    return [*turns.values()]


def test_the_awaited_have_three_turns_of_four_the_newest_two_and_the_oldest_are_not_starved() -> (
    None
):
    def old() -> list[Job]:
        return [_Waiting() for _ in range(4)]

    assert _turns(old(), 40) == [10, 10, 10, 10]
    assert _turns([*old(), _Waiting(is_awaited=True)], 40)[-1] in range(30, 33)
    assert _turns([*old(), _Waiting(has_new_lines=True)], 40)[-1] in range(20, 25)
    turns = _turns([*old(), _Waiting(has_new_lines=True), _Waiting(is_awaited=True)], 48)
    assert turns[-1] in range(36, 39)
    assert min(turns) >= 2
    assert _turns([_Waiting(is_awaited=True), _Waiting(is_awaited=True)], 10) == [5, 5]


def test_one_turn_is_under_way_at_a_time_unless_it_hangs_or_an_awaited_space_waits_for_it() -> None:
    order, old, awaited = EmbeddingOrder(), _Waiting(), _Waiting(is_awaited=True)
    at_work = _Waiting()
    at_work.began_at = time.monotonic()
    assert order.next([old], [at_work]) == []
    assert order.next([old, awaited], [at_work]) == [awaited]
    first = _Waiting(is_awaited=True)
    first.began_at = time.monotonic()
    assert order.next([old, awaited], [at_work, first]) == []
    new = _Waiting()
    new.has_more = False
    assert order.next([old, new], [at_work]) == [new]
    at_work.began_at -= 60
    assert order.next([old], [at_work]) == [old]


class _Opened:
    """An open space with one job."""

    def __init__(self, name: str) -> None:
        self.name, self.job = name, _Waiting()
        self.jobs = {self.job.name: self.job}


class _Spaces:
    """Open spaces, of which the first is being closed."""

    def __init__(self) -> None:
        self.opened = [_Opened("closing"), _Opened("open")]
        self.refused = 0

    def open_now(self) -> list[_Opened]:
        return self.opened

    def borrow(self, space: _Opened) -> AbstractContextManager[None] | None:
        if space is self.opened[0]:
            self.refused += 1
            return None
        return nullcontext()

    def wake_by(self, wake: Callable[[], None]) -> None:
        """Wake nobody."""

    def is_quiet(self) -> bool:
        return False

    def patience(self) -> None:
        return None


def test_a_space_that_is_being_closed_takes_no_turns_of_others() -> None:
    spaces = _Spaces()
    rounds = Rounds(_Waiting, spaces)  # type: ignore[arg-type]
    until(lambda: spaces.opened[1].job.turns > 20)
    refused = spaces.refused
    rounds.stop()
    assert refused < 20


@pytest.mark.timeout(120)
def test_appends_to_one_space_have_the_embedding_of_others_take_a_third_of_a_core(
    start_server: Start, enter: Enter
) -> None:
    server = start_server(embedder="onnx")
    for name in _IMPORTS:
        _append(enter(server.target, name), 120)
    until(lambda: any(_vectors(server, name) for name in _IMPORTS))
    caller = enter(server.target, "caller")
    own = caller.create().id
    caller.append(own, user("begin"))
    before, began = _embedding_seconds(), time.monotonic()
    while time.monotonic() - began < _SECONDS:
        caller.append(own, user("ok"))
    seconds = time.monotonic() - began
    ran, waited = (now - then for now, then in zip(_embedding_seconds(), before, strict=True))
    assert 0 < ran < (SHARE + 0.1) * seconds
    # On a busy machine it waits for a processor, but with one thread.
    assert ran + waited < 1.2 * seconds
    assert any(_vectors(server, name) < 120 for name in _IMPORTS)  # it had work all the time


def _embedding_seconds() -> tuple[float, float]:
    """Return the seconds for which the threads that run the model had a processor, and for which
    they waited for one (Linux).
    """
    ran = waited = 0
    for thread in threading.enumerate():
        if thread.name.startswith(("embedder_", "embedder-usual_")):
            times = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()
            ran, waited = ran + int(times[0]), waited + int(times[1])
    return ran / 1e9, waited / 1e9
