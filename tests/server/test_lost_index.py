"""Start-up without the index, or with one that is damaged: every answer is the same."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from recollect.v1.message_pb2 import ToolCall, Usage

from tests.conftest import LONG, MovableClock, RunningServer, Start
from tests.server.conftest import (
    UNKNOWN,
    Connect,
    Service,
    agent,
    answers,
    bytes_under,
    code_of,
    delete_index,
    tool,
    user,
)

QUERIES = ["zebra", "butter scones", "number 3", "北京", "nothing", "the"]


def fill(service: Service, clock: MovableClock) -> list[str]:
    """Create conversations that went through every kind of change."""
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
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    fill(service, clock)
    before = answers(service, QUERIES)
    server.stop()
    files = {
        name: data for name, data in bytes_under(server.folder).items() if name.endswith(".jsonl")
    }
    again = start_server()
    assert (again.app.recovered.rebuilt, again.app.recovered.messages) == (False, 0)
    assert again.app.recovered.conversations == 6
    assert answers(connect(again), QUERIES) == before
    assert {
        name: data for name, data in bytes_under(again.folder).items() if name.endswith(".jsonl")
    } == files


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
    """Overwrite every page but the first: the file opens, and nothing in it can be read."""
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
    """Change an index so that it has a conversation without a transcript, and lacks one that has
    one.
    """
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
    assert (
        after.append(made[3], user("a zebra comes later")).messages[0].sequence
        == first.messages[0].sequence + 1
    )
    assert after.search("later").hits[0].conversation_id == made[3]


PARTS = 8


# apart, so that no worker is left with all pages; `make hostile` tries every page
@pytest.mark.parametrize("part", range(0, PARTS, 1 if LONG else 4))
def test_a_page_of_the_index_that_went_bad_is_mended_by_a_restart_at_the_latest(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
    part: int,
) -> None:
    """Whatever page it is: the server starts, answers or says what it cannot, and after one more
    start all is well.
    """
    fill(service, clock)
    before = answers(service, QUERIES)
    server.stop()
    path = server.folder / "conversations.db"
    whole = path.read_bytes()
    files = {
        name: data for name, data in bytes_under(server.folder).items() if name.endswith(".jsonl")
    }
    wrong = []
    for page in range(1 + part, len(whole) // 4096, PARTS):
        delete_index(server)
        path.write_bytes(whole[: 4096 * page] + b"\0" * 4096 + whole[4096 * (page + 1) :])
        for _ in range(2):
            again = start_server()
            after: list[dict[str, object]] = []
            code = code_of(
                lambda after=after, again=again: after.append(answers(connect(again), QUERIES))  # type: ignore[misc]
            )
            assert code in ("OK", "UNAVAILABLE")
            again.stop()
            if again.app.recovered.rebuilt:
                break  # all is well at once
        if after != [before]:
            wrong.append(page)
        assert {
            name: data
            for name, data in bytes_under(server.folder).items()
            if name.endswith(".jsonl")
        } == files
    assert wrong == []
