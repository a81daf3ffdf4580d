"""Every system call fails once, and once for ever after, while third parties write: nothing is
lost, nothing is stored twice.
"""

import errno
from pathlib import Path

import pytest
from recollect_server.people.communication import CommunicationFilter, Direction
from recollect_server.people.communication_logs import CommunicationStore
from recollect_server.people.communication_service import External

from tests.at_rest import opened, problems
from tests.faults.conftest import library
from tests.faults.lives import EARLY, LATE, SHORT, Case, answers_in, lives

__all__ = ["library"]  # fixtures
pytestmark = [pytest.mark.usefixtures("no_log"), pytest.mark.timeout(600)]  # hundreds of lives
CASES: dict[str, Case] = {
    "transcripts, EIO": (".jsonl", errno.EIO, EARLY, False, False, 1),
    "transcripts, syncs that fail for ever": (".jsonl", errno.EIO, LATE, True, False, 1),
    "transcripts, no room for ever": (".jsonl", errno.ENOSPC, EARLY, True, True, 1),
    "transcripts, short writes": (".jsonl", 0, SHORT, True, True, 1),
    "index, EIO": ("conversations.db", errno.EIO, EARLY, False, False, 3),
    "index, no room for ever": ("conversations.db", errno.ENOSPC, EARLY, True, True, 3),
    "the whole folder, EIO for ever": ("/data", errno.EIO, EARLY, True, False, 5),
}


def check(life: Path) -> None:
    """Start on the files that a life left, and check them."""
    answers = answers_in(life)
    here = opened(life / "data")
    external = External(CommunicationStore(here.space))
    try:
        communications = external.page(CommunicationFilter(), 10, None).entries
        stored_texts = {
            it.party: external.history(it.id, 100, None, 1 << 20).messages[::-1]
            for it in communications
        }
        assert len(communications) == len(stored_texts)  # one for each party
        for party in ("ann", "bob"):
            there = [
                it.provider_message_id
                for it in stored_texts.get(party, [])
                if it.direction is Direction.INBOUND
            ]
            written = [it for it in answers if it["what"] == "receive" and it["party"] == party]
            # once, in order
            assert there == [it["delivered"] for it in written if it["delivered"] in there]
            assert [
                it for it in written if it["told"] == "done" and it["delivered"] not in there
            ] == []
            for it in written:
                again = external.receive(
                    "email", party, it["delivered"], f"{it['delivered']} zebra", (), None
                )
                assert again is not None
                assert again.duplicate == (it["delivered"] in there)
        replies = [
            it.text for it in stored_texts.get("ann", []) if it.direction is Direction.OUTBOUND
        ]
        assert replies == ["reply zebra"] or not any(
            it["told"] == "done" for it in answers if it["what"] == "reply"
        )
        assert len(replies) <= 1
    finally:
        here.close()
    assert problems(life / "data") == []


@pytest.mark.parametrize("case", CASES)
def test_whatever_call_fails_nothing_that_was_received_is_lost_or_stored_twice(
    library: Path,
    tmp_path: Path,
    case: str,
) -> None:
    runs = lives(library, Path(__file__).with_name("failing_io_run.py"), tmp_path, CASES, case)
    for life in runs:
        check(life)
    assert [it["told"] for it in answers_in(runs[-1])] == ["done"] * 9  # nothing failed in the last
