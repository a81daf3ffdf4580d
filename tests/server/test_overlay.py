"""The overlay: what it keeps until the index has it, and what it forgets."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.lines import Entry, Line, Stamp, encoded
from recollect_server.kernel.space.projection import Key, Overlay, Projection
from recollect_server.run.features import FEATURES

ONE, TWO = "conv-01J00000000000000000000001", "conv-01J00000000000000000000002"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path, FEATURES.tables)
    yield index
    index.close()


def refused(request_id: str) -> list[Line]:
    """Return the line of a message that came with a request id."""
    entry = Entry(Message(Role.USER, "Hello", 1, 2, 1), Stamp(request_id, "hash"))
    lines, _ = encoded([entry], 1, 100)
    return lines


def prune(overlay: Overlay, index: Index) -> None:
    """Add facts until the overlay looks for those that the index has."""
    others: dict[Key, str] = dict.fromkeys(range(10000, 12000), ONE)
    overlay.add_facts(index, others)
    assert overlay.conversations_of(10000) == ()


def test_a_deleted_conversation_leaves_no_fact_and_takes_no_others_away(index: Index) -> None:
    overlay = Overlay()
    overlay.add_facts(index, {7: ONE, 8: ONE})
    overlay.add_facts(index, {7: TWO, ONE: TWO})
    overlay.forget(ONE)
    assert [overlay.conversations_of(key) for key in (7, 8, ONE)] == [(TWO,), (), ()]


def test_a_fact_leaves_once_the_index_has_it_unless_its_conversation_lags(index: Index) -> None:
    overlay = Overlay()
    overlay.add_facts(index, {7: ONE, 8: TWO})
    overlay.note_lag(TWO, "a test says so")
    prune(overlay, index)
    assert [overlay.conversations_of(key) for key in (7, 8)] == [(), (TWO,)]


def test_a_conversation_that_caught_up_takes_its_own_requests_along(index: Index) -> None:
    overlay = Overlay()
    overlay.note_lag(ONE, "a test says so", refused("first"))
    overlay.note_lag(TWO, "a test says so", refused("second"))
    overlay.caught_up(ONE)
    assert overlay.request("first") is None
    record = overlay.request("second")
    assert record is not None
    assert (record.conversation_id, record.first_sequence) == (TWO, 2)
    assert list(overlay.lagging()) == [TWO]


def test_an_index_that_took_the_place_of_a_damaged_one_meanwhile_is_not_given_up(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").mkdir()
    with closing(Index(tmp_path / "new", FEATURES.tables)) as new:
        projection = Projection(index)
        condemn = index.condemn

        def replaced(reason: str) -> None:
            condemn(reason)
            projection.replace(new)

        monkeypatch.setattr(index, "condemn", replaced)
        projection.give_up("a test says so")
        assert (index.lost(), new.lost()) == ("a test says so", "")
