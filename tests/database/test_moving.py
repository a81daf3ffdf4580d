"""`recollect-server migrate`: all logs from a folder to a database and back, byte for byte,
whatever ends it half-way.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from signal import SIGKILL
from threading import Event

import psycopg
import pytest
from recollect import CheckpointRecord, Client, Message, StoredInConversation
from recollect_server.kernel.failpoints import FAILPOINTS
from recollect_server.run.folder import CannotStart

from tests.anchors.conftest import set_anchor
from tests.conftest import Start
from tests.crash.load import process
from tests.external.conftest import Panel
from tests.postgres import Pooler, Postgres
from tests.programs import SERVER, Forked
from tests.server.conftest import Connect, answers
from tests.server_cli.conftest import run
from tests.streaming.conftest import Subscriber
from tests.waiting import until

OF_MOVES = {point for point in FAILPOINTS if point.startswith("move.")}
QUERIES = ["zebra", "butter", "apricot", "never"]
SECRET = "s3cret"  # noqa: S105 - of nobody


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """Keep the log of servers out of what commands print."""


@pytest.fixture
def folder(start_server: Start, connect: Connect, tmp_path: Path) -> Path:
    """Fill a folder with logs of every kind in two spaces, and stop its server."""
    data_dir = tmp_path / "data"
    server = start_server(data_dir=data_dir)
    for space, word in (("default", "zebra"), ("ada", "apricot")):
        with Client(server.target, space=space) as client:
            client.channels.add_owner_identity("whatsapp", "+1555000")
            for number in range(3):
                one = client.conversations.create(
                    "web", messages=[Message.user(f"{word} {number}")]
                )
                client.conversations.append_turn(one.id, [Message.assistant("butter")])
            client.conversations.delete(one.id)
            received = client.channels.receive("whatsapp", "m1", "never again", sender="+1555000")
            assert isinstance(received.outcome, StoredInConversation)
            client.conversations.delete(received.outcome.conversation.id, force=True)
            client.channels.receive("whatsapp", "m2", f"{word} of a stranger", sender="+1555999")
            client.checkpoints.put_records("alex", [CheckpointRecord("a", b"1" * 3000)])
    with Client(server.target) as client:
        long = client.conversations.create("web")
        for number in range(2):  # more than one part of a copy
            texts = [Message.user(f"{number}{at}" + "x" * 700_000) for at in range(5)]
            client.conversations.append_turn(long.id, texts)
        client.admin.create_space("empty")
    set_anchor(connect(server), "name", "Alex")
    server.stop()
    return data_dir


def logs_in(data_dir: Path) -> dict[str, bytes]:
    """Return all logs of all spaces of a folder, and its tokens."""
    paths = (path for path in data_dir.rglob("*.jsonl") if path.name != "audit.jsonl")
    return {str(path.relative_to(data_dir)): path.read_bytes() for path in paths}


def migrate(origin: object, target: object) -> str:
    """Move, and return what is printed, with an error too."""
    result = run("migrate", "--from", origin, "--to", target)
    assert result.exit_code in (0, 1)
    return result.stdout + result.stderr


def test_a_folder_moves_to_a_database_and_back_byte_for_byte_with_the_same_answers(
    postgres: Postgres, folder: Path, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    before = logs_in(folder)
    url = postgres.new_database()
    kinds = ("conversations/conv-", "external/ext-", "threads/thread-", "identities", "forgotten")
    assert "default/anchors.jsonl" in before
    for kind in kinds:
        assert any(f"ada/{kind}" in name for name in before), kind
    printed = migrate(folder, url)
    assert f"All logs of the folder {folder} are in the database" in printed
    table = [line.split() for line in printed.splitlines()[:5]]
    assert [row[0] for row in table] == ["space", "ada", "default", "empty", "all"]
    assert [row[4:] for row in table[1:4]] == [["the", "same"]] * 3
    assert int(table[4][1]) == len(before)
    assert int(table[4][2]) == sum(map(len, before.values()))
    back = migrate(url, tmp_path / "back")
    assert [line.split() for line in back.splitlines()[:5]] == table
    assert logs_in(tmp_path / "back") == before == logs_in(folder)
    assert (tmp_path / "back/recollect.format").exists()  # before a server has used it
    places: list[dict[str, object]] = [
        {"data_dir": folder},
        {"data_dir": tmp_path / "local", "store": url},
        {"data_dir": tmp_path / "back"},
    ]
    everything, searches, made = [], [], []
    for place in places:
        server = start_server(**place)
        everything.append(answers(connect(server), QUERIES))
        with Client(server.target) as client:
            made.append([it.name for it in client.admin.list_spaces()])
        with Client(server.target, space="ada") as client:
            assert client.channels.receive("whatsapp", "m1", "never", sender="+1555000").duplicate
            searches.append([client.recall.search(query).hits for query in QUERIES])
        server.stop()
    assert everything[0] == everything[1] == everything[2]
    assert made == [["ada", "default", "empty"]] * 3
    assert searches[0] == searches[1] == searches[2]
    assert [bool(it) for it in searches[0]] == [False, True, True, False]


POINTS = [("there", point) for point in sorted(OF_MOVES)]
POINTS += [("there", "move.part:3"), ("back", "move.part:3"), ("back", "move.compared")]


@pytest.mark.parametrize(("way", "point"), POINTS)
def test_a_move_that_is_killed_goes_on_and_nobody_serves_a_part_of_it(
    way: str, point: str, postgres: Postgres, folder: Path, start_server: Start, tmp_path: Path
) -> None:
    assert run("token", "create", "--kind", "brain", "--data-dir", folder).exit_code == 0
    before = logs_in(folder)
    url = postgres.new_database()
    places: tuple[object, object] = (folder, url)
    if way == "back":
        assert "byte for byte" in migrate(*places)
        places = (url, tmp_path / "back")
    target = {"store": url} if way == "there" else {"data_dir": tmp_path / "back"}
    arguments = ["migrate", "--from", str(places[0]), "--to", str(places[1])]
    environment = os.environ | {"RECOLLECT_KILL_AT": point}
    with Forked(SERVER, arguments, env=environment, stdout=subprocess.DEVNULL) as process:
        assert process.wait() == -SIGKILL
    is_ended = point == "move.ended"
    if not is_ended:
        with pytest.raises(CannotStart, match="holds a part of what is moved from the "):
            start_server(**{"data_dir": tmp_path / "new"} | target)
    again = migrate(*places)
    assert ("nothing to do" if is_ended else "byte for byte") in again
    assert "nothing to do" in migrate(*places)
    if way == "there":
        assert "(tokens) " in migrate(url, tmp_path / "back")
    assert logs_in(tmp_path / "back") == before
    shutil.rmtree(folder / "default")
    shutil.rmtree(folder / "ada")
    assert "is not empty, it has tokens: name an empty" in migrate(tmp_path / "back", folder)


def test_the_lock_of_a_killed_move_is_waited_for_until_postgresql_ends_it(
    postgres: Postgres, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    url = postgres.new_database()
    start_server(store=url, data_dir=tmp_path / "first").stop()
    waiting = (
        "SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database"
        " WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
    )
    starts: dict[str, Callable[[], str]] = {
        "byte for byte": lambda: migrate(url, tmp_path / "moved"),
        "conv-": lambda: connect(
            start_server(store=url, data_dir=tmp_path / "new")
        ).conversation_of("zebra"),
    }
    with ThreadPoolExecutor() as pool:
        for expected, start in starts.items():
            with psycopg.connect(url) as killed:
                killed.execute("SELECT pg_advisory_xact_lock(7018351, 1)")
                result = pool.submit(start)
                until(lambda: postgres.execute(waiting, url))
            assert expected in result.result(30)


def test_a_source_that_changed_between_two_tries_is_copied_as_it_is_now(
    postgres: Postgres, folder: Path, tmp_path: Path
) -> None:
    url = postgres.new_database()
    arguments = ["migrate", "--from", str(folder), "--to", url]
    environment = os.environ | {"RECOLLECT_KILL_AT": "move.compared"}
    with Forked(SERVER, arguments, env=environment, stdout=subprocess.DEVNULL) as process:
        assert process.wait() == -SIGKILL
    first, second, third = sorted((folder / "default/conversations").glob("*.jsonl"))[:3]
    first.write_bytes(first.read_bytes().replace(b"zebra", b"ZEBRA"))  # as long as it was
    second.unlink()
    with third.open("ab") as file:
        file.write(b'{"type":"turn","half')  # never acknowledged
    shutil.rmtree(folder / "ada")
    assert "byte for byte" in migrate(folder, url)
    assert not third.read_bytes().endswith(b"half")
    migrate(url, tmp_path / "back")
    assert logs_in(tmp_path / "back") == logs_in(folder)
    assert not (tmp_path / "back/ada").exists()


def test_a_move_refuses_places_in_use_or_with_other_logs_in_a_sentence(
    postgres: Postgres, folder: Path, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    secret = url.replace("postgres@", f"postgres:{SECRET}@")
    server = start_server(data_dir=folder)
    refusals = [migrate(folder, url)]
    assert f"another server uses the data folder {folder}: stop it, or" in refusals[-1]
    assert "name another folder with --from" in refusals[-1]
    server.stop()
    assert "all     " in migrate(folder, secret)
    (tmp_path / "other").mkdir()
    refusals.append(migrate(tmp_path / "other", folder))
    assert f"the folder {folder} is not empty, it has logs of the space ada" in refusals[-1]
    shutil.copytree(folder, tmp_path / "copy")
    refusals.append(migrate(tmp_path / "copy", secret))
    assert "is not empty, it has logs of the space ada: name an empty place" in refusals[-1]
    with_database = start_server(store=url, data_dir=tmp_path / "over it")
    refusals.append(migrate(secret, tmp_path / "back"))
    assert "another server uses the database" in refusals[-1]
    with_database.stop()
    (folder / "default/conversations").rename(folder / "default/elsewhere")
    refusals.append(migrate(tmp_path / "none", url))
    assert f"there is no folder {tmp_path / 'none'}: name another with --from" in refusals[-1]
    refusals.append(migrate(folder, folder / "."))
    assert "--from and --to are the same place" in refusals[-1]
    refusals.append(migrate(folder, folder / "default" / "copy"))
    assert f"--to lies in the folder of --from, {folder}: name a folder beside it" in refusals[-1]
    assert not (folder / "default" / "copy").exists()
    refusals.append(migrate(folder, tmp_path))
    assert f"--from lies in the folder of --to, {tmp_path}: name a folder" in refusals[-1]
    (folder / "recollect.format").write_text('{"format":99,"version":"9.0"}')
    refusals.append(migrate(folder, tmp_path / "old"))
    assert "was written by Recollect 9.0, in format 99" in refusals[-1]
    refusals.append(migrate("folder", url))
    refusals.append(migrate("", url))
    assert "--from: name the path of the folder" in refusals[-1]
    (tmp_path / "copy/moved_from.json").write_text("{")
    for places in ((tmp_path / "copy", tmp_path / "c"), (tmp_path / "other", tmp_path / "copy")):
        refusals.append(migrate(*places))
        assert f"{tmp_path / 'copy'} holds a part of what is moved from another " in refusals[-1]
    refusals.append(migrate("http://there", url))
    refusals.append(migrate("postgresql://a:s3cret@127.0.0.1:1/x", tmp_path / "b"))
    for text in refusals:
        assert text.startswith("Error: ")
        assert text.count("\n") == 1
        assert SECRET not in text


@pytest.mark.parametrize("is_pooled", [False, True], ids=["direct", "pooled"])
def test_a_database_whose_server_was_killed_moves_once_it_is_certain_that_it_is_gone(
    postgres: Postgres, pooler: Pooler, tmp_path: Path, is_pooled: bool
) -> None:
    direct = postgres.new_database()
    url = pooler.url(direct) if is_pooled else direct
    with (
        process(tmp_path / "killed", "", "127.0.0.1:0", "--store", url) as killed,
        Client(killed.target) as client,
    ):
        client.conversations.create("web", messages=[Message.user("zebra")])
    sign = "UPDATE recollect.replicas SET seen = now() - interval '29 seconds'"
    assert postgres.execute(f"{sign} RETURNING 1", direct) == [(1,)]
    assert "byte for byte" in migrate(url, tmp_path / "moved")
    # As one whose connections are hidden.
    postgres.execute(f"{sign} + interval '29 seconds'", direct)
    ended = Event()

    def live() -> None:
        while not ended.wait(0.5):
            postgres.execute(sign.replace("29", "0"), direct)

    with ThreadPoolExecutor() as pool:
        signs = pool.submit(live)
        try:
            assert "another server uses the database" in migrate(url, tmp_path / "again")
        finally:
            ended.set()
        signs.result()


def test_a_cursor_of_before_a_move_gives_a_snapshot_that_says_so_there_and_back(
    postgres: Postgres, folder: Path, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    steps: list[tuple[object, object, dict[str, object]]] = [
        (None, None, {"data_dir": folder}),
        (folder, url, {"data_dir": tmp_path / "local", "store": url}),
        (url, tmp_path / "back", {"data_dir": tmp_path / "back"}),
    ]
    cursors: list[tuple[str, str]] = []
    for origin, target, place in steps:
        if origin:
            assert "byte for byte" in migrate(origin, target)
        server = start_server(**place)
        for updates, panel in cursors:
            with closing(Subscriber(server.target, cursor=updates)) as one:
                assert one.ready().updates[0].reset
            with closing(Panel(server.target, panel)) as one_panel:
                assert one_panel.ready().updates[0].reset
        with (
            closing(Subscriber(server.target)) as one,
            closing(Panel(server.target)) as one_panel,
        ):
            cursors.append((one.ready().cursor, one_panel.ready().cursor))
        server.stop()


def test_a_delete_that_has_not_ended_is_to_be_ended_first(postgres: Postgres, folder: Path) -> None:
    path = next((folder / "ada/conversations").glob("*.jsonl"))
    path.rename(path.with_name(path.name + ".deleting"))
    printed = migrate(folder, postgres.new_database())
    assert "the space ada has a delete or a redaction that has not ended: start a server" in printed
