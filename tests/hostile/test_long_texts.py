"""Texts that take long to embed: others do not wait for them, and neither does a stop."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from recollect_server.recall.vectors import checking as vectors
from recollect_server.recall.vectors.store import VectorStore

from tests.conftest import Start
from tests.server.conftest import Connect, agent, user
from tests.server.searching import END, START
from tests.server.test_redact import redact
from tests.waiting import until, until_embedded

WORDS = "the quarterly figures of the northern branch were discussed at length and written down in a table "


def long_text(kilobytes: int, name: str = "") -> str:
    return f"{name} {WORDS * (kilobytes * 1024 // len(WORDS))}"


@pytest.mark.timeout(120)
def test_a_short_message_behind_a_long_one_is_found_by_meaning_before_it(
    start_server: Start, connect: Connect, scale: int
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    short = service.conversation_of("The car needs new tyres before winter")
    until(lambda: service.found("vehicle upkeep") == [short])
    own = service.create().id
    service.append(own, user(long_text(min(80 * scale, 1000))))
    began = time.process_time()
    service.append(own, agent("We fly to Kyoto in April"))
    other = service.conversation_of("My daughter starts first grade in autumn")
    until(
        lambda: (
            [hit.conversation_id for hit in service.search("a journey to Japan").hits][:1] == [own]
        )
    )
    until(lambda: other in service.found("kids' education"))
    answer = service.search("kids' education")
    # The long text takes some 6 s of one thread. What waits is told once it has waited for 2 s.
    assert (
        any("not embedded" in leg.reason for leg in answer.degraded)
        or time.process_time() - began < 4
    )


@pytest.mark.timeout(120)
def test_a_stop_does_not_wait_for_a_long_text_and_a_start_goes_on_with_it(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    add_parts = VectorStore.add_parts

    def counted(
        store: VectorStore,
        model: int,
        place: tuple[str, int],
        text: bytes,
        first: int,
        vectors: NDArray[np.int8],
        read_at: int,
    ) -> bool:
        is_kept = add_parts(store, model, place, text, first, vectors, read_at)
        counts.append(first)
        return is_kept

    monkeypatch.setattr(VectorStore, "add_parts", counted)
    server = start_server(embedder="onnx")
    service = connect(server)
    long = service.conversation_of(long_text(20))
    until(lambda: counts)
    began = time.process_time()
    server.stop()
    # It waits for a part of half a second's work; that the text is not done is seen below.
    assert time.process_time() - began < 15
    before = [*counts]
    assert before[0] == 0
    again = start_server(embedder="onnx")
    until(lambda: len(counts) > len(before))
    assert counts[len(before)] > before[-1], "what was kept is not worked out again"
    until_embedded(connect(again), again)
    assert vectors.state_of(again.folder).vectors > counts[-1]
    assert vectors.problems(again.folder) == []
    assert connect(again).get(long).turn_count == 1


def test_a_message_that_comes_when_a_long_text_of_its_conversation_is_embedded_is_embedded_too(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_text = VectorStore.has_text
    ends: list[bytes] = []

    def appending(store: VectorStore, model: int, text: bytes) -> bool:
        is_kept = has_text(store, model, text)
        if is_kept and not ends:  # the long text has its vectors: its conversation is whole now
            ends.append(text)
            service.append(own, agent("We fly to Kyoto in April"))
            assert service.get(own).turn_count == 1  # the index has the message
        return is_kept

    monkeypatch.setattr(VectorStore, "has_text", appending)
    server = start_server(embedder="onnx")
    service = connect(server)
    own = service.conversation_of(long_text(20))
    until(lambda: ends)
    until_embedded(service, server)
    snippets = [
        hit.snippet.replace(START, "").replace(END, "")
        for hit in service.search("a journey to Japan").hits
    ]
    assert snippets[:1] == ["We fly to Kyoto in April"]


def before_parts(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], *, at: int
) -> Callable[[], int]:
    """Act before the server keeps the first parts of a long text from number `at` on. Return the
    reader of how many parts were computed.
    """
    add_parts = VectorStore.add_parts
    acted: list[int] = []
    counts = [0]

    def acting(
        store: VectorStore,
        model: int,
        place: Any,
        text: bytes,
        first: int,
        vectors: Any,
        *rest: Any,
    ) -> Any:
        if first >= at and not acted:
            acted.append(first)
            act()
        counts[0] = max(counts[0], first + len(vectors))
        return add_parts(store, model, place, text, first, vectors, *rest)

    monkeypatch.setattr(VectorStore, "add_parts", acting)
    return lambda: counts[0]


def test_a_long_text_that_is_redacted_while_it_is_embedded_leaves_no_vector(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = before_parts(monkeypatch, lambda: redact(service, own, turn_number=1), at=0)
    server = start_server(embedder="onnx")
    service = connect(server)
    own = service.conversation_of(long_text(20))
    until(count)
    until_embedded(service, server)
    state = vectors.state_of(server.folder)
    assert (state.vectors, state.parts) == (0, 0)


def test_a_long_text_is_embedded_whole_beside_the_redaction_of_another_message(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = before_parts(monkeypatch, lambda: redact(service, own, turn_number=1), at=1)
    server = start_server(embedder="onnx")
    service = connect(server)
    own = service.conversation_of(
        "The car needs new tyres before winter", long_text(25)
    )  # two slices
    until(count)
    until_embedded(service, server)
    assert service.found("tyres") == []
    state = vectors.state_of(server.folder)
    assert (state.vectors, state.parts) == (count(), 0)


def test_a_conversation_that_is_deleted_while_its_text_is_embedded_leaves_nothing(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    long = service.conversation_of(long_text(40))
    tyres = service.conversation_of("The car needs new tyres before winter")
    until(lambda: service.found("vehicle upkeep") == [tyres])
    service.delete(long)
    until_embedded(service, server)
    assert service.found("numbers of a company's office") == []
    assert b"quarterly" not in (server.folder / "vectors.db").read_bytes()


@pytest.mark.parametrize("how", ["redacted", "deleted"])
def test_a_text_that_goes_at_the_moment_at_which_its_vector_is_kept_is_in_no_search(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    add = VectorStore.add
    acted: list[str] = []

    def acting(store: VectorStore, model: int, places: Any, *rest: Any) -> Any:
        changed = add(store, model, places, *rest)
        if any(it.conversation_id == own for it in places) and not acted:
            acted.append(own)
            remove[how]()
        return changed

    remove: dict[str, Callable[[], object]] = {
        "redacted": lambda: redact(service, own, turn_number=1),
        "deleted": lambda: service.delete(own),
    }
    monkeypatch.setattr(VectorStore, "add", acting)
    server = start_server(embedder="onnx")
    service = connect(server)
    own = ""
    other = service.conversation_of("My daughter starts first grade in autumn")
    until_embedded(service, server)
    own = service.conversation_of("The car needs new tyres before winter")
    until(lambda: acted)
    until_embedded(service, server)
    assert {hit.conversation_id for hit in service.search("vehicle upkeep").hits} <= {other}
