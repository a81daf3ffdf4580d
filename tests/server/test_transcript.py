"""The transcript on the disk: its bytes, its rights, and what becomes of a file that something else
wrote to.
"""

import json
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_pb2 import Party
from recollect.v1.message_pb2 import Attachment, ToolCall, Usage
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.log.entries import Unknown
from recollect_server.kernel.log.lines import Damaged, Line, decode
from recollect_server.kernel.log.reader import scan
from recollect_server.kernel.log.repair import look_through

from tests import with_token
from tests.at_rest import lines_of
from tests.cases import each
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import (
    Connect,
    Service,
    agent,
    code_of,
    delete_index,
    failure_of,
    moment,
    tool,
    transcript,
    user,
)

NOW = "2026-09-21T14:13:20.000Z"  # the tests' clock


def sealed(body: str) -> bytes:
    """Return a line with its checksum."""
    data = body.encode()
    return b'%b,"crc":"%08x"}\n' % (data, zlib.crc32(data))


def test_a_transcript_is_byte_for_byte_what_the_design_says(
    service: Service, server: RunningServer
) -> None:
    party = Party(contact="49151", thread_id="t")
    conversation_id = service.create(
        "whatsapp", participants=["ana", "bö"], party=party, model="haiku"
    ).id
    service.append(conversation_id, user("Good morning!"))
    call = ToolCall(id="c1", name="look", arguments='{"a":1}')
    rich = agent(
        'say "hi"\n\\ \u2028 👋', thinking_text="hm", usage=Usage(input=1200, output=350), cost=0.004, channel="email",
        sender="bot", tool_calls=[call], attachments=[Attachment(media_type="a/b", uri="u", bytes_length=9)],
        timestamp=moment(1_500_000_000_007),
    )  # fmt: skip
    rich.metadata.update({"k": [1, None]})
    service.append(conversation_id, rich, tool("c1", ""))
    service.rename(conversation_id, "Server Monitoring Setup")
    service.conversations.SetModel(api.SetModelRequest(conversation_id=conversation_id, model=""))
    service.compress(conversation_id, 1, "sum")
    service.abbreviate(conversation_id, "notes", ["tea"])
    service.abbreviate(conversation_id, "newer")
    expected = [
        f'{{"type":"meta","id":"{conversation_id}","channel":"whatsapp","created":"{NOW}","participants":["ana","bö"],'
        '"model":"haiku","party":{"contact":"49151","threadId":"t"}',
        f'{{"type":"turn","role":"user","content":"Good morning!","timestamp":"{NOW}","turnNumber":1',
        '{"type":"turn","role":"assistant","content":"say \\"hi\\"\\n\\\\ \u2028 👋","timestamp":"2017-07-14T02:40:00.007Z",'
        '"turnNumber":1,"thinkingText":"hm","usage":{"input":1200,"output":350},"cost":0.004,"channel":"email","sender":"bot",'
        '"toolCalls":[{"id":"c1","name":"look","arguments":"{\\"a\\":1}"}],'
        '"attachments":[{"mediaType":"a/b","uri":"u","bytesLength":9}],"metadata":{"k":[1.0,null]},"batch":[1,2]',
        f'{{"type":"turn","role":"tool","content":"","timestamp":"{NOW}","turnNumber":1,"toolCallId":"c1","batch":[2,2]',
        f'{{"type":"event","event":"meta_update","title":"Server Monitoring Setup","manuallyNamed":true,"timestamp":"{NOW}"',
        f'{{"type":"event","event":"meta_update","model":"","timestamp":"{NOW}"',
        f'{{"type":"event","event":"compression","compressedThrough":1,"summary":"sum","timestamp":"{NOW}"',
        f'{{"type":"event","event":"abbreviation","text":"notes","topics":["tea"],"writer":"caller","timestamp":"{NOW}"',
        f'{{"type":"event","event":"abbreviation","text":"newer","writer":"caller","timestamp":"{NOW}"',
    ]
    assert transcript(server, conversation_id).read_bytes() == b"".join(
        sealed(f'{line},"at":"{number}.{zlib.crc32(conversation_id.encode()):08x}"')
        for number, line in enumerate(expected, 1)
    )


def test_the_lines_of_a_request_carry_its_id_and_the_hash_of_its_payload(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.create(request_id="r0").id
    service.append(conversation_id, user("a"), agent("b"), request_id="r1", draft_id="d1")
    service.append(conversation_id, user("a"), agent("b"), request_id="r2", draft_id="d1")
    service.append(conversation_id, user("a"), agent("c"), request_id="r3", draft_id="d1")
    service.rename(conversation_id, "T", request_id="r4")
    lines = [
        json.loads(line) for line in transcript(server, conversation_id).read_bytes().splitlines()
    ]
    assert [line["requestId"] for line in lines] == ["r0", "r1", "r1", "r2", "r2", "r3", "r3", "r4"]
    hashes = [line["requestHash"] for line in lines]
    assert all(len(value) == 32 and value == value.lower() for value in hashes)
    assert hashes[1] == hashes[2] == hashes[3] == hashes[4] != hashes[5]
    assert [line.get("draftId") for line in lines] == [
        None,
        "d1",
        "d1",
        "d1",
        "d1",
        "d1",
        "d1",
        None,
    ]
    assert [line.get("batch") for line in lines[1:3]] == [[1, 2], [2, 2]]


def test_folders_and_files_are_their_owners_alone(service: Service, server: RunningServer) -> None:
    service.conversation_of("one")
    folders = [server.data_dir, server.data_dir / "default", server.folder]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 3
    files = [path for path in server.data_dir.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".jsonl", ".db", ".lock"}
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in files} == {
        path.name: "0o600" for path in files
    }


def test_nothing_but_what_the_design_names_lies_in_the_folder(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("one")
    server.stop()
    assert sorted(
        str(path.relative_to(server.data_dir))
        for path in server.data_dir.rglob("*")
        if path.is_file()
    ) == [
        ".gitignore",
        f"default/conversations/{conversation_id}.jsonl",
        "default/conversations/conversations.db",
        "default/conversations/conversations.db.seal",
        "recollect.format",
        "recollect.lock",
        *["tokens.jsonl"] * with_token.ON,
    ]


def test_every_flipped_bit_of_a_file_is_noticed(
    service: Service, server: RunningServer, tmp_path: Path
) -> None:
    conversation_id = service.create(request_id="r0").id
    service.append(
        conversation_id,
        user("a longer text — with ümläuts"),
        agent("b", usage=Usage(input=1)),
        request_id="r1",
    )
    service.rename(conversation_id, "T")
    whole = transcript(server, conversation_id).read_bytes()
    lines = whole.splitlines()
    for number, line in enumerate(lines, start=1):
        decode(line, number)  # is whole
        damaged = bytearray(line)
        for bit in range(8 * len(line)):
            damaged[bit // 8] ^= 1 << bit % 8
            with pytest.raises(Damaged):
                decode(bytes(damaged), number)
            damaged[bit // 8] ^= 1 << bit % 8
    path = tmp_path / "flipped"
    for end in [position for position, byte in enumerate(whole) if byte == ord("\n")]:
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[end] ^= 1 << bit
            path.write_bytes(damaged)
            read = lines_of(path)
            torn = read[-1].end < len(whole) if read else True
            assert torn or any(line.entry is None for line in read)


def test_verify_names_every_flipped_bit_of_a_file(
    service: Service, server: RunningServer, tmp_path: Path
) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, user("a — ü"), agent("b"))
    whole = transcript(server, conversation_id).read_bytes()
    path = tmp_path / "flipped"
    path.write_bytes(whole)

    def read(until: int) -> Iterator[Line]:
        return scan(path, until=until)

    assert not [item for item in look_through(path, len(whole), read) if isinstance(item, str)]
    silent = []
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        if not any(isinstance(item, str) for item in look_through(path, len(whole), read)):
            silent.append(bit)
    assert silent == []


@each("body", [
        "", "{", "[]", "null", '"text"', "{}", '{"type":"turn"}', '{"type":"turn","role":"system","content":"","timestamp":"x"}',
        '{"type":"turn","role":"user","content":"a","timestamp":"2026-01-01","turnNumber":1}',
        '{"type":"event","event":"compression","timestamp":"2026-01-01T00:00:00Z"}', '{"type":"meta"}', '{"type":"event"}',
        '{"type":"turn","role":"user","content":"a","timestamp":"2026-01-01T00:00:00Z","turnNumber":1,"batch":[1]}',
        '{"type":"turn","role":"user","content":"a","timestamp":"2026-01-01T00:00:00Z","turnNumber":"x"}',
        '{"type":"turn","role":"user","content":9,"timestamp":"2026-01-01T00:00:00Z","turnNumber":1}',
        '{"type":"turn","role":"user","content":"a","timestamp":"2026-01-01T00:00:00Z","turnNumber":1,"toolCalls":[7]}',
        '{"type":"turn","role":"user","content":"a","timestamp":"2026-01-01T00:00:00Z","turnNumber":1,"usage":"x"}',
        '{"type":"turn","role":"user","content":"a","timestamp":"2026-01-01T00:00:00Z","turnNumber":1,"batch":["a","b"]}',
        '{"type":"turn","role":"user","content":"a","timestamp":"2026-01-01T00:00:00Z","turnNumber":4294967296}',
        '{"type":"turn","role":"user","content":"a","timestamp":"2026-01-01T00:00:00Z","turnNumber":1,"batch":[3,2]}',
        '{"type":"turn","role":"user","content":"a","timestamp":"2026-01-01T00:00:00Z","turnNumber":1,"cost":"x"}',
        '{"type":"turn","role":"user","content":"a","timestamp":"2026-01-01T00:00:00Z","turnNumber":1,"metadata":[]}',
        '{"type":"turn","role":"user","content":"a","timestamp":7,"turnNumber":1}',
        '{"type":"meta","id":5,"channel":"web","created":"2026-01-01T00:00:00Z"}',
        '{"type":"event","event":"meta_update","title":5,"timestamp":"2026-01-01T00:00:00Z"}',
    ])  # fmt: skip
def test_a_line_with_a_good_checksum_and_senseless_content_is_damaged_and_raises_nothing_else(
    body: str,
) -> None:
    line = sealed(body[:-1])[:-1]
    with pytest.raises(Damaged):
        decode(line, 2)


@pytest.mark.parametrize(
    "body",
    [
        '{"type":"dream"}',
        '{"type":7}',
        '{"type":"event","event":"mood","timestamp":"2026-01-01T00:00:00Z"}',
    ],
)
def test_a_whole_line_of_a_later_version_is_passed_over(body: str) -> None:
    assert decode(sealed(body[:-1])[:-1], 2).content == Unknown()


def test_a_line_of_a_later_version_keeps_what_this_version_knows_of_it() -> None:
    body = '{"type":"turn","role":"user","content":"a","timestamp":"2026-01-01T00:00:00+01:00","turnNumber":3,"mood":"good"'
    message = decode(sealed(body)[:-1], 7).content
    assert isinstance(message, Message)
    assert message == Message(
        role=message.role,
        content="a",
        timestamp=1_767_222_000_000,
        sequence=7,
        turn_number=3,
    )


def grow(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_lines_that_something_else_added_are_kept_and_the_next_append_comes_behind_them(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("one")
    added = f'{{"type":"turn","role":"user","content":"foreign zebra","timestamp":"{NOW}","turnNumber":2'
    grow(transcript(server, conversation_id), sealed(added))
    codes = [
        code_of(lambda: service.append(conversation_id, user("two"), request_id="r1"))
        for _ in range(2)
    ]
    assert codes in (["UNAVAILABLE", "OK"], ["OK", "OK"])  # the first may be refused
    lines = [
        (message.content, message.sequence, message.turn_number)
        for message in service.load(conversation_id).messages
    ]
    assert lines == [("one", 2, 1), ("foreign zebra", 3, 2), ("two", 4, 3)]
    assert all(line.entry is not None for line in lines_of(transcript(server, conversation_id)))
    assert service.found("foreign") == [conversation_id]


def test_a_tail_that_something_else_left_is_cut_before_the_next_append(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("one")
    path = transcript(server, conversation_id)
    grow(path, b'{"type":"turn","half')
    codes = [
        code_of(lambda: service.append(conversation_id, user("two"), request_id="r1"))
        for _ in range(2)
    ]
    assert codes in (["UNAVAILABLE", "OK"], ["OK", "OK"])  # the first may be refused
    assert [message.content for message in service.load(conversation_id).messages] == ["one", "two"]
    assert all(line.entry is not None for line in lines_of(path))
    assert path.with_name(path.name + ".torn").read_bytes() == b'{"type":"turn","half'


def test_an_append_to_a_transcript_that_was_taken_away_is_not_acknowledged(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("one")
    transcript(server, conversation_id).rename(server.folder / "elsewhere")
    assert failure_of(lambda: service.append(conversation_id, user("two"))).code in (
        "NOT_FOUND",
        "UNAVAILABLE",
    )


def test_an_append_to_a_transcript_that_was_replaced_lands_in_the_new_file(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.conversation_of("one")
    path = transcript(server, conversation_id)
    copy = path.read_bytes()
    path.unlink()
    path.write_bytes(copy)
    codes = [
        code_of(lambda: service.append(conversation_id, user("two"), request_id="r1"))
        for _ in range(2)
    ]
    assert codes in (["UNAVAILABLE", "OK"], ["OK", "OK"])  # the first may be refused
    assert b'"two"' in path.read_bytes()


def test_a_transcript_that_shrank_while_the_server_ran_is_taken_as_it_is_after_a_restart(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    conversation_id = service.conversation_of("one", "two zebra", "three")
    path = transcript(server, conversation_id)
    rest = b"".join(path.read_bytes().splitlines(keepends=True)[:2])
    with path.open("r+b") as file:
        file.truncate(len(rest))
    codes = [
        code_of(lambda: service.append(conversation_id, user("four " * 100), request_id="r1"))
        for _ in range(2)
    ]
    assert codes in (["UNAVAILABLE", "OK"], ["OK", "OK"])  # the first may be refused
    assert path.read_bytes().startswith(rest)
    assert all(line.entry is not None for line in lines_of(path))
    server.stop()
    again = connect(start_server())
    after = [message.content[:4] for message in again.load(conversation_id).messages]
    assert after == ["one", "four"]
    assert again.found("zebra") == []
    assert again.get(conversation_id).message_count == 2


def test_a_link_is_never_followed(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    tmp_path: Path,
) -> None:
    conversation_id = service.conversation_of("one zebra")
    server.stop()
    path = transcript(server, conversation_id)
    outside = tmp_path / "outside.jsonl"
    path.rename(outside)
    path.symlink_to(outside)
    delete_index(server)
    again = connect(start_server())
    assert again.found("zebra") == []
    contents = outside.read_bytes()
    assert code_of(lambda: again.load(conversation_id)) in ("NOT_FOUND", "UNAVAILABLE")
    assert failure_of(lambda: again.append(conversation_id, user("two"))).code in (
        "NOT_FOUND",
        "UNAVAILABLE",
    )
    assert outside.read_bytes() == contents
