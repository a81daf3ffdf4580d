"""Start-up after a crash in the middle of a write: what was written last is whole or not there, and
the rest survives.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from recollect import Client
from recollect.cli.administration.upkeep import TORN_ADVICE
from recollect_server.kernel.index.file import break_seal, keep_ends, remove_files
from recollect_server.kernel.index.migrations import OLDEST
from recollect_server.kernel.log.repair import repair_tail
from recollect_server.run import app
from recollect_server.text.snippets import without_marks
from structlog.testing import capture_logs

from tests.at_rest import INDEX, lines_of
from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, Service, agent, answers, delete_index, transcript, user
from tests.server_cli.conftest import run
from tests.waiting import until

QUERIES = ["zebra", "butter scones", "number 3", "北京", "nothing", "the"]


@contextmanager
def one_transcript(
    service: Service, server: RunningServer, tmp_path: Path, *batches: int
) -> Iterator[tuple[Path, Path, bytes]]:
    """Yield a folder that has one transcript alone, written in batches of these sizes, and its
    bytes.
    """
    conversation_id = service.create().id
    for number, count in enumerate(batches):
        service.append(
            conversation_id,
            user(f"batch {number} 🦓"),
            *(agent(f"answer {n}") for n in range(count - 1)),
        )
    server.stop()
    whole = transcript(server, conversation_id).read_bytes()
    folder = tmp_path / "cut"
    folder.mkdir()
    path = folder / f"{conversation_id}.jsonl"
    yield path, folder / f"{conversation_id}.jsonl.torn", whole


@pytest.mark.parametrize("last", [1, 3])
def test_a_tail_cut_at_any_byte_costs_the_last_batch_and_nothing_else(
    service: Service, server: RunningServer, tmp_path: Path, last: int
) -> None:
    with one_transcript(service, server, tmp_path, 2, 1, last) as (path, torn, whole):
        lines = whole.splitlines(keepends=True)
        start = len(b"".join(lines[:-last]))
        for cut in range(start, len(whole) + 1):
            path.write_bytes(whole[:cut])
            torn.unlink(missing_ok=True)
            repaired = repair_tail(path, torn)
            if cut >= len(whole) - 1:  # whole, or nothing but the last newline is gone
                assert repaired is None
                assert path.read_bytes() == whole
            else:
                assert path.read_bytes() == whole[:start]
                assert (repaired.bytes_cut if repaired else 0) == cut - start
                assert (torn.read_bytes() if torn.exists() else b"") == whole[start:cut]
            assert repair_tail(path, torn) is None


@pytest.mark.parametrize("last", [1, 3])
def test_any_byte_of_the_last_batch_that_went_bad_costs_that_batch_and_nothing_else(
    service: Service, server: RunningServer, tmp_path: Path, last: int
) -> None:
    """The pages of one write reach the disk in any order: a batch is whole or it is not there."""
    with one_transcript(service, server, tmp_path, 2, 1, last) as (path, torn, whole):
        start = len(b"".join(whole.splitlines(keepends=True)[:-last]))
        for place in range(start, len(whole) - 1, 3):
            damaged = bytearray(whole)
            damaged[place] ^= 4
            path.write_bytes(damaged)
            torn.unlink(missing_ok=True)
            assert repair_tail(path, torn) is not None
            assert (path.read_bytes(), torn.read_bytes()) == (whole[:start], bytes(damaged[start:]))


def test_a_damaged_batch_with_a_good_one_behind_it_stays(
    service: Service, server: RunningServer, tmp_path: Path
) -> None:
    with one_transcript(service, server, tmp_path, 1, 3, 2) as (path, torn, whole):
        for number in range(5):
            lines = whole.splitlines(keepends=True)
            lines[number] = lines[number].replace(b"crc", b"CRC")
            path.write_bytes(b"".join(lines))
            assert repair_tail(path, torn) is None
            assert path.read_bytes() == b"".join(lines)
            assert [line.sequence for line in lines_of(path) if line.entry is None] == [number + 1]


def test_torn_tails_gather_and_none_is_lost(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation_id = service.conversation_of("one")
    running = server
    for number in range(3):
        running.stop()
        with transcript(running, conversation_id).open("ab") as file:
            file.write(b"half %d" % number)
        running = start_server()
        assert running.app.recovered.bytes_cut == 6
        connect(running).append(conversation_id, user(f"more {number}"))
    path = transcript(running, conversation_id)
    assert path.with_name(path.name + ".torn").read_bytes() == b"half 0half 1half 2"
    assert [message.content for message in connect(running).load(conversation_id).messages] == [
        "one",
        "more 0",
        "more 1",
        "more 2",
    ]


@pytest.mark.parametrize("index_lost", [False, True])
@pytest.mark.parametrize("part", [0.0, 0.4, 1.0])
def test_after_a_torn_tail_the_server_answers_the_rest_and_takes_the_next_turn(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    index_lost: bool,
    part: float,
) -> None:
    conversation_id = service.conversation_of("one zebra", "two zebra")
    other = service.conversation_of("three zebra")
    before = answers(service, QUERIES)
    service.append(conversation_id, user("lost zebra"), agent("lost too"), request_id="r1")
    server.stop()
    path = transcript(server, conversation_id)
    whole = path.read_bytes()
    last_two = len(b"".join(whole.splitlines(keepends=True)[-2:]))
    path.write_bytes(whole[: len(whole) - last_two + int(part * (last_two - 2))])
    if index_lost:
        delete_index(server)
    again = connect(start_server())
    assert answers(again, QUERIES) == before
    stored = again.append(conversation_id, user("lost zebra"), agent("lost too"), request_id="r1")
    assert (stored.duplicate, stored.turn_number, stored.messages[0].sequence) == (False, 3, 4)
    assert again.get(other).turn_count == 1


def _rebuild(server: RunningServer) -> None:
    assert run("rebuild", "--data-dir", server.data_dir).exit_code == 0


def _lose_the_seal(server: RunningServer) -> None:
    """Leave the index as a kill does: the start finds that it has what no transcript has."""
    break_seal(server.folder)


def _age_the_index(server: RunningServer) -> None:
    with apsw.Connection(str(server.folder / INDEX)) as connection:
        connection.pragma("user_version", OLDEST - 1)
    connection.close()


def _kill_a_rebuild(server: RunningServer) -> None:
    keep_ends(server.folder)
    remove_files(server.folder)


@pytest.mark.parametrize("line", [-3, -2, -1])
@pytest.mark.parametrize("renew", [_rebuild, _lose_the_seal, _age_the_index, _kill_a_rebuild])
def test_a_damaged_line_of_the_last_batch_that_an_index_had_costs_that_line_alone(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    renew: Callable[[RunningServer], None],
    line: int,
) -> None:
    texts = ["one zebra", "two zebra", "three zebra"]
    first = service.create().id
    service.append(first, user(texts[0]), agent(texts[1]), agent(texts[2]), request_id="r1")
    server.stop()
    path = transcript(server, first)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b"zebra", b"zebru")
    path.write_bytes(b"".join(lines))
    renew(server)
    again = start_server()
    del texts[line]
    now = connect(again)
    assert [it.content for it in now.load(first).messages] == texts
    assert sorted(without_marks(it.snippet)[0] for it in now.search("zebra").hits) == sorted(texts)
    now.append(first, user("four"), request_id="r2")
    again.stop()
    assert path.read_bytes().startswith(b"".join(lines))
    assert not path.with_name(f"{path.name}.torn").exists()
    verified = run("verify", "--data-dir", server.data_dir)
    damaged = len(lines) + line + 1
    assert f"{first}: line {damaged} is damaged: the checksum does not fit\n" in verified.stdout
    assert "1 conversation, 3 messages, 1 problem\n" in verified.stdout


def test_a_damaged_line_of_the_last_batch_costs_itself_where_an_index_is_made_anew_beside_calls(
    service: Service, server: RunningServer, connect: Connect
) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, user("one zebra"), agent("two zebra"), agent("three zebra"))
    server.stop()
    path = transcript(server, conversation_id)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"two zebra", b"two zebru"))
    _lose_the_seal(server)
    with capture_logs() as logs:
        started = app.start(server.settings, clock=server.clock, compared_at_once=0)
        again = RunningServer(started, server.clock, server.settings)
        until(lambda: any(it["event"] == "index_made_anew" for it in logs))
    texts = [it.content for it in connect(again).load(conversation_id).messages]
    again.stop()
    assert texts == ["one zebra", "three zebra"]
    assert not path.with_name(f"{path.name}.torn").exists()
    assert not list(server.folder.glob("*.ends*"))


def test_what_was_cut_off_is_named_with_what_to_do_until_somebody_removes_it(
    service: Service, server: RunningServer, start_server: Start, no_log: None
) -> None:
    conversation_id = service.conversation_of("one")
    with Client(server.target) as client:
        client.recall.set_anchor("key", "value")
    server.stop()
    space = server.folder.parent
    files = [
        f"{space.name}/anchors.jsonl.torn",
        f"{space.name}/conversations/{conversation_id}.jsonl.torn",
    ]
    for file in files:
        with (server.data_dir / file.removesuffix(".torn")).open("ab") as log:
            log.write(b"half a line")
    again = start_server()
    options = ("--data-dir", server.data_dir)
    with Client(again.target) as client:
        stats = client.admin.get_stats().space
        assert (stats.torn_transcripts, stats.torn_bytes) == (2, 22)
        assert list(stats.torn_files) == files
    live = run("verify", *options)  # which asks the server
    again.stop()
    verified, counted = run("verify", *options), run("stats", *options)
    assert (verified.exit_code, "0 problems" in verified.stdout) == (0, True)
    assert "torn_tails: 2 files, 22 bytes\n" in counted.stdout
    for file in files:
        assert f"{file} has what a start cut off a log. {TORN_ADVICE}" in live.stderr
        assert (
            f"11 bytes that a start cut off a log are in {file}. {TORN_ADVICE}" in verified.stdout
        )
        assert f"torn_tail {file}: 11 bytes. {TORN_ADVICE}\n" in counted.stdout
        (server.data_dir / file).unlink()
    assert "torn" not in run("verify", *options).stdout
    assert "torn_tails: 0 files, 0 bytes\ndeletes" in run("stats", *options).stdout


def test_a_lost_newline_is_restored(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation_id = service.conversation_of("one", "two")
    before = answers(service, ["two"])
    server.stop()
    path = transcript(server, conversation_id)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    again = start_server()
    assert path.read_bytes() == whole
    assert again.app.recovered.bytes_cut == 0
    assert answers(connect(again), ["two"]) == before
