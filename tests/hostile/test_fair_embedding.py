"""Embedding in fair turns: what is small and new does not wait behind what is large and old."""

import re
import threading
import time
from types import SimpleNamespace
from typing import cast

import pytest
from click.testing import CliRunner
from recollect import Client
from recollect_server.kernel.space.space import Space
from recollect_server.recall.embedding.pace import SHARE, Pace, Share, pause_after
from recollect_server.recall.embedding.texts import parts_of
from recollect_server.recall.model.embedder import Embedder, Piece
from recollect_server.recall.model.workers import starves
from recollect_server.recall.vectors import checking
from recollect_server.run.commands import commands

from tests.cases import each
from tests.conftest import Start
from tests.hostile.test_long_texts import WORDS
from tests.server.conftest import Connect, user
from tests.waiting import until

_LEFT = re.compile(
    r"^embedding: \d+ % of the text, about \d+:\d\d:\d\d left at the last pace$", re.M
)


@pytest.mark.timeout(120)
def test_a_new_message_is_found_by_meaning_before_most_of_a_large_import(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    # a piece each, some 15 s of one core in all
    large = [user(f"{number}. {WORDS * 10}") for number in range(150)]
    own = service.create().id
    service.append(own, *large)
    service.append(own, user("We fly to Kyoto in April"))
    other = service.conversation_of("My daughter starts first grade in autumn")

    def found() -> bool:
        hits = service.search("a journey to Japan").hits
        first = (hits[0].conversation_id, hits[0].sequence) if hits else None
        return first == (own, 2 + len(large)) and other in service.found("kids' education")

    until(found)
    assert checking.state_of(server.folder).vectors < len(large) / 2
    arguments = ["stats", "--data-dir", str(server.data_dir)]
    until(lambda: _LEFT.search(CliRunner().invoke(commands, arguments).stdout))
    with Client(server.target) as client:
        embedding = client.admin.get_stats().space.embedding
    assert 0 < embedding.share < 1
    assert embedding.time_left
    # told once it has waited for 2 s, and the rest takes longer
    until(lambda: any("not embedded" in it.reason for it in service.search("Kyoto").degraded))


@pytest.mark.timeout(120)
def test_a_message_of_megabytes_does_not_hold_up_meaning_for_others(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest: list[int] = []
    cut = Embedder.cut

    def measured(embedder: Embedder, text: str) -> list[Piece]:
        longest.append(len(text))
        return cut(embedder, text)

    monkeypatch.setattr(Embedder, "cut", measured)
    server = start_server(embedder="onnx", max_message_bytes=4 << 20)
    service = connect(server)
    service.conversation_of(WORDS * ((3 << 20) // len(WORDS)))
    until(lambda: longest)  # it is at work
    kyoto = service.conversation_of("We fly to Kyoto in April")
    until(lambda: service.found("a journey to Japan") == [kyoto])
    assert max(longest) <= 64 << 10


def test_the_parts_of_a_long_text_have_all_its_words_in_order() -> None:
    words = [f"word{number}" for number in range(40_000)]
    ends: list[int] = []
    for part in parts_of(" ".join(words)):
        own = part.split(" ")
        assert len(part) <= 64 << 10
        # the first word may be the end of one that the part before has whole
        start = words.index(own[1])
        assert own[1:] == words[start : start + len(own) - 1]
        assert start <= (ends[-1] if ends else 1)
        ends.append(start + len(own) - 1)
    assert ends[-1] == len(words)
    assert len([*parts_of("無" * 200_000)]) > 3, "a text without a space too"
    assert [*parts_of("short")] == ["short"]


@each(
    ("seconds", "processor", "before", "expected"),
    [
        (0.5, 0.45, False, False),
        (0.5, 0.2, False, False),
        (0.5, 0.1, False, True),  # a fifth of a core
        (0.5, 0.2, True, True),  # not before it has much more
        (0.5, 0.4, True, False),
        (0.001, 0.0, True, True),  # says nothing
        (0.001, 0.001, False, False),
    ],
)
def test_a_thread_that_gets_less_than_a_third_of_a_core_starves(
    seconds: float, processor: float, before: bool, expected: bool
) -> None:
    assert starves(seconds, processor, before=before) is expected


@pytest.mark.parametrize(
    ("worked", "processor", "pause"),
    [(0.3, 0.3, 0.6), (0.3, 0.2, 0.3), (0.3, 0.1, 0.0), (3.0, 0.3, 0.0), (4.0, 4.0, 5.0)],
)
def test_beside_appends_embedding_takes_a_third_of_a_thread_and_no_less_on_a_busy_machine(
    worked: float, processor: float, pause: float
) -> None:
    assert pause_after(worked, processor) == pytest.approx(pause)


class _Appended:
    """A space, of which an append is seen at each look where there are any."""

    is_resting = False

    def __init__(self, *, is_busy: bool) -> None:
        self._puts = 0
        self._is_busy = is_busy

    @property
    def index(self) -> SimpleNamespace:
        self._puts += self._is_busy
        return SimpleNamespace(taken=lambda: (0, self._puts))


def _pace_of(share: Share, *, is_busy: bool) -> Pace:
    return Pace(cast(Space, _Appended(is_busy=is_busy)), share, threading.Event())


def test_appends_to_one_space_slow_the_embedding_of_all_together_down_to_a_third() -> None:
    share = Share()
    quiet, busy = _pace_of(share, is_busy=False), _pace_of(share, is_busy=True)
    processor, began = 0.05, time.monotonic()
    assert quiet.rest(processor, processor)
    assert time.monotonic() - began >= processor / SHARE - processor
    # What two spaces owe is paid one after the other.
    pauses = [share.resumes_at(pause_after(processor, processor)) for _ in (quiet, busy)]
    assert pauses[1] - pauses[0] == pytest.approx(processor / SHARE - processor)


def test_a_turn_is_as_large_on_a_busy_machine_and_its_rate_counts_what_goes_between() -> None:
    pace, now = _pace_of(Share(), is_busy=False), time.monotonic()
    size = pace.turn_bytes
    pace.rest(9.0, 0.7)  # seconds, of which it had a processor
    assert pace.adapt(9_000, now - 9, is_last=False) == pytest.approx(1_000, rel=0.1)
    assert pace.turn_bytes == size
    pace.rest(9.0, 1.4)
    # As a turn of no time behind the one before, which other spaces' turns may part.
    assert pace.adapt(9_000, time.monotonic() - 100, is_last=True) > 10_000
    assert pace.turn_bytes == size // 2
