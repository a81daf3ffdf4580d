"""Every system call of a space's life fails once, and once for ever after: nothing acknowledged is
lost, nothing is stored twice.

The loop is SQLite's own: n = 1, 2, 3 … until nothing failed any more.
"""

import errno
from pathlib import Path

import pytest
from recollect_server.conversations.service import Conversations
from recollect_server.kernel.domain.errors import ConversationNotFound
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.people.routing_table import Routes

from tests.at_rest import lines_of, opened, problems
from tests.faults.lives import EARLY, LATE, SHORT, Case, answers_in, lives

pytestmark = [pytest.mark.usefixtures("no_log"), pytest.mark.timeout(600)]  # hundreds of lives


def stored(folder: FolderStore, conversation_id: str) -> list[str]:
    """Return the contents of a transcript, whose every line must be whole."""
    lines = lines_of(folder.path(conversation_id))
    assert all(line.entry is not None for line in lines)
    return [
        line.entry.content.content
        for line in lines
        if line.entry and isinstance(line.entry.content, Message)
    ]


def check(life: Path) -> None:
    """Start on the files that a life left, and check them."""
    answers = answers_in(life)
    here = opened(life / "data")
    conversations = Conversations(here.space, Routes.of(here.space))
    deleted = {it["id"]: it["told"] for it in answers if it["what"] == "delete"}
    try:
        for conversation_id in {
            it["id"] for it in answers if it["what"] == "create" and it["told"] == "done"
        }:
            appends = [
                it for it in answers if it["what"] == "append" and it["id"] == conversation_id
            ]
            if conversation_id in deleted:
                is_deleted = not here.logs.path(conversation_id).exists()
                assert is_deleted or deleted[conversation_id] != "done"
                if is_deleted:
                    with pytest.raises(ConversationNotFound):
                        conversations.get(conversation_id)
                    continue
            stored_texts = stored(here.logs, conversation_id)
            present = [it for it in appends if it["texts"][0] in stored_texts]
            assert stored_texts == [
                text for it in present for text in it["texts"]
            ]  # once, whole, in order
            assert [it for it in appends if it["told"] == "done" and it not in present] == []
            for it in appends:
                messages = [Message(Role.USER, text) for text in it["texts"]]
                answer = conversations.append(
                    conversation_id,
                    messages,
                    request_id=it["request"],
                    expected_turn=None,
                    draft_id="",
                )
                assert answer.duplicate == (it in present)
            assert sorted(stored(here.logs, conversation_id)) == sorted(
                text for it in appends for text in it["texts"]
            )
            named = any(
                it["told"] == "done"
                for it in answers
                if it["what"] == "rename" and it["id"] == conversation_id
            )
            assert not named or conversations.get(conversation_id).title == "Named"
    finally:
        here.close()
    assert problems(life / "data") == []


CASES: dict[str, Case] = {
    "transcripts, EIO": (".jsonl", errno.EIO, EARLY, False, False, 1),
    "transcripts, EIO for ever": (".jsonl", errno.EIO, EARLY, True, False, 1),
    "transcripts, a sync that fails": (".jsonl", errno.EIO, LATE, False, False, 1),
    "transcripts, syncs that fail for ever": (".jsonl", errno.EIO, LATE, True, False, 1),
    "transcripts, no room": (".jsonl", errno.ENOSPC, EARLY, False, True, 1),
    "transcripts, no room for ever": (".jsonl", errno.ENOSPC, EARLY, True, True, 1),
    "transcripts, no more quota for ever": (".jsonl", errno.EDQUOT, EARLY, True, True, 1),
    "transcripts, interrupted": (".jsonl", errno.EINTR, EARLY, False, False, 1),
    "transcripts, short writes": (".jsonl", 0, SHORT, True, True, 1),
    "index, EIO": ("conversations.db", errno.EIO, EARLY, False, False, 2),
    "index, EIO for ever": ("conversations.db", errno.EIO, EARLY, True, False, 3),
    "index, a sync that fails": ("conversations.db", errno.EIO, LATE, False, False, 3),
    "index, no room": ("conversations.db", errno.ENOSPC, EARLY, False, True, 3),
    "index, no room for ever": ("conversations.db", errno.ENOSPC, EARLY, True, True, 3),
    "index, short writes": ("conversations.db", 0, SHORT, False, True, 3),
    "the whole folder, no room for ever": ("/data", errno.ENOSPC, EARLY, True, False, 3),
    "the whole folder, EIO for ever": ("/data", errno.EIO, EARLY, True, False, 3),
}


@pytest.mark.parametrize("case", CASES)
def test_whatever_call_fails_nothing_acknowledged_is_lost_and_nothing_is_stored_twice(
    library: Path, tmp_path: Path, case: str
) -> None:
    runs = lives(library, Path(__file__).with_name("failing_io_run.py"), tmp_path, CASES, case)
    for life in runs:
        check(life)
    assert [it["told"] for it in answers_in(runs[-1])] == [
        "done"
    ] * 16  # nothing failed in the last
