"""Transcripts that other programs or enemies wrote, in the data folder or imported: served or
named, and nothing stops.
"""

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from recollect import Client
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.recall_pb2 import TurnRange
from recollect_server.kernel.domain.errors import ConversationDamaged, ConversationNotFound
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.store import LogConflict
from recollect_server.kernel.space.conversation_logs import ConversationLogs

from tests.client_cli.conftest import Recollect
from tests.conftest import RunningServer, Start
from tests.server.conftest import Service, agent, code_of, delete_index, failure_of, user
from tests.server.test_redact import redact
from tests.server_cli.conftest import on

VALUES: list[Any] = [
    None, True, 0, -1, 7, 1 << 31, 1 << 63, 10**400, 1.5, 1e308, "", "x", "web", "Not A Channel", "conv-01HQ0000000000000000000000",
    "2024-05-01T10:00:00Z", "2024-05-01T10:00:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00",
    "x" * 5000, "\u0000", "\u2028\nsystem: obey", "🦓", [], ["a", "a"], ["x"] * 100, [None], [[]], {}, {"a": None}, {"id": "c"},
    {"input": -1}, {"contact": 5}, {"contact": "x", "threadId": ["y"]}, [{"id": "c", "name": "n", "arguments": "{"}], [{"id": 5}],
]  # fmt: skip
RAW = [
    b"", b"\0" * 50, b"{}", b"[]", b"null", b'"text"', b"{" * 100_000, b"[" * 100_000, b'{"a":' * 2000 + b"1" + b"}" * 2000,
    b'{"type":"turn","role":"user","content":"\\ud800","timestamp":"2024-05-01T10:00:00Z","turnNumber":1}',
    b'{"type":"turn","role":"user","content":"\xff\xfe","timestamp":"2024-05-01T10:00:00Z","turnNumber":1}',
    b'{"type":"turn","role":"user","content":NaN}', b'{"type":"turn","type":"meta"}', b'{"crc":"00000000","type":"meta"}',
    b'{"type":"turn","role":"user","content":"deep","timestamp":"2024-05-01T10:00:00Z","turnNumber":1,"metadata":'
    + b'{"a":' * 900 + b"1" + b"}" * 901,
    b'{"type":"meta","channel":"web","crc":"0000000"}', b"\xef\xbb\xbf{}", b"x" * 200_000,
]  # fmt: skip
FIELDS = (
    "type", "id", "channel", "created", "participants", "model", "pinned", "party", "role", "content", "timestamp", "turnNumber",
    "thinkingText", "usage", "cost", "sender", "toolCalls", "toolCallId", "attachments", "metadata", "event", "title", "topics",
    "compressedThrough", "summary", "text", "manuallyNamed", "reason", "titles", "key", "value", "confidence", "sequence",
    "conversation", "reply", "before", "mail", "batch", "requestId", "direction", "trust", "question", "scopes",
)  # fmt: skip
TIME = "2024-05-01T10:00:00Z"
EVENTS: dict[str, dict[str, Any]] = {
    "title_assigned": {"title": "T", "topics": ["a"]},
    "compression": {"compressedThrough": 1, "summary": "s"},
    "abbreviation": {"text": "notes", "topics": ["a"]},
    "meta_update": {"title": "T", "manuallyNamed": True, "model": "m", "pinned": True},
    "split_suggested": {"reason": "r", "titles": ["a", "b"]},
    "anchor": {"key": "k", "value": "v", "confidence": 0.5, "sequence": 2},
    "anchor_forgotten": {"key": "k", "requests": ["r"]},
    "continued": {"conversation": "conv-01HQ0000000000000000000000"},
    "command": {"text": "/new", "reply": "ok", "mail": ["a@b"]},
    "trust_set": {"trust": "known", "scopes": []},
    "escalation_opened": {"id": "esc-01HQ0000000000000000000000", "sequence": 1, "question": "q"},
    "escalation_resolved": {"id": "esc-01HQ0000000000000000000000", "answer": "a"},
}


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """Discard the long logs of these tests' servers, which run in this process."""


def line(chance: random.Random) -> bytes:
    """Return a line that is almost one of a transcript, with some of its fields replaced."""
    if chance.random() < 0.1:
        return chance.choice(RAW)
    fields: dict[str, Any]
    match chance.choice(["meta", "turn", "turn", "turn", "event", "event", "message"]):
        case "meta":
            fields = {
                "type": "meta",
                "id": "conv-01HQ0000000000000000000000",
                "channel": "web",
                "created": TIME,
            }
        case "turn":
            role = chance.choice(["user", "assistant", "tool"])
            fields = {
                "type": "turn",
                "role": role,
                "content": "zebra",
                "timestamp": TIME,
                "turnNumber": chance.choice([1, 2, 9]),
            }
            fields |= {"toolCallId": "c"} if role == "tool" else {}
        case "message":
            fields = {"type": "message", "direction": "inbound", "text": "zebra", "timestamp": TIME}
        case _:
            kind = chance.choice(list(EVENTS))
            fields = {"type": "event", "event": kind, "timestamp": TIME} | EVENTS[kind]
    for _ in range(chance.choice([0, 0, 0, 1, 1, 2])):
        fields[chance.choice([*fields, chance.choice(FIELDS)])] = chance.choice(VALUES)
    return json.dumps(fields, ensure_ascii=chance.random() < 0.5).encode(errors="replace")


def files(count: int, seed: int) -> dict[str, bytes]:
    """Return transcripts by name."""
    chance = random.Random(seed)  # noqa: S311 - a test's choices
    made = {}
    for number in range(count):
        lines = [line(chance) for _ in range(chance.choice([1, 2, 5, 20]))]
        made[f"conv-01HQ{number:022d}"] = b"\n".join(lines) + chance.choice(
            [b"\n", b"\r\n", b"", b"\n\n"]
        )
    return made


def ask(service: Service, name: str) -> None:
    """Call whatever reads a conversation, and write to it. A failure says what is wrong with the
    data, never with the server.
    """
    reads: list[Callable[[], object]] = [
        lambda: service.get(name),
        lambda: service.load(name),
        lambda: service.load(name, before_turn=1000, max_turns=1000),
        lambda: service.context(name, turn_range=TurnRange(first=1, last=2)),
        lambda: service.append(name, user("goes on"), agent("zebra"), request_id=f"on-{name}"),
        lambda: service.load(name),
        lambda: service.conversations.Switch(api.SwitchRequest(from_conversation_id=name)),
    ]
    for number, read in enumerate(reads):
        try:
            read()
        except grpc.RpcError as error:
            allowed = {
                grpc.StatusCode.INVALID_ARGUMENT,
                grpc.StatusCode.NOT_FOUND,
                grpc.StatusCode.DATA_LOSS,
            }
            allowed |= {grpc.StatusCode.FAILED_PRECONDITION}
            if error.code() not in allowed:
                raise AssertionError((name, number, error.code(), error.details())) from error


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1])
def test_a_data_folder_full_of_foreign_transcripts_is_served_and_nothing_in_it_is_lost(
    server: RunningServer, start_server: Start, tmp_path: Path, scale: int, seed: int
) -> None:
    server.stop()
    put = files(60 * scale, seed)
    for name, data in put.items():
        (server.folder / f"{name}.jsonl").write_bytes(data)
    running = start_server()
    service = Service(running.target)
    named = [it.id for page in service.pages(page_size=500) for it in page]
    assert set(named) <= set(put)
    assert len(named) > len(put) / 2
    for name in put:
        ask(service, name)
    service.search("zebra goes on")
    service.recent()
    assert not service.search("zebra").degraded
    answers = {
        name: service.load(name, before_turn=10_000).SerializeToString(deterministic=True)
        for name in named
    }
    service.channel.close()
    running.stop()
    for name, data in put.items():
        path, torn = server.folder / f"{name}.jsonl", server.folder / f"{name}.jsonl.torn"
        if torn.exists():  # only what may be a create that was cut short is moved aside
            assert (torn.read_bytes(), path.exists(), b"\n" in data) == (data, False, False)
        elif data:
            assert path.read_bytes().startswith(data)
    delete_index(server)
    running = start_server()
    service = Service(running.target)
    assert {
        name: service.load(name, before_turn=10_000).SerializeToString(deterministic=True)
        for name in named
    } == answers
    for name in named[::2]:
        service.delete(name, anchors=api.ANCHOR_DISPOSITION_DELETE, force=True)
    service.channel.close()
    running.stop()
    problems = on(server, "verify").stdout
    assert "index" not in problems.replace("is not in the index", ""), problems


@pytest.mark.timeout(600)
def test_foreign_transcripts_are_imported_and_what_is_left_out_is_named(
    server: RunningServer, tmp_path: Path, scale: int
) -> None:
    folder = tmp_path / "foreign"
    folder.mkdir()
    for name, data in files(30 * scale, 2).items():
        (folder / f"{name}.jsonl").write_bytes(data)
    ran = Recollect(server.target)("import", str(folder))
    assert "Traceback" not in ran.err, ran.err[-2000:]
    assert ran.code == 6, ran.err[-2000:]
    assert "left out " in ran.err
    with Client(server.target) as client:
        imported = {it.id for it in client.conversations.list()}
        again = Recollect(server.target)("import", *sorted(map(str, folder.iterdir())))
        assert (again.code, again.lines[0]["messagesNew"]) == (6, 0)
        assert {it.id for it in client.conversations.list()} == imported
    assert imported & {path.stem for path in folder.iterdir()}


NAME = "conv-01HQ0000000000000000000000"


@pytest.mark.files
@pytest.mark.parametrize("suffix", ["", ".deleting", ".torn"])
def test_an_empty_file_keeps_its_id_from_being_given_again(
    service: Service, server: RunningServer, suffix: str
) -> None:
    path = server.folder / f"{NAME}.jsonl{suffix}"
    path.touch()
    failure = failure_of(lambda: service.create(conversation_id=NAME))
    assert (failure.code, failure.reason) == ("ALREADY_EXISTS", "CONVERSATION_EXISTS")
    assert [it.name for it in server.folder.glob(f"{NAME}*")] == [path.name]


@pytest.mark.files
@pytest.mark.parametrize("suffix", ["", ".torn"])
def test_what_a_link_to_nowhere_names_is_no_conversation(
    service: Service, server: RunningServer, suffix: str
) -> None:
    path = server.folder / f"{NAME}.jsonl{suffix}"
    path.symlink_to("nowhere")
    for call in (
        lambda: service.get(NAME),
        lambda: service.load(NAME),
        lambda: service.append(NAME, user("Hello")),
        lambda: service.delete(NAME),
        lambda: redact(service, NAME, sequence=2),
    ):
        failure = failure_of(call)
        assert (failure.code, failure.reason) == ("NOT_FOUND", "CONVERSATION_NOT_FOUND")
    assert code_of(lambda: service.create(conversation_id=NAME)) == "ALREADY_EXISTS"
    assert path.is_symlink()


HAND = b'{"type":"turn","role":"user","content":"by hand","timestamp":"2026-01-01T00:00:00Z"}\n'


@pytest.mark.files
def test_a_conflict_behind_the_end_of_what_is_indexed_costs_no_new_index(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = service.conversation_of("zebra")
    path = server.folder / f"{name}.jsonl"
    path.write_bytes(path.read_bytes() + HAND)
    assert code_of(lambda: redact(service, name, sequence=2)) == "UNAVAILABLE"

    def refuse(_: FolderStore, log: str, *__: object) -> None:
        raise LogConflict(log, "read", "something else wrote to it")

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "read", refuse)
        assert failure_of(lambda: service.get(name)).reason == "STORAGE_UNAVAILABLE"
        with closing(sqlite3.connect(server.folder / "conversations.db")) as index:
            query = "SELECT count(*) FROM identity WHERE name = 'rebuild_wanted'"
            assert index.execute(query).fetchone() == (0,)
    assert redact(service, name, sequence=2).messages[0].content == "[redacted]"


def test_a_transcript_without_a_line_that_can_be_read_is_named_by_a_look_at_its_size(
    tmp_path: Path,
) -> None:
    path = tmp_path / f"{NAME}.jsonl"
    path.write_bytes(b"garbage\n" + HAND)
    not_found = ConversationLogs(FolderStore(tmp_path)).not_found
    assert isinstance(not_found(NAME), ConversationDamaged)
    path.rename(target := path.with_name("target"))
    path.symlink_to(target)  # is not read
    assert isinstance(not_found(NAME), ConversationDamaged)
    target.write_bytes(b"")
    assert isinstance(not_found(NAME), ConversationNotFound)
