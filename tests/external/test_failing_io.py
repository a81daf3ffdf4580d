"""Every system call fails once, and once for ever after, while third parties write: nothing is lost, nothing is stored twice."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from recollect_server.domain.external import Direction
from recollect_server.domain.time import system_clock
from recollect_server.services.external.external import External
from recollect_server.services.external.store import CommunicationStore
from recollect_server.services.recovery import recover, unheard
from recollect_server.services.space import Space
from recollect_server.services.verification import verify
from recollect_server.storage.index.external import CommunicationFilter
from recollect_server.storage.transcript.files import TranscriptFolder
from recollect_server.storage.transcript.writer import TranscriptWriter

from tests.faults.test_failing_io import EARLY, LATE, SHORT, library

__all__ = ["library"]  # fixtures

HERE = Path(__file__).parent
CASES = {
    "transcripts, EIO": (".jsonl", errno.EIO, EARLY, False, False, 1),
    "transcripts, syncs that fail for ever": (".jsonl", errno.EIO, LATE, True, False, 1),
    "transcripts, no room for ever": (".jsonl", errno.ENOSPC, EARLY, True, True, 1),
    "transcripts, short writes": (".jsonl", 0, SHORT, True, True, 1),
    "index, EIO": ("conversations.db", errno.EIO, EARLY, False, False, 3),
    "index, no room for ever": ("conversations.db", errno.ENOSPC, EARLY, True, True, 3),
    "the whole folder, EIO for ever": ("/data", errno.EIO, EARLY, True, False, 5),
}


def lives_of(library: Path, root: Path, case: str) -> list[Path]:
    """Runs the lives; their folders."""
    path, error, manner, for_ever, writes_only, step = CASES[case]
    values = [str(library), str(root), path, str(error), str(manner), str(int(for_ever)), str(int(writes_only)), str(step)]
    command = [sys.executable, str(HERE / "failing_io_run.py"), *values]
    done = subprocess.run(command, env=os.environ | {"LD_PRELOAD": str(library)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = sorted(root.iterdir())
    assert len(found) == int(done.stdout) > 1
    return found


def check(life: Path) -> None:
    """A fresh start on what a life left."""
    said = (life / "ended").read_text()
    assert said == "ended" or said.startswith("did not start: "), said
    told = [orjson.loads(line) for line in (life / "journal").read_text().splitlines()]
    folder = TranscriptFolder(life / "data")
    index = recover(folder, system_clock, unheard).index
    writer = TranscriptWriter(sync=True)
    external = External(CommunicationStore(Space(folder, writer, index, system_clock)))
    try:
        communications = external.page(CommunicationFilter(), 10, None).communications
        kept = {it.party: external.history(it.id, 100, None).messages[::-1] for it in communications}
        assert len(communications) == len(kept)  # one for each party
        for party in ("ann", "bob"):
            there = [it.provider_message_id for it in kept.get(party, []) if it.direction is Direction.INBOUND]
            written = [it for it in told if it["what"] == "receive" and it["party"] == party]
            assert there == [it["delivered"] for it in written if it["delivered"] in there]  # once, in order
            assert [it for it in written if it["told"] == "done" and it["delivered"] not in there] == []
            for it in written:
                again = external.receive("email", party, it["delivered"], f"{it['delivered']} zebra", (), None)
                assert again.duplicate == (it["delivered"] in there)
        replies = [it.text for it in kept.get("ann", []) if it.direction is Direction.OUTBOUND]
        assert replies == ["reply zebra"] or not any(it["told"] == "done" for it in told if it["what"] == "reply")
        assert len(replies) <= 1
    finally:
        writer.close()
        index.close()
    assert verify(folder, unheard).problems == []


@pytest.mark.usefixtures("no_log")
@pytest.mark.parametrize("case", CASES)
def test_whatever_call_fails_nothing_that_was_received_is_lost_or_stored_twice(
    library: Path,
    tmp_path: Path,
    case: str,
) -> None:
    found = lives_of(library, tmp_path, case)
    for life in found:
        check(life)
    unharmed = [orjson.loads(line) for line in (found[-1] / "journal").read_text().splitlines()]
    assert [it["told"] for it in unharmed] == ["done"] * 9  # nothing failed in the last
