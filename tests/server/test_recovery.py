"""Start-up: over what other hands did to the folder, beside another server, where it cannot be."""

import shutil
from pathlib import Path

import pytest
from recollect_server.kernel.domain.ids import is_conversation_id
from recollect_server.run.folder import CannotStart

from tests.conftest import RunningServer, Start
from tests.server.conftest import (
    Connect,
    Service,
    answers,
    at_once,
    delete_index,
    failure_of,
    kept_by,
    transcript,
    user,
)

QUERIES = ["zebra", "butter scones", "number 3", "北京", "nothing", "the"]


@pytest.mark.parametrize("index_lost", [False, True])
def test_a_damaged_line_in_the_middle_is_passed_over_and_reported(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, index_lost: bool
) -> None:
    conversation_id = service.conversation_of("one", "two zebra", "three")
    server.stop()
    path = transcript(server, conversation_id)
    path.write_bytes(path.read_bytes().replace(b'"two zebra"', b'"two zebrA"'))
    damaged = path.read_bytes()
    if index_lost:
        delete_index(server)
    running = start_server()
    assert running.app.recovered.damaged == int(index_lost)
    again = connect(running)
    for loaded in (again.load(conversation_id), again.context(conversation_id)):
        assert [message.content for message in loaded.messages] == ["one", "three"]
        assert [message.sequence for message in loaded.messages] == [2, 4]
        assert loaded.damaged_lines == 1
    assert again.found("zebra") == []
    assert again.append(conversation_id, user("four")).messages[0].sequence == 5
    assert path.read_bytes().startswith(damaged)


def test_a_conversation_whose_first_line_is_damaged_keeps_its_messages(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation_id = service.conversation_of("one zebra", "two")
    server.stop()
    path = transcript(server, conversation_id)
    path.write_bytes(path.read_bytes().replace(b'"type":"meta"', b'"type":"mexa"', 1))
    delete_index(server)
    again = connect(start_server())
    assert [message.content for message in again.load(conversation_id).messages] == [
        "one zebra",
        "two",
    ]
    assert again.get(conversation_id).channel == "unknown"
    assert again.found("zebra") == [conversation_id]
    assert again.append(conversation_id, user("three")).turn_number == 3


def test_transcripts_that_the_index_does_not_know_are_picked_up(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    conversation_id = service.conversation_of("one zebra", "two", participants=["ana"])
    service.rename(conversation_id, "From Elsewhere")
    before = service.get(conversation_id)
    server.stop()
    other = start_server(data_dir=tmp_path / "other")
    own = connect(other).conversation_of("own zebra")
    other.stop()
    shutil.copy(transcript(server, conversation_id), other.folder)
    again = start_server(data_dir=tmp_path / "other")
    assert (
        again.app.recovered.rebuilt,
        again.app.recovered.messages,
        again.app.recovered.conversations,
    ) == (False, 2, 2)
    after = connect(again)
    assert after.get(conversation_id) == before
    assert set(after.found("zebra")) == {own, conversation_id}


def test_a_transcript_that_went_away_is_gone_from_every_answer(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    stays, goes = service.conversation_of("zebra stays"), service.conversation_of("zebra goes")
    server.stop()
    transcript(server, goes).unlink()
    again = connect(start_server())
    assert again.found("zebra") == [stays]
    assert [conversation.id for conversation in again.listed().conversations] == [stays]
    assert failure_of(lambda: again.get(goes)).reason == "CONVERSATION_NOT_FOUND"


def test_files_that_are_no_transcripts_do_not_keep_a_server_from_starting(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation_id = service.conversation_of("one zebra")
    before = answers(service, QUERIES)
    server.stop()
    folder = server.folder
    copied = f"{conversation_id[:-3]}0ZZ"
    assert is_conversation_id(copied)
    for name, data in {
        f"{conversation_id[:-3]}000.jsonl": b"",
        f"{conversation_id[:-3]}001.jsonl": b"not json at all\nnor this\n",
        f"{conversation_id[:-3]}002.jsonl": b"\0" * 5000,
        f"{conversation_id[:-3]}003.jsonl": b"\n\n\n",
        "conv-short.jsonl": b"x\n", "notes.jsonl": b"x\n", "notes.txt": b"x", ".hidden": b"",
        f"{conversation_id}.jsonl.bak": b"x\n",
    }.items():  # fmt: skip
        (folder / name).write_bytes(data)
    (folder / f"{conversation_id[:-3]}004.jsonl").mkdir()
    again = start_server()
    assert answers(connect(again), QUERIES) == before
    again.stop()
    delete_index(again)
    assert answers(connect(start_server()), QUERIES) == before


def test_a_second_server_on_the_same_folder_is_refused_and_harms_nothing(
    service: Service, server: RunningServer, start_server: Start
) -> None:
    conversation_id = service.conversation_of("one")
    files = kept_by(service, server)
    with pytest.raises(
        CannotStart, match=r"another server uses the data folder .*: stop it, or name another"
    ) as refused:
        start_server()
    assert str(server.data_dir) in str(refused.value)
    assert kept_by(service, server) == files
    assert service.append(conversation_id, user("two")).turn_number == 2


def test_of_8_servers_that_start_at_once_one_runs(start_server: Start) -> None:
    def start(_: int) -> str:
        try:
            start_server()
        except CannotStart:
            return "refused"
        return "runs"

    assert sorted(at_once(8, start)) == ["refused"] * 7 + ["runs"]


def test_a_folder_that_cannot_be_used_is_named(start_server: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match=r"cannot use the data folder .*file"):
        start_server(data_dir=tmp_path / "file")
    with pytest.raises(CannotStart, match="cannot use the data folder"):
        start_server(data_dir=tmp_path / "file" / "below")
