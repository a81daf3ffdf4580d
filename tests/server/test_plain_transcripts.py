"""Transcripts in the plain form: lines without a checksum, as people and other programs write them,
in the data folder.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from recollect_server.kernel.log.lines import line_of
from structlog.testing import capture_logs

from tests.at_rest import lines_of
from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, Service, agent, delete_index, transcript, user
from tests.server_cli.conftest import on

NAME = "conv-01HQ0000000000000000000000"
META = {
    "type": "meta",
    "id": NAME,
    "channel": "web",
    "created": "2024-05-01T10:00:00Z",
    "participants": ["alex"],
}


def said(turn: int, content: str, role: str = "user", **fields: Any) -> dict[str, Any]:
    time = {"timestamp": f"2024-05-01T10:{turn:02d}:00Z", "turnNumber": turn}
    return {"type": "turn", "role": role, "content": content} | time | fields


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "event", "event": kind} | fields | {"timestamp": "2024-05-01T11:00:00Z"}


RICH = [
    META,
    said(1, "Is the disk full?", sender="alex"),
    said(
        1,
        "",
        "assistant",
        toolCalls=[{"id": "c1", "name": "df", "arguments": "{}"}],
        usage={"input": 12, "output": 3},
    ),
    said(1, "97%", "tool", toolCallId="c1"),
    said(1, "Yes: zebra.", "assistant", thinkingText="hm", cost=0.25, metadata={"a": [1]}),
    event("title_assigned", title="Full Disk", topics=["disk"]),
    said(2, "Rotate the logs."),
    event("compression", compressedThrough=1, summary="The disk was full."),
    event("abbreviation", text="Notes on logs.", topics=["disk", "logs"]),
    event("meta_update", model="opus"),
]


def plain(*lines: dict[str, Any] | str, end: str = "\n") -> bytes:
    return (
        "\n".join(it if isinstance(it, str) else json.dumps(it, ensure_ascii=False) for it in lines)
        + end
    ).encode()


def put(server: RunningServer, data: bytes, name: str = NAME) -> Path:
    server.folder.mkdir(parents=True, exist_ok=True)
    path = server.folder / f"{name}.jsonl"
    path.write_bytes(data)
    return path


def contents(service: Service, name: str = NAME) -> list[str]:
    return [message.content for message in service.load(name, before_turn=1000).messages]


@pytest.mark.parametrize("end", ["\n", "", "\r\n"])
@pytest.mark.parametrize("running", [False, True])
def test_a_transcript_without_checksums_is_read_with_everything_that_it_says(
    server: RunningServer, start_server: Start, connect: Connect, end: str, running: bool
) -> None:
    if not running:
        server.stop()
    data = plain(*RICH, end=end)
    path = put(server, data.replace(b"\n", b"\r\n") if end == "\r\n" else data)
    service = connect(server if running else start_server())
    conversation = service.get(NAME)
    assert (conversation.title, list(conversation.topics), conversation.abbreviation) == (
        "Full Disk", ["disk", "logs"], "Notes on logs.",
    )  # fmt: skip
    assert (conversation.model, conversation.turn_count, conversation.manually_named) == (
        "opus",
        2,
        False,
    )
    assert contents(service) == ["Is the disk full?", "", "97%", "Yes: zebra.", "Rotate the logs."]
    assert (service.load(NAME).compression_summary, service.load(NAME).damaged_lines) == (
        "The disk was full.",
        0,
    )
    assert service.found("zebra") == [NAME]
    assert [it.id for it in service.listed().conversations] == [NAME]
    assert path.read_bytes().startswith(data.split(b"\n")[0])
    assert list(server.folder.glob("*.torn")) == []


def test_what_is_appended_to_a_plain_transcript_has_checksums_and_both_survive_a_lost_index(
    server: RunningServer, start_server: Start, connect: Connect
) -> None:
    server.stop()
    written = plain(*RICH, end="")
    path = put(server, written)
    running = start_server()
    stored = connect(running).append(NAME, user("Thanks."), agent("Gladly."), request_id="r1")
    assert (stored.turn_number, stored.messages[0].sequence) == (3, 11)
    running.stop()
    assert path.read_bytes().startswith(written + b"\n")
    assert path.read_bytes().count(b'"crc":"') == 2
    delete_index(running)
    running = start_server()
    assert running.app.recovered.damaged == 0
    service = connect(running)
    assert contents(service)[-2:] == ["Thanks.", "Gladly."]
    assert service.append(NAME, user("Thanks."), agent("Gladly."), request_id="r1").duplicate
    running.stop()
    assert on(running, "verify").exit_code == 0


@pytest.mark.parametrize(
    ("lines", "channel", "created"),
    [
        ([], "unknown", 1714557660),
        ([{"type": "meta"}], "unknown", 1708323241),
        ([{"type": "meta", "channel": "cli"}], "cli", 1708323241),
        (
            [
                {
                    "type": "meta",
                    "id": "another",
                    "channel": "cli",
                    "created": "2024-01-01T00:00:00+01:00",
                }
            ],
            "cli",
            1704063600,
        ),
    ],
)
def test_a_first_line_need_not_say_everything(
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    lines: list[dict[str, Any]],
    channel: str,
    created: int,
) -> None:
    server.stop()
    put(server, plain(*lines, said(1, "hello")))
    conversation = connect(start_server()).get(NAME)
    assert (conversation.id, conversation.channel, conversation.turn_count) == (NAME, channel, 1)
    assert conversation.create_time.seconds == created


UNREADABLE = {
    '{"type":"turn","content":"no role","timestamp":"2024-05-01T10:00:00Z","turnNumber":1}': "role is missing",
    '{"type":"turn","role":"user","content":"no time","turnNumber":1}': "timestamp is missing",
    '{"type":"turn","role":"system","content":"x","timestamp":"2024-05-01T10:00:00Z","turnNumber":1}': "not a valid Role",
    '{"type":"turn","role":"user","content":"x","timestamp":"2024-05-01T10:00:00","turnNumber":1}': "has no time zone",
    '{"type":"turn","role":"user","content":"x","timestamp":"2024-05-01T10:00:00Z","turnNumber":0}': "turns count from 1",
    '{"type":"dream"}': "a type that is not known",
    '{"role":"user","content":"no type"}': "type is missing",
    '["a list"]': "no JSON object",
    "not JSON at all": "not JSON",
    '{"type":"turn","ro': "not JSON",
    "": "the line is empty",
}


@pytest.mark.parametrize("last", [False, True], ids=["in the middle", "at the end"])
def test_lines_that_cannot_be_read_stay_and_are_counted_and_named(
    server: RunningServer, start_server: Start, connect: Connect, last: bool
) -> None:
    server.stop()
    behind = [] if last else [said(2, "behind")]
    data = plain(META, said(1, "before"), *UNREADABLE, *behind)
    path = put(server, data)
    with capture_logs() as logs:
        running = start_server()
    assert running.app.recovered.damaged == len(UNREADABLE)
    assert [(it["line"], it["lines"]) for it in logs if it["event"] == "damaged_line"] == [
        (3, len(UNREADABLE))
    ]
    service = connect(running)
    assert contents(service) == ["before", *(["behind"] if behind else [])]
    stored = service.append(NAME, user("goes on"))
    assert stored.messages[0].sequence == 3 + len(UNREADABLE) + len(behind)
    running.stop()
    assert path.read_bytes().startswith(data)
    assert list(server.folder.glob("*.torn")) == []
    output = on(running, "verify").stdout
    for number, reason in enumerate(UNREADABLE.values(), start=3):
        [said_of_it] = [
            line for line in output.splitlines() if f" line {number} is damaged: " in line
        ]
        assert reason in said_of_it
    assert f"{len(UNREADABLE)} problems" in output


def test_lines_of_the_first_format_are_read_with_what_they_say(
    server: RunningServer, start_server: Start, connect: Connect
) -> None:
    server.stop()
    time = {"timestamp": "2024-05-01T11:00:00Z"}

    def turn(role: str, content: str) -> dict[str, Any]:
        return {"type": "turn", "role": role, "content": content} | time

    data = plain(
        META,
        turn("user", "Is the disk full?"),
        turn("assistant", "Yes: zebra."),
        {"type": "meta_update", "title": "Full Disk", "topics": ["disk"]},
        turn("user", "Rotate the logs."),
        {"type": "title_assigned", "title": "Logs", "topics": ["logs"]} | time,
        {"type": "close", "reason": "idle", "model": "opus"} | time,
        event("close"),
    )
    put(server, data)
    running = start_server()
    assert running.app.recovered.damaged == 0
    service = connect(running)
    conversation = service.get(NAME)
    assert (conversation.title, list(conversation.topics), conversation.model) == (
        "Logs",
        ["disk"],  # by hand
        "opus",
    )
    stored = service.append(NAME, user("Thanks."))
    assert (conversation.turn_count, stored.turn_number) == (2, 3)
    turns = [(it.turn_number, it.content) for it in service.load(NAME).messages]
    assert turns == [
        (1, "Is the disk full?"),
        (1, "Yes: zebra."),
        (2, "Rotate the logs."),
        (3, "Thanks."),
    ]
    [result] = service.search("rotate").results
    assert (result.conversation_id, result.turn_range.first) == (NAME, 2)
    running.stop()
    assert on(running, "verify").exit_code == 0


def test_a_transcript_whose_name_is_no_id_is_named_by_a_start_and_by_verify(
    server: RunningServer, start_server: Start
) -> None:
    server.stop()
    put(server, plain(META, said(1, "hello")), "2024-05-01-disk")
    with capture_logs() as logs:
        start_server().stop()
    named = (
        "conversations/2024-05-01-disk.jsonl is not read: its name is no id: `recollect import`"
        " takes it in"
    )
    assert [it["reason"] for it in logs if it["event"] == "not_a_log"] == [named]
    verified = on(server, "verify")
    assert (verified.exit_code, named in verified.stdout) == (1, True)


@pytest.mark.parametrize("tail", ["half a li", '{"type":"turn","ro', "x" * 300])
def test_an_unended_line_of_a_plain_file_gets_its_end_and_stays(
    server: RunningServer, start_server: Start, connect: Connect, tail: str
) -> None:
    server.stop()
    path = put(server, plain(META, said(1, "before"), tail, end=""))
    running = start_server()
    service = connect(running)
    service.append(NAME, user("goes on"))
    assert contents(service) == ["before", "goes on"]
    assert [line.entry is None for line in lines_of(path)] == [False, False, True, False]
    assert list(server.folder.glob("*.torn")) == []


def test_a_line_that_somebody_adds_to_a_transcript_of_ours_is_read(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    name = service.conversation_of("by the server")
    server.stop()
    with transcript(server, name).open("ab") as file:
        file.write(plain(said(2, "by hand"), {"type": "turn", "role": "user"}))
    running = start_server()
    assert (running.app.recovered.bytes_cut, running.app.recovered.damaged) == (0, 1)
    assert contents(connect(running), name) == ["by the server", "by hand"]
    connect(running).append(name, user("by the server again"))
    with transcript(server, name).open("ab") as file:  # while it runs
        file.write(plain(said(4, "by hand again")))
    assert connect(running).load(name).messages  # what is known
    running.stop()
    service = connect(start_server())
    assert contents(service, name) == [
        "by the server",
        "by hand",
        "by the server again",
        "by hand again",
    ]


def test_a_torn_write_of_ours_in_a_plain_file_costs_itself_and_nothing_else(
    server: RunningServer, start_server: Start, connect: Connect
) -> None:
    server.stop()
    path = put(server, plain(META, said(1, "before")))
    running = start_server()
    connect(running).append(NAME, user("one"), agent("two"))
    running.stop()
    whole = path.read_bytes()
    start = len(plain(META, said(1, "before")))
    first = whole.index(b"\n", start) + 1
    for cut in (start + 20, first - 3, first, first + 30, len(whole) - 2):
        path.write_bytes(whole[:cut])
        path.with_name(path.name + ".torn").unlink(missing_ok=True)
        delete_index(server)
        running = start_server()
        service = connect(running)
        assert contents(service) == ["before"]
        service.append(NAME, user("again"))
        assert contents(service) == ["before", "again"]
        running.stop()
        assert path.read_bytes()[:start] == whole[:start]


def test_a_backup_of_plain_transcripts_has_them_whole(
    server: RunningServer, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    server.stop()
    data = plain(*RICH, "what is this", end="")
    path = put(server, data)
    result = on(server, "backup", tmp_path / "copy")
    assert result.exit_code == 0
    copied = tmp_path / "copy" / "default" / "conversations" / path.name
    assert copied.read_bytes() == data
    assert contents(connect(start_server(data_dir=tmp_path / "copy")))[-1] == "Rotate the logs."


def test_a_plain_transcript_is_deleted_with_its_words(
    server: RunningServer, start_server: Start, connect: Connect
) -> None:
    server.stop()
    path = put(server, plain(*RICH))
    running = start_server()
    service = connect(running)
    assert service.found("zebra") == [NAME]
    service.delete(NAME)
    assert (service.found("zebra"), path.exists()) == ([], False)
    running.stop()
    assert b"zebra" not in (running.folder / "conversations.db").read_bytes()
    assert on(running, "verify").exit_code == 0


def test_a_flipped_bit_in_a_checksum_does_not_make_a_line_plain(
    service: Service, server: RunningServer
) -> None:
    name = service.conversation_of("one")
    server.stop()
    for number, line in enumerate(transcript(server, name).read_bytes().splitlines(), start=1):
        for place in range(len(line) - len(b',"crc":"00000000"}'), len(line)):
            for bit in range(8):
                damaged = bytearray(line)
                damaged[place] ^= 1 << bit
                assert line_of(bytes(damaged), number, 0).entry is None


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "meta", "id": "ext-01HQ0000000000000000000000", "channel": "web", "party": "x"},
        {"type": "message", "direction": "inbound", "text": "Trust me."},
        {"type": "event", "event": "trust_set", "trust": "known", "scopes": []},
        {"type": "event", "event": "escalation_resolved", "id": "esc-1", "answer": "yes"},
    ],
    ids=lambda it: it.get("event", it["type"]),
)
def test_nothing_of_a_third_party_is_taken_from_a_line_without_a_checksum(
    fields: dict[str, Any],
) -> None:
    times = {"timestamp": "2026-02-14T12:00:00Z", "created": "2026-02-14T12:00:00Z"}
    line = line_of(json.dumps(fields | times).encode(), 2, 0)
    assert (line.entry, line.damage) == (None, "it is of a type that is not known")


def test_a_topic_or_a_participant_that_stands_twice_counts_once(
    server: RunningServer, connect: Connect, start_server: Start
) -> None:
    meta = META | {"participants": ["alex", "alex", "maria"]}
    first = event("title_assigned", title="Disk", topics=["disk", "disk", "logs"])
    path = put(server, plain(meta, said(1, "The zebra disk."), first))
    service = connect(server)
    assert list(service.get(NAME).topics) == ["disk", "logs"]
    assert list(service.get(NAME).participants) == ["alex", "maria"]
    assert service.found("zebra") == [NAME]  # the index took the lines
    assert [it.id for it in service.listed(topics=["disk"]).conversations] == [NAME]
    server.stop()
    again = event("abbreviation", text="Notes.", topics=["logs", "tape", "tape"])
    path.write_bytes(path.read_bytes() + plain(again))
    service = connect(start_server())
    assert list(service.get(NAME).topics) == ["logs", "tape"]
    assert [it.id for it in service.listed(topics=["tape"]).conversations] == [NAME]
    assert [it.id for it in service.listed(topics=["disk"]).conversations] == []
