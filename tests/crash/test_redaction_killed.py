"""Killed at every point of a redaction: the text is all there or nowhere, and its place stays."""

from pathlib import Path

import grpc
import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect.v1.anchor_pb2 import AnchorSource

from tests.conftest import Start
from tests.crash.checker import check_index
from tests.crash.load import connected, process
from tests.server.conftest import Service, agent, files_with, user

BEFORE = ["redact.begun", "redact.copied", "redact.kept"]
"""Killed there, nothing has happened."""
AFTER = [
    "redact.replaced", "redact.durable", "index.job_committed", "redact.indexed", "redact.forgotten", "redact.old_removed",
    "redact.old_gone", "redact.log_emptied",
]  # fmt: skip
OF_REDACTION = {point for point in BEFORE + AFTER if point.startswith("redact.")}
WORD = "quixotriple"


def with_secret(service: Service) -> str:
    """Begin a conversation that has the secret word in its third line, its title and an anchor."""
    conversation_id = service.create().id
    service.append(conversation_id, user("Good morning"), request_id="first")
    service.append(conversation_id, user(f"It is {WORD}"), agent("Noted"), request_id="secret")
    service.append(conversation_id, user("And now something else"), request_id="last")
    service.abbreviate(conversation_id, f"notes {WORD}")
    source = AnchorSource(conversation_id=conversation_id, sequence=3)
    service.recall.SetAnchor(recall_api.SetAnchorRequest(key="password", value=WORD, source=source))
    return conversation_id


def redact(service: Service, conversation_id: str) -> api.RedactMessageResponse:
    return service.conversations.RedactMessage(
        api.RedactMessageRequest(conversation_id=conversation_id, sequence=3, request_id="r")
    )


def killed_at(point: str, data_dir: Path, conversation_id: str = "") -> str:
    """Kill a server at a point of a redaction. Return the conversation, which is begun if none is
    named.
    """
    nth = ":2" if point == "index.job_committed" else ""  # the first is of its notes
    with process(data_dir, f"{point}{nth}") as server:
        with connected(server.target) as service:
            conversation_id = conversation_id or with_secret(service)
            service.listed()
            with pytest.raises(grpc.RpcError, match="UNAVAILABLE"):
                redact(service, conversation_id)
        assert server.was_killed
    return conversation_id


def problems_after(
    data_dir: Path, conversation_id: str, start: Start, beside: Path, *, is_done: bool
) -> list[str]:
    """Start the server again: the secret is there with its message, or nowhere. Repeat the call,
    and return what is wrong on the disk then.
    """
    running = start(data_dir=data_dir)
    assert not running.app.recovered.rebuilt
    with connected(running.target) as service:
        there = [it.content for it in service.load(conversation_id).messages]
        secret = "[redacted]" if is_done else f"It is {WORD}"
        assert there == ["Good morning", secret, "Noted", "And now something else"]
        if is_done:
            assert files_with(data_dir, WORD) == []
        done = redact(service, conversation_id)
        assert done.duplicate == is_done
        assert [(it.sequence, it.content) for it in done.messages] == [(3, "[redacted]")]
        assert files_with(data_dir, WORD) == []
        repeat = service.append(conversation_id, user(f"It is {WORD}"), request_id="secret")
        assert repeat.duplicate
        assert [it.sequence for it in repeat.messages] == [3, 4]
    running.stop()
    folder = data_dir / "default" / "conversations"
    files = {path.name for path in folder.glob(f"{conversation_id}*")}
    wrong = files ^ {f"{conversation_id}.jsonl"}
    return [*files_with(data_dir, WORD), *check_index(folder, beside, grown=True), *wrong]


@pytest.mark.parametrize("point", BEFORE + AFTER)
def test_a_server_that_is_killed_in_a_redaction_has_done_it_or_not(
    point: str, tmp_path: Path, start_server: Start
) -> None:
    data = tmp_path / "killed"
    conversation_id = killed_at(point, data)
    is_done = point in AFTER
    beside = tmp_path / "beside"
    assert problems_after(data, conversation_id, start_server, beside, is_done=is_done) == []


@pytest.mark.parametrize("point", ["redact.indexed", "redact.forgotten", "redact.old_removed"])
def test_a_server_that_is_killed_while_it_finishes_a_redaction_finishes_it_the_next_time(
    point: str, tmp_path: Path, start_server: Start
) -> None:
    data = tmp_path / "killed"
    conversation_id = killed_at("redact.durable", data)
    with process(data, point) as server:
        assert server.was_killed
    beside = tmp_path / "beside"
    assert problems_after(data, conversation_id, start_server, beside, is_done=True) == []


@pytest.mark.parametrize("point", ["redact.old_removed", "redact.old_gone"])
def test_a_loss_of_power_behind_the_old_lines_brings_back_no_index_that_needs_them(
    point: str, tmp_path: Path, start_server: Start
) -> None:
    """The write-ahead log of the index is cut before they go."""
    data = tmp_path / "killed"
    with process(data) as server, connected(server.target) as service:
        conversation_id = with_secret(service)
        server.popen.terminate()
        server.popen.wait()  # the index's file has the text
    killed_at(point, data, conversation_id)
    assert files_with(data, WORD) == []
    for path in (data / "default" / "conversations").glob("conversations.db-*"):
        path.unlink()  # as what was not synced
    beside = tmp_path / "beside"
    assert problems_after(data, conversation_id, start_server, beside, is_done=True) == []


def test_a_lost_index_is_made_anew_without_the_text_of_an_interrupted_redaction(
    tmp_path: Path, start_server: Start
) -> None:
    data = tmp_path / "killed"
    conversation_id = killed_at("redact.durable", data)
    for path in (data / "default" / "conversations").glob("conversations.db*"):
        path.unlink()
    start_server(data_dir=data).stop()
    assert files_with(data, WORD) == []
    with connected(start_server(data_dir=data).target) as service:
        assert service.delete(conversation_id).removed
