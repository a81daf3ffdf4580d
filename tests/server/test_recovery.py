"""Start-up: after a crash in the middle of a write, without the index, with a damaged one, beside another server."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from recollect.v1.message_pb2 import ToolCall, Usage
from recollect_server.app import CannotStart
from recollect_server.domain.ids import is_conversation_id
from recollect_server.storage.transcript.reader import scan
from recollect_server.storage.transcript.repair import mend

from tests.conftest import MovableClock, RunningServer
from tests.server.conftest import (
    UNKNOWN,
    Service,
    agent,
    answers,
    at_once,
    bytes_under,
    code_of,
    delete_index,
    failure_of,
    kept_by,
    tool,
    transcript,
    user,
)

Start = Callable[..., RunningServer]
Connect = Callable[[RunningServer], Service]
QUERIES = ["zebra", "butter scones", "number 3", "北京", "nothing", "the"]


def fill(service: Service, clock: MovableClock) -> list[str]:
    """Conversations with everything that can happen to one."""
    made = []
    for number in range(7):
        conversation_id = service.create(
            "web" if number % 2 else "email",
            participants=[f"p{number}"],
            model="m",
            request_id=f"create-{number}",
        ).id
        made.append(conversation_id)
        for turn in range(1 + number):
            call = ToolCall(id="c", name="n", arguments="{}")
            clock.move(number % 3)
            service.append(
                conversation_id, user(f"zebra number {turn} 我想去北京大学", sender="Ana"),
                agent("with butter", usage=Usage(input=7, output=turn), cost=0.1, tool_calls=[call]), tool("c", "scones"),
                request_id=f"a-{number}-{turn}",
            )  # fmt: skip
    service.rename(made[1], "By Hand")
    service.abbreviate(made[2], "notes on tea", ["tea", "scones"])
    service.compress(made[6], 3, "three turns")
    service.delete(made[4])
    return made


def test_a_restart_changes_no_answer_and_no_byte_of_a_transcript(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    fill(service, clock)
    before = answers(service, QUERIES)
    server.stop()
    kept = {name: data for name, data in bytes_under(server.folder).items() if name.endswith(".jsonl")}
    again = start_server()
    assert (again.app.recovered.rebuilt, again.app.recovered.messages) == (False, 0)
    assert again.app.recovered.conversations == 6
    assert answers(connect(again), QUERIES) == before
    assert {name: data for name, data in bytes_under(again.folder).items() if name.endswith(".jsonl")} == kept


def lose(folder: Path) -> None:
    (folder / "conversations.db").unlink()


def garbage(folder: Path) -> None:
    (folder / "conversations.db").write_bytes(b"this is not a database " * 1000)


def empty(folder: Path) -> None:
    (folder / "conversations.db").write_bytes(b"")


def half(folder: Path) -> None:
    path = folder / "conversations.db"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def cut_odd(folder: Path) -> None:
    path = folder / "conversations.db"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1000)


def header(folder: Path) -> None:
    with (folder / "conversations.db").open("r+b") as file:
        file.write(b"\0" * 100)


def zeros(folder: Path) -> None:
    """Every page but the first: the file opens, and nothing in it can be read."""
    path = folder / "conversations.db"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\0" * (size - 4096))


def garbled_wal(folder: Path) -> None:
    (folder / "conversations.db-wal").write_bytes(b"garbage" * 5000)


def newer(folder: Path) -> None:
    with apsw.Connection(str(folder / "conversations.db")) as connection:
        connection.pragma("user_version", 99)
    connection.close()


def without(table: str) -> Callable[[Path], None]:
    def drop(folder: Path) -> None:
        with apsw.Connection(str(folder / "conversations.db")) as connection:
            connection.execute(f"DROP TABLE {table}")
        connection.close()

    drop.__name__ = f"without_{table}"
    return drop


def of_another_folder(folder: Path) -> None:
    """An index that knows a conversation without a transcript, and not all that are there."""
    with apsw.Connection(str(folder / "conversations.db")) as connection:
        connection.execute("UPDATE conversations SET id = ? WHERE number = 1", (UNKNOWN,))
    connection.close()


DAMAGES = [
    lose, garbage, empty, half, cut_odd, header, zeros, garbled_wal, newer, of_another_folder,
    *map(without, ("conversations", "messages", "turns_fts", "turns_fts_data", "progress", "requests", "updates", "notes")),
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_whatever_happened_to_the_index_every_answer_is_the_same(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
    damage: Callable[[Path], None],
) -> None:
    made = fill(service, clock)
    before = answers(service, QUERIES)
    first = service.append(made[3], user("once"), request_id="r1")
    before = answers(service, QUERIES)
    server.stop()
    damage(server.folder)
    again = start_server()
    after = connect(again)
    assert answers(after, QUERIES) == before
    repeated = after.append(made[3], user("once"), request_id="r1")
    assert (repeated.duplicate, repeated.messages) == (True, first.messages)
    assert after.append(made[3], user("a zebra comes later")).messages[0].sequence == first.messages[0].sequence + 1
    assert after.search("later").hits[0].conversation_id == made[3]


def test_a_page_of_the_index_that_went_bad_is_mended_by_a_restart_at_the_latest(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    """Whatever page it is: the server starts, answers or says what it cannot, and after one more start all is well."""
    fill(service, clock)
    before = answers(service, QUERIES)
    server.stop()
    path = server.folder / "conversations.db"
    whole = path.read_bytes()
    kept = {name: data for name, data in bytes_under(server.folder).items() if name.endswith(".jsonl")}
    wrong = []
    for page in range(1, len(whole) // 4096):
        delete_index(server)
        path.write_bytes(whole[: 4096 * page] + b"\0" * 4096 + whole[4096 * (page + 1) :])
        for _ in range(2):
            again = start_server()
            after: list[dict[str, object]] = []
            code = code_of(lambda after=after, again=again: after.append(answers(connect(again), QUERIES)))  # type: ignore[misc]
            assert code in ("OK", "UNAVAILABLE")
            again.stop()
        if after != [before]:
            wrong.append(page)
        assert {name: data for name, data in bytes_under(server.folder).items() if name.endswith(".jsonl")} == kept
    assert wrong == []


@contextmanager
def one_transcript(service: Service, server: RunningServer, tmp_path: Path, *batches: int) -> Iterator[tuple[Path, Path, bytes]]:
    """A folder with nothing but a transcript that was written in batches of so many messages, and its bytes."""
    conversation_id = service.create().id
    for number, count in enumerate(batches):
        service.append(conversation_id, user(f"batch {number} 🦓"), *(agent(f"answer {n}") for n in range(count - 1)))
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
            mended = mend(path, torn)
            if cut >= len(whole) - 1:  # whole, or nothing but the last newline is gone
                assert mended is None
                assert path.read_bytes() == whole
            else:
                assert path.read_bytes() == whole[:start]
                assert (mended.bytes_cut if mended else 0) == cut - start
                assert (torn.read_bytes() if torn.exists() else b"") == whole[start:cut]
            assert mend(path, torn) is None


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
            assert mend(path, torn) is not None
            assert (path.read_bytes(), torn.read_bytes()) == (whole[:start], bytes(damaged[start:]))


def test_a_damaged_batch_with_a_good_one_behind_it_stays(service: Service, server: RunningServer, tmp_path: Path) -> None:
    with one_transcript(service, server, tmp_path, 1, 3, 2) as (path, torn, whole):
        for number in range(5):
            lines = whole.splitlines(keepends=True)
            lines[number] = lines[number].replace(b"crc", b"CRC")
            path.write_bytes(b"".join(lines))
            assert mend(path, torn) is None
            assert path.read_bytes() == b"".join(lines)
            assert [line.sequence for line in scan(path) if line.entry is None] == [number + 1]


def test_torn_tails_gather_and_none_is_lost(service: Service, server: RunningServer, start_server: Start, connect: Connect) -> None:
    conversation_id = service.told("one")
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
    assert [message.content for message in connect(running).load(conversation_id).messages] == ["one", "more 0", "more 1", "more 2"]


@pytest.mark.parametrize("index_lost", [False, True])
@pytest.mark.parametrize("part", [0.0, 0.4, 1.0])
def test_after_a_torn_tail_the_server_answers_the_rest_and_takes_the_next_turn(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, index_lost: bool, part: float
) -> None:
    conversation_id = service.told("one zebra", "two zebra")
    other = service.told("three zebra")
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


def test_a_lost_newline_is_restored(service: Service, server: RunningServer, start_server: Start, connect: Connect) -> None:
    conversation_id = service.told("one", "two")
    before = answers(service, ["two"])
    server.stop()
    path = transcript(server, conversation_id)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    again = start_server()
    assert path.read_bytes() == whole
    assert again.app.recovered.bytes_cut == 0
    assert answers(connect(again), ["two"]) == before


@pytest.mark.parametrize("index_lost", [False, True])
def test_a_damaged_line_in_the_middle_is_passed_over_and_reported(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, index_lost: bool
) -> None:
    conversation_id = service.told("one", "two zebra", "three")
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
    conversation_id = service.told("one zebra", "two")
    server.stop()
    path = transcript(server, conversation_id)
    path.write_bytes(path.read_bytes().replace(b'"type":"meta"', b'"type":"mexa"', 1))
    delete_index(server)
    again = connect(start_server())
    assert [message.content for message in again.load(conversation_id).messages] == ["one zebra", "two"]
    assert again.get(conversation_id).channel == "unknown"
    assert again.found("zebra") == [conversation_id]
    assert again.append(conversation_id, user("three")).turn_number == 3


def test_transcripts_that_the_index_does_not_know_are_picked_up(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    conversation_id = service.told("one zebra", "two", participants=["ana"])
    service.rename(conversation_id, "From Elsewhere")
    before = service.get(conversation_id)
    server.stop()
    other = start_server(data_dir=tmp_path / "other")
    own = connect(other).told("own zebra")
    other.stop()
    shutil.copy(transcript(server, conversation_id), other.folder)
    again = start_server(data_dir=tmp_path / "other")
    assert (again.app.recovered.rebuilt, again.app.recovered.messages, again.app.recovered.conversations) == (False, 2, 2)
    after = connect(again)
    assert after.get(conversation_id) == before
    assert set(after.found("zebra")) == {own, conversation_id}


def test_a_transcript_that_went_away_is_gone_from_every_answer(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    stays, goes = service.told("zebra stays"), service.told("zebra goes")
    server.stop()
    transcript(server, goes).unlink()
    again = connect(start_server())
    assert again.found("zebra") == [stays]
    assert [conversation.id for conversation in again.listed().conversations] == [stays]
    assert failure_of(lambda: again.get(goes)).reason == "CONVERSATION_NOT_FOUND"


def test_files_that_are_no_transcripts_do_not_keep_a_server_from_starting(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation_id = service.told("one zebra")
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


def test_a_transcript_under_another_name_is_a_conversation_of_that_name(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation_id = service.told("one zebra")
    server.stop()
    copied = f"{conversation_id[:-3]}0ZZ"
    shutil.copy(transcript(server, conversation_id), server.folder / f"{copied}.jsonl")
    again = connect(start_server())
    assert set(again.found("zebra")) == {conversation_id, copied}
    assert [message.content for message in again.load(copied).messages] == ["one zebra"]


def test_a_second_server_on_the_same_folder_is_refused_and_harms_nothing(
    service: Service, server: RunningServer, start_server: Start
) -> None:
    conversation_id = service.told("one")
    kept = kept_by(service, server)
    with pytest.raises(CannotStart, match=r"another server uses the data folder .*: stop it, or name another") as refused:
        start_server()
    assert str(server.data_dir) in str(refused.value)
    assert kept_by(service, server) == kept
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
