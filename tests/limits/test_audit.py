"""The audit of a server: what is recorded, and what never is."""

import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import structlog
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from hypothesis import strategies as st
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2
from recollect_server.access.audit import Audit
from recollect_server.access.audit_file import NAME, AuditLog, read_audit
from recollect_server.access.principal import Principal
from recollect_server.access.token import new_id, new_secret, token_text
from recollect_server.contract.handling import ADMINISTRATIVE

from tests.conftest import MovableClock, examples
from tests.credentials.contract import METHODS
from tests.limits.conftest import Limited
from tests.server.conftest import failure_of
from tests.server_cli.conftest import run

LIST, CREATE = "ConversationService.List", "ConversationService.Create"
DELETE, SEARCH = "ConversationService.Delete", "RecallService.Search"
NOON = "2026-09-21T14:13:20.000Z"  # by the clock of the tests

Start = Callable[..., Limited]


def records(data_dir: Path) -> list[dict[str, Any]]:
    """Return the records of an audit, without what differs from run to run."""
    read = []
    for file, number, record in read_audit(data_dir):
        assert record is not None, (file, number)
        assert re.fullmatch(r"ipv4:127\.0\.0\.\d+:\d+|uid:\d+|others", record.pop("peer"))
        read.append(record)
    return read


def test_denials_and_administrative_calls_are_recorded_and_others_are_not(limited: Start) -> None:
    server = limited()
    agent, reader, stranger = server.caller(), server.caller("reader"), server.stranger()
    made = agent.call(CREATE, api.CreateRequest(channel="web", conversation_id="")).conversation.id
    assert agent.outcome(LIST) == "OK"
    assert agent.outcome(DELETE, api.DeleteRequest(conversation_id="nonsense")) == "INVALID_FIELD"
    assert reader.outcome(DELETE, api.DeleteRequest(conversation_id=made)) == "PERMISSION_DENIED"
    assert stranger.outcome(LIST) == "UNAUTHENTICATED"
    assert agent.outcome(LIST, None, ("recollect-space", "alex")) == "PERMISSION_DENIED"
    admin = server.caller("admin")
    assert admin.outcome(DELETE, api.DeleteRequest(conversation_id=made)) == "OK"
    denied = "PERMISSION_DENIED PERMISSION_DENIED"
    assert records(server.server.data_dir) == [
        {
            "time": NOON,
            "method": DELETE,
            "outcome": denied,
            "token": server.ids[reader],
            "kind": "reader",
        },
        {"time": NOON, "method": LIST, "outcome": "UNAUTHENTICATED UNAUTHENTICATED"},
        {
            "time": NOON,
            "method": LIST,
            "outcome": denied,
            "token": server.ids[agent],
            "kind": "brain",
        },
        {
            "time": NOON,
            "method": DELETE,
            "outcome": "OK",
            "token": server.ids[admin],
            "kind": "admin",
            "space": "default",
            "object": made,
        },
    ]


def test_each_change_of_a_lasting_fact_is_recorded_without_its_text(limited: Start) -> None:
    server = limited()
    agent = server.caller()
    change = recall_service_pb2.SetAnchorRequest(key="home.city", value="Bonn")
    assert agent.outcome("RecallService.SetAnchor", change) == "OK"
    removal = recall_service_pb2.DeleteAnchorRequest(key="home.city")
    assert agent.outcome("RecallService.DeleteAnchor", removal) == "OK"
    common = {"token": server.ids[agent], "kind": "brain", "space": "default"}
    assert records(server.server.data_dir) == [
        {"time": NOON, "method": f"RecallService.{name}", "outcome": "OK", **common}
        for name in ("SetAnchor", "DeleteAnchor")
    ]


def test_denials_of_reflection_are_recorded(limited: Start) -> None:
    server = limited()
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(server.stranger().channel)
    requests = [reflection_pb2.ServerReflectionRequest(list_services="*")]
    failure = failure_of(lambda: list(stub.ServerReflectionInfo(iter(requests), timeout=30)))
    assert failure.code == "UNAUTHENTICATED"
    assert records(server.server.data_dir) == [
        {
            "time": NOON,
            "method": "ServerReflection.ServerReflectionInfo",
            "outcome": "UNAUTHENTICATED UNAUTHENTICATED",
        }
    ]


def test_a_token_that_ended_is_named_and_a_wrong_one_is_not(limited: Start) -> None:
    server = limited()
    former = server.caller()
    server.tokens.revoke(server.ids[former])
    wrong = server.stranger(token_text(new_id(), new_secret()))
    assert {it.outcome(LIST) for it in (former, wrong)} == {"UNAUTHENTICATED"}
    named = [record.get("token") for record in records(server.server.data_dir)]
    assert named in (
        [server.ids[former], None],
        [None],
    )  # the server may not have read the revocation


def test_a_flood_of_denials_is_one_record_a_minute(limited: Start, clock: MovableClock) -> None:
    server = limited()
    reader = server.caller("reader")
    remove = api.DeleteRequest(conversation_id="conv-01J00000000000000000000000")
    for _ in range(50):
        assert reader.outcome(DELETE, remove) == "PERMISSION_DENIED"
    assert [it.get("count") for it in records(server.server.data_dir)] == [None]
    clock.move(60_000)
    reader.outcome(DELETE, remove)
    assert [it.get("count") for it in records(server.server.data_dir)] == [None, 49, None]
    reader.outcome(DELETE, remove)
    server.server.stop()
    assert [it.get("count") for it in records(server.server.data_dir)] == [None, 49, None, 1]


def test_a_denial_after_the_clock_was_set_back_is_recorded_at_once(
    limited: Start, clock: MovableClock
) -> None:
    server = limited()
    reader = server.caller("reader")
    remove = api.DeleteRequest(conversation_id="conv-01J00000000000000000000000")
    for _ in range(3):
        reader.outcome(DELETE, remove)
    clock.move(-3_600_000)
    reader.outcome(DELETE, remove)
    denials = records(server.server.data_dir)
    assert [it.get("count") for it in denials] == [None, 2, None]
    assert denials[-1]["time"] < denials[0]["time"]


@hypothesis.given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 30_000)), max_size=200)
)
def test_every_denial_is_recorded_or_counted_and_few_are_written(
    tmp_path_factory: Any, denials: list[tuple[int, int, int]]
) -> None:
    clock, data_dir = MovableClock(), tmp_path_factory.mktemp("audit")
    audit = Audit(AuditLog(data_dir, 1 << 20, 1), clock)
    began = clock.now
    for method, host, pause in denials:
        clock.move(pause)
        principal = Principal(peer=f"ipv4:10.0.0.{host}:{pause}")
        audit.refuse(principal, f"Service.{method}", "UNAUTHENTICATED")
    audit.close()
    read = [record for _, _, record in read_audit(data_dir)] if denials else []
    assert sum(record.get("count", 1) for record in read if record) == len(denials)
    assert len(read) <= 2 * 21 * ((clock.now - began) // 60_000 + 1)


def test_commands_that_change_tokens_are_recorded(tmp_path: Path) -> None:
    def token(*arguments: str) -> str:
        result = run("token", *arguments, "--data-dir", tmp_path)
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    conversation = "conv-01HQ0000000000000000000000"  # which the record of a token does not name
    text = token("create", "--kind", "project", "--conversation", conversation).strip()
    first = text.split("_")[1]
    second = token("rotate", first).split("_")[1]
    token("revoke", second)
    assert [(it["method"], it["object"], it["outcome"]) for it in records(tmp_path)] == [
        ("token create", first, "OK"),
        ("token rotate", second, "OK"),
        ("token revoke", second, "OK"),
    ]
    assert text not in (tmp_path / NAME).read_text()


def fill(message: Message, secret: str, ids: dict[str, str], depth: int = 0) -> Message:
    """Put a secret into every text of a request, but for fields that name what there is."""
    for field in message.DESCRIPTOR.fields:
        if field.name in ids:
            setattr(message, field.name, ids[field.name])
        elif field.is_repeated or depth > 3:
            continue
        elif field.type == FieldDescriptor.TYPE_STRING:
            setattr(message, field.name, secret)
        elif field.message_type is not None and "google" not in field.message_type.full_name:
            fill(getattr(message, field.name), secret, ids, depth + 1)
    return message


@hypothesis.settings(
    max_examples=examples(100),
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(data=st.data())
def test_no_text_and_no_secret_is_recorded(one: Limited, data: st.DataObject) -> None:
    """Whatever a request says, of whichever call, by whomever."""
    secret = "quixotry" + data.draw(st.text("abcdefghij", min_size=3, max_size=12))
    name = data.draw(st.sampled_from(sorted(ADMINISTRATIVE) + sorted(METHODS)))
    kind = data.draw(st.sampled_from(["admin", "brain", "reader", ""]))
    ids = data.draw(st.sampled_from([{}, {"conversation_id": one.conversation_id, "key": "k"}]))
    request = fill(GetMessageClass(METHODS[name].input_type)(), secret, dict(ids))
    caller = one.of_kind(kind)
    caller.outcome(name, request, ("x-note", secret), ("recollect-space", "default"))
    caller.outcome(name, request, ("recollect-space", secret))
    text = (one.server.data_dir / NAME).read_text() if any(read_audit(one.server.data_dir)) else ""
    assert secret not in text
    assert "rcl_" not in text


def test_a_delete_of_many_has_a_record_of_each_that_it_deleted(limited: Start) -> None:
    server = limited()
    admin = server.caller("admin")
    made = {
        admin.call(CREATE, api.CreateRequest(channel="many")).conversation.id for _ in range(103)
    }
    method = "ConversationService.DeleteMany"
    for dry_run in (True, False):
        request = api.DeleteManyRequest(channels=["many"], limit=1000, dry_run=dry_run)
        assert len(admin.call(method, request).conversation_ids) == 103
    read = [record for _, _, record in read_audit(server.server.data_dir) if record]
    assert len(read) == len(made)
    assert {(record["method"], record["object"]) for record in read} == {
        (method, name) for name in made
    }


def test_a_dry_run_has_no_record_and_what_it_announced_has_one(limited: Start) -> None:
    server = limited()
    admin = server.caller("admin")
    method = "ConversationService.RegenerateNotes"
    made = admin.call(CREATE, api.CreateRequest(channel="web")).conversation.id
    for dry_run in (True, False):
        request = api.RegenerateNotesRequest(conversation_id=made, dry_run=dry_run)
        assert admin.outcome(method, request) == "OK"
        changes = [(it["method"], it["object"]) for it in records(server.server.data_dir)]
        assert changes == ([] if dry_run else [(method, made)])


def test_a_file_that_cannot_be_written_fails_no_call_and_is_logged_once(
    limited: Start, clock: MovableClock
) -> None:
    server = limited()
    admin = server.caller("admin")
    path = server.server.data_dir / NAME
    path.mkdir()
    made = [admin.call(CREATE, api.CreateRequest(channel="web")).conversation.id for _ in range(3)]
    with structlog.testing.capture_logs() as lines:
        for each in made[:2]:
            assert admin.outcome(DELETE, api.DeleteRequest(conversation_id=each)) == "OK"
        path.rmdir()
        assert admin.outcome(DELETE, api.DeleteRequest(conversation_id=made[2])) == "OK"
    logged = [it for it in lines if it["event"].startswith("audit_")]
    assert [(it["event"], it.get("lost")) for it in logged] == [
        ("audit_not_written", None),
        ("audit_resumed", 2),
    ]
    read = [record for _, _, record in read_audit(server.server.data_dir) if record]
    assert read[0] == {"time": NOON, "method": "audit", "outcome": "LOST", "count": 2}
    assert [record.get("object") for record in read[1:]] == [made[2]]


def test_the_command_prints_the_audit_and_names_damage(limited: Start, clock: MovableClock) -> None:
    server = limited()
    reader = server.caller("reader")
    data_dir = server.server.data_dir
    assert run("audit", "--data-dir", data_dir).output == ""
    request = recall_service_pb2.DeleteAnchorRequest(key="secret")
    assert reader.outcome("RecallService.DeleteAnchor", request) == "PERMISSION_DENIED"
    result = run("audit", "--data-dir", data_dir)
    assert result.exit_code == 0
    peer = next(iter(read_audit(data_dir)))[2]["peer"]  # type: ignore[index]
    assert result.stdout == (
        f"{NOON} PERMISSION_DENIED PERMISSION_DENIED RecallService.DeleteAnchor"
        f" token={server.ids[reader]} kind=reader peer={peer}\n"
    )
    as_json = run("audit", "--json", "--data-dir", data_dir)
    assert as_json.stdout.startswith('{"time": "2026-09-21T14:13:20.000Z", "method"')
    # by the machine's clock, which tests do not move
    assert run("audit", "--since", "1ms", "--data-dir", data_dir).stdout == ""
    assert "not a duration" in run("audit", "--since", "soon", "--data-dir", data_dir).output
    with (data_dir / NAME).open("ab") as file:
        file.write(b"{}\n")
    broken = run("audit", "--data-dir", data_dir)
    assert (broken.exit_code, broken.stdout) == (1, result.stdout)
    assert broken.stderr == f"{NAME}, line 2: the checksum does not fit\n"


def test_only_the_owner_reads_the_files(limited: Start) -> None:
    server = limited(token_calls=1)
    reader = server.caller("reader")
    assert [reader.outcome(LIST) for _ in range(2)] == ["OK", "LIMIT_EXCEEDED"]
    assert server.stranger().outcome(LIST) == "UNAUTHENTICATED"
    server.server.stop()
    for name in (NAME, "limits.json"):
        assert stat.S_IMODE((server.server.data_dir / name).stat().st_mode) == 0o600
