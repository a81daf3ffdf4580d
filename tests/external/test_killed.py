"""Killed at every point of a third party's message: what was answered is there, nothing is there
twice, each has its question.
"""

from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from recollect.v1 import external_communication_service_pb2 as api
from recollect.v1.channel_service_pb2_grpc import ChannelServiceStub
from recollect.v1.external_communication_service_pb2_grpc import ExternalCommunicationServiceStub

from tests.conftest import Start
from tests.crash.load import process
from tests.external.conftest import Meet, deliver
from tests.server.conftest import files_with
from tests.server_cli.conftest import run

# Three strangers write in turn: the first message of each makes a transcript, the others are added
# to it.
DELIVERED = [(f"party-{number % 3}", f"wamid-{number}", f"Message {number}") for number in range(9)]

SERVING = [
    "folder.made:4", "create.begun:2", "create.file_made:2", "create.half_written:2", "create.written:1", "create.synced:2",
    "append.begun:2", "append.half_written:3", "append.written:1", "external.recorded:1", "external.recorded:3",
    "external.recorded:5", "external.indexed:1", "external.indexed:6", "index.job_done:2", "index.job_done:5",
    "index.job_committed:2", "index.job_committed:5",
]  # fmt: skip
STARTING = [
    "external.repaired:1",
    "external.repaired:2",
    "external.part:1",
    "repair.half_kept:1",
    "repair.cut:1",
    "recover.done:1",
]
DELETING = [
    "delete.renamed", "delete.forgotten", "delete.part_removed", "delete.remembered", "delete.words_removed",
    "delete.file_removed",
]  # fmt: skip
REDACTING_BEFORE = ["redact.begun", "redact.copied", "redact.kept"]
"""Killed there, nothing has happened."""
REDACTING_AFTER = [
    "redact.replaced", "redact.durable", "redact.indexed", "redact.forgotten", "redact.old_removed",
    "redact.old_gone", "redact.log_emptied",
]  # fmt: skip
OF_THIRD_PARTIES = {
    point.partition(":")[0] for point in (*SERVING, *STARTING) if point.startswith("external.")
}
"""The points that nothing but a third party's message reaches."""

TORN = b'{"type":"message","direction":"inbound","text":"never answered'


def receive(data_dir: Path, kill_at: str) -> dict[str, str]:
    """Deliver everything to a server process that is killed at a point; return the communications
    that it answered, by delivery.
    """
    answered: dict[str, str] = {}
    with process(data_dir, kill_at) as server:
        if server.target:
            with grpc.insecure_channel(server.target) as channel, suppress(grpc.RpcError):
                gateway = ChannelServiceStub(channel)
                for party, delivered, text in DELIVERED:
                    received = deliver(gateway, "whatsapp", sender=party, provider_message_id=delivered, text=text)  # fmt: skip
                    if not received.duplicate:
                        answered[delivered] = received.communication.id
        if len(answered) == len(DELIVERED):
            server.kill()  # it was not at the point, which the caller sees
        assert server.was_killed
    return answered


def all_is_well(data_dir: Path, answered: dict[str, str], start_server: Start, meet: Meet) -> None:
    """Start the server again and check it: as it is, after every delivery is repeated, and on the
    disk.
    """
    running = start_server(data_dir=data_dir)
    outside = meet(running)
    there = {
        it.provider_message_id: name
        for name in [c.id for c in outside.listed()]
        for it in outside.messages(name)
    }
    assert answered.items() <= there.items()
    assert len(there) - len(answered) <= 1  # the one whose sender was not answered
    for communication in outside.listed():
        assert communication.open_escalations == 1  # with the message, or neither
    for party, delivered, text in DELIVERED:
        received = outside.write(text, party=party, delivered=delivered)
        assert received.duplicate == (delivered in there)
        assert received.communication.id == there.get(delivered, received.communication.id)
    assert len(outside.listed()) == 3
    for communication in outside.listed():
        number = int(communication.party[-1])
        assert sorted(outside.texts(communication.id)) == [
            f"Message {it}" for it in range(number, 9, 3)
        ]
        assert communication.open_escalations == 1
    running.stop()
    result = run("verify", "--data-dir", data_dir)
    assert result.exit_code == 0, result.stdout


@pytest.mark.parametrize("point", SERVING)
def test_a_server_that_is_killed_while_it_receives_loses_nothing_and_doubles_nothing(
    point: str, tmp_path: Path, start_server: Start, meet: Meet
) -> None:
    answered = receive(tmp_path / "killed", point)
    assert len(answered) < len(DELIVERED)
    all_is_well(tmp_path / "killed", answered, start_server, meet)


@pytest.mark.parametrize("point", STARTING)
def test_a_server_that_is_killed_while_it_recovers_them_recovers_the_next_time(
    point: str, tmp_path: Path, start_server: Start, meet: Meet
) -> None:
    data_dir = tmp_path / "killed"
    answered = receive(data_dir, "external.recorded:5")
    for path in (data_dir / "default" / "external").glob("*.jsonl"):
        with path.open("ab") as file:
            file.write(TORN)
    assert receive(data_dir, point) == {}
    all_is_well(data_dir, answered, start_server, meet)
    torn = list((data_dir / "default" / "external").glob("*.torn"))
    assert len(torn) == 3
    assert all(TORN in path.read_bytes() for path in torn)


@pytest.mark.parametrize("point", DELETING)
def test_a_delete_that_is_killed_is_finished_by_the_next_start(
    point: str, tmp_path: Path, start_server: Start, meet: Meet
) -> None:
    data_dir = tmp_path / "killed"
    with process(data_dir, point) as server:
        with grpc.insecure_channel(server.target) as channel, suppress(grpc.RpcError):
            gateway = ChannelServiceStub(channel)
            for party, delivered, text in DELIVERED:
                deliver(gateway, "whatsapp", sender=party, provider_message_id=delivered, text=text)
            chosen = api.DeleteCommunicationsRequest(parties=["party-0", "party-1"])
            ExternalCommunicationServiceStub(channel).DeleteCommunications(chosen)
        assert server.was_killed
    running = start_server(data_dir=data_dir)
    outside = meet(running)
    deleted = {"party-0", "party-1"} - {it.party for it in outside.listed()}
    assert deleted  # the one that it was killed at is gone too
    for party, delivered, text in DELIVERED:
        again = outside.write(text, party=party, delivered=delivered)
        assert (again.duplicate, bool(again.communication.id)) == (True, party not in deleted)
    outside.delete(parties=["party-0", "party-1"])
    assert [it.party for it in outside.listed()] == ["party-2"]
    texts = [text for party, _, text in DELIVERED if party != "party-2"]
    assert files_with(data_dir, *texts) == []
    running.stop()
    result = run("verify", "--data-dir", data_dir)
    assert result.exit_code == 0, result.stdout


def redacted_until(point: str, data_dir: Path) -> api.RedactExternalMessageRequest:
    """Kill a server at a point of a redaction, and return its request."""
    with process(data_dir, point) as server:
        with grpc.insecure_channel(server.target) as channel:
            gateway = ChannelServiceStub(channel)
            first = deliver(
                gateway,
                "whatsapp",
                sender="party-0",
                provider_message_id="wamid-0",
                text="quixotriple",
            )
            deliver(
                gateway, "whatsapp", sender="party-0", provider_message_id="wamid-1", text="zebra"
            )
            request = api.RedactExternalMessageRequest(
                communication_id=first.communication.id,
                sequence=first.message.sequence,
                request_id="r",
            )
            with pytest.raises(grpc.RpcError, match="UNAVAILABLE"):
                ExternalCommunicationServiceStub(channel).RedactExternalMessage(request)
        assert server.was_killed
    return request


@pytest.mark.parametrize("point", REDACTING_BEFORE + REDACTING_AFTER)
@pytest.mark.parametrize("is_index_lost", [False, True])
def test_a_redaction_that_is_killed_is_done_or_not(
    point: str, tmp_path: Path, start_server: Start, meet: Meet, *, is_index_lost: bool
) -> None:
    data_dir = tmp_path / "killed"
    request = redacted_until(point, data_dir)
    if is_index_lost:
        for path in (data_dir / "default" / "conversations").glob("conversations.db*"):
            path.unlink()
    running = start_server(data_dir=data_dir)
    assert running.app.recovered.rebuilt == is_index_lost
    outside = meet(running)
    is_done = point in REDACTING_AFTER
    text = "[redacted]" if is_done else "quixotriple"
    assert outside.texts(request.communication_id) == [text, "zebra"]
    assert bool(files_with(data_dir, "quixotriple")) != is_done
    done = outside.rpc.RedactExternalMessage(request)
    assert (done.duplicate, done.message.text) == (is_done, "[redacted]")
    again = outside.write("quixotriple", party="party-0", delivered="wamid-0")
    assert (again.duplicate, again.message) == (True, done.message)
    assert outside.texts(request.communication_id) == ["[redacted]", "zebra"]
    assert files_with(data_dir, "quixotriple") == []
    running.stop()
    names = [path.name for path in (data_dir / "default" / "external").iterdir()]
    assert names == [f"{request.communication_id}.jsonl"]
    result = run("verify", "--data-dir", data_dir)
    assert result.exit_code == 0, result.stdout


@pytest.mark.parametrize("point", ["redact.indexed", "redact.forgotten", "redact.old_removed"])
def test_a_start_that_is_killed_while_it_finishes_a_redaction_finishes_it_the_next_time(
    point: str, tmp_path: Path, start_server: Start, meet: Meet
) -> None:
    data_dir = tmp_path / "killed"
    request = redacted_until("redact.durable", data_dir)
    with process(data_dir, point) as server:
        assert server.was_killed
    outside = meet(start_server(data_dir=data_dir))
    assert outside.texts(request.communication_id) == ["[redacted]", "zebra"]
    assert files_with(data_dir, "quixotriple") == []
