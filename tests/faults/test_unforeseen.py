"""Faults in the program itself: a job that meets one says so and goes on."""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import structlog
from recollect_server.kernel.domain.message import Message
from recollect_server.notes.notes import Notes
from recollect_server.notes.offline.extractive import Extractive
from recollect_server.recall.model.embedder import EmbeddedPiece, Embedder, Piece
from recollect_server.run.jobs.loop import Loop

from tests.conftest import MovableClock, Start
from tests.server.conftest import Connect, connect
from tests.server_cli.conftest import run
from tests.waiting import until, until_embedded

__all__ = ["connect"]


def test_a_round_that_fails_is_logged_whole_and_followed_by_the_next() -> None:
    rounds: list[str] = []
    over = threading.Event()

    def work() -> float:
        rounds.append(threading.current_thread().name)
        if len(rounds) == 2:
            raise ZeroDivisionError
        if len(rounds) == 4:
            over.set()
        return 0.0

    with structlog.testing.capture_logs() as logged:
        loop = Loop("counter", work)
        loop.start()
        assert over.wait(30)
        loop.stop()
    assert set(rounds) == {"counter"}
    assert [(it["event"], it["job"], it["exc_info"]) for it in logged] == [
        ("job_failed", "counter", True)
    ]


def test_rounds_that_hang_delay_no_other_job_and_leave_no_threads_behind() -> None:
    go_on = threading.Event()
    started = [threading.Event() for _ in range(4)]
    quick = threading.Event()

    def hang(number: int) -> float:
        started[number].set()
        go_on.wait()
        return 60.0

    def work() -> float:
        if all(it.is_set() for it in started):
            quick.set()
        return 60.0

    loops = [Loop(f"slow-{number}", partial(hang, number), wait=60.0) for number in range(4)]
    woken = Loop("quick", work, wait=60.0)
    for loop in (*loops, woken):
        loop.start()  # they all wait in the same threads
    for loop in loops:
        loop.wake()
    for it in started:
        assert it.wait(60)
    woken.wake()  # far ahead of its time, while all others hang
    assert quick.wait(60)
    go_on.set()
    until(lambda: sum(it.name == "jobs" for it in threading.enumerate()) <= 2)
    for loop in (*loops, woken):
        loop.stop()
    assert not any(it.is_running for it in (*loops, woken))


def test_notes_that_fail_as_nobody_foresaw_are_named_and_hold_up_no_others(
    start_server: Start, connect: Connect, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Extractive.write_notes

    def faulty(self: Extractive, messages: Sequence[Message], earlier: str, *labels: Any) -> Notes:
        if "ship" in messages[0].content:
            raise ZeroDivisionError
        return whole(self, messages, earlier, *labels)

    monkeypatch.setattr(Extractive, "write_notes", faulty)
    server = start_server(abbreviator="extractive")
    service = connect(server)
    lost, other = (
        service.conversation_of("When do we ship?"),
        service.conversation_of("Rotate the logs daily."),
    )
    clock.move(600_000)
    until(lambda: service.get(other).abbreviation)
    until(
        lambda: (
            "an unforeseen failure (ZeroDivisionError"
            in run("stats", "--data-dir", server.data_dir).stdout
        )
    )
    monkeypatch.undo()
    clock.move(600_000)
    assert "ship" in until(lambda: service.get(lost).abbreviation)


def test_embedding_that_fails_as_nobody_foresaw_is_tried_again(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, failed = Embedder.embed_pieces, threading.Event()

    def faulty(self: Embedder, pieces: Sequence[Piece]) -> list[EmbeddedPiece]:
        if failed.is_set():
            return whole(self, pieces)
        failed.set()
        raise ZeroDivisionError

    monkeypatch.setattr(Embedder, "embed_pieces", faulty)
    server = start_server(embedder="onnx")
    service = connect(server)
    conversation = service.conversation_of("We fly to Kyoto in April.")
    assert failed.wait(30)
    until_embedded(service, server)
    assert service.search("a journey to Japan").results[0].conversation_id == conversation
