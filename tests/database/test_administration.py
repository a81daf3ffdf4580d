"""Administration of a server whose logs are in PostgreSQL: spaces are made and deleted on all
servers over it, and no answer, file or line of the log has the password.
"""

from functools import partial
from pathlib import Path

import pytest
from recollect import (
    CheckpointRecord,
    Client,
    FailedPrecondition,
    InvalidArgument,
    Message,
    NotFound,
    RecollectError,
)
from recollect_server.postgres.spaces import PostgresSpaces

from tests.administration.test_verification import verified
from tests.conftest import RunningServer, Start
from tests.crash.load import process
from tests.hostile.test_misplaced_logs import answer
from tests.postgres import Postgres
from tests.server.conftest import files_with
from tests.waiting import until

SECRET = "s3cret"  # noqa: S105 - of nobody


def test_administrators_see_spaces_but_never_the_password(
    postgres: Postgres,
    start_server: Start,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    url = postgres.new_database().replace("postgres@", f"postgres:{SECRET}@")
    server = start_server(store=url, backup_dir=tmp_path / "backups", log_level="debug")
    with Client(server.target, space="ada") as ada:
        ada.conversations.create("web", messages=[Message.user("apricot")])
    with Client(server.target, retry=None) as client:
        admin = client.admin
        answers = [
            admin.list_settings(),
            list(admin.list_spaces()),
            list(admin.list_tokens()),
            admin.list_jobs(),
            admin.list_retention_rules(),
            admin.get_stats(space="ada"),
        ]
        assert [it.name for it in admin.list_spaces()] == ["ada"]
        assert admin.get_stats(space="ada").space.messages == 1
        with pytest.raises(FailedPrecondition, match="Back it up with pg_dump") as one:
            admin.backup()
        assert one.value.reason == "ERROR_REASON_NO_BACKUP_FOLDER"
        with pytest.raises(InvalidArgument, match="store") as changed:
            admin.set_setting("store", "folder")
        with pytest.raises(NotFound) as missing:
            admin.get_stats(space="ben")
        assert [it.name for it in admin.list_spaces()] == ["ada"]
    with Client(server.target, space="ada") as ada:
        assert len(list(ada.conversations.list())) == 1
    postgres.end_sessions(url)
    server.stop()
    texts = [
        repr(answers),
        str(one.value),
        str(changed.value),
        str(missing.value),
        *capfd.readouterr(),
    ]
    assert "postgresql://postgres:***@" in texts[0]
    assert not [text for text in texts if SECRET in text]
    assert files_with(server.data_dir, SECRET) == []
    assert not (tmp_path / "backups").exists()


WORD = "quixotriple"
TABLES = (
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = 'recollect' AND c.relkind = 'r'"
)


def tables_with_the_word(postgres: Postgres, url: str) -> list[object]:
    """Return the tables of the schema that have the word in any row."""
    selects = [
        f"SELECT '{table}' FROM recollect.{table} t"  # noqa: S608 - names of tables
        f" WHERE t::text LIKE '%{WORD}%' OR t::text LIKE '%{WORD.encode().hex()}%'"
        for (table,) in postgres.execute(TABLES, url)
    ]
    return [table for (table,) in postgres.execute(" UNION ".join(selects), url)]


def fill(server: RunningServer, space: str) -> None:
    """Put the word into logs of every kind."""
    with Client(server.target, space=space) as client:
        client.channels.add_owner_identity("whatsapp", "+1555000")
        client.conversations.create("web", messages=[Message.user(WORD)])
        client.channels.receive("whatsapp", "m1", WORD, sender="+1555000")
        client.channels.receive("whatsapp", "m2", WORD, sender="+1555999", sender_name=WORD)
        client.checkpoints.put_records("alex", [CheckpointRecord(WORD, WORD.encode())])


def spaces(server: RunningServer) -> list[str]:
    with Client(server.target) as client:
        return [it.name for it in client.admin.list_spaces()]


def test_a_space_that_is_made_is_there_on_every_server_without_a_word(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (start_server(store=url, data_dir=tmp_path / name) for name in "ab")
    with Client(one.target) as client:
        assert client.admin.create_space("ada").created
    with Client(two.target) as client:
        assert not client.admin.create_space("ada").created
    one.stop()
    assert spaces(two) == ["ada"]


@pytest.mark.timeout(120)
def test_nothing_is_left_of_a_deleted_space_in_any_table_or_on_any_server(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (start_server(store=url, data_dir=tmp_path / name) for name in "ab")
    fill(one, "ada")
    with Client(two.target, space="ada") as client:
        assert len(client.recall.search(WORD).hits) == 2
    assert tables_with_the_word(postgres, url)
    with Client(one.target) as client:
        receipt = client.admin.delete_space("ada")
        assert (receipt.conversations, receipt.external_communications) == (2, 1)
        assert receipt.bytes > 0
        assert [it.name for it in client.admin.list_space_receipts()] == ["ada"]
    for server in (one, two):
        assert spaces(server) == []
    with Client(two.target, space="ada") as client:
        assert list(client.conversations.list()) == []
    until(lambda: tables_with_the_word(postgres, url) == [])
    # Third parties' words go with the files of the space, which are removed within a second.
    until(lambda: files_with(two.data_dir, WORD) == [])
    with Client(two.target, space="ada") as client:
        assert client.recall.search(WORD).hits == ()
        assert list(client.external.list_communications()) == []
        assert list(client.channels.list_owner_identities()) == []
    with Client(one.target, space="ada") as client:  # its name may be used again
        client.conversations.create("web", messages=[Message.user("anew")])
    assert spaces(two) == ["ada"]
    with Client(one.target) as client:
        assert client.admin.delete_space("ada").conversations == 1
        with pytest.raises(NotFound):
            client.admin.delete_space("ada")
    until(lambda: not (two.data_dir / "ada").exists())
    for server in (one, two):
        server.stop()
        assert files_with(server.data_dir, WORD) == []
        assert not (server.data_dir / "ada").exists()


def test_a_deleted_space_stays_away_whatever_another_server_removes_of_it(
    postgres: Postgres, start_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger of what was delivered into its conversations went with it."""
    url = postgres.new_database()
    one, two = (start_server(store=url, data_dir=tmp_path / name) for name in "ab")
    with Client(one.target, space="ada") as client:
        client.channels.add_owner_identity("whatsapp", "+1555000")
        client.channels.receive("whatsapp", "m1", WORD, sender="+1555000")
    with (
        two.app.spaces.use("ada") as space,
        Client(one.target) as client,
        monkeypatch.context() as late,  # the other server does not close the space yet
    ):
        late.setattr(PostgresSpaces, "follow", lambda *_: None)
        space._space.follow()
        assert client.admin.delete_space("ada").conversations == 1
        space._space.follow()
        until(
            lambda: (
                space._space.upkeep.repair(lambda: False) and not space._space.deletions.is_any_left
            )
        )
        assert spaces(one) == []
    until(lambda: spaces(two) == [] and not (two.data_dir / "ada").exists())
    logs = "SELECT log FROM recollect.logs WHERE space = 'ada'"
    until(lambda: postgres.execute(logs, url) == [])


@pytest.mark.parametrize("point", ["space.receipt_written", "delete.durable:2", "space.removed"])
def test_a_killed_delete_of_a_space_in_a_database_is_ended_by_the_next_start(
    point: str, postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    server = start_server(store=url, data_dir=tmp_path / "first")
    fill(server, "ada")
    server.stop()
    data_dir = tmp_path / "killed"
    with process(data_dir, point, "127.0.0.1:0", "--store", url) as server_process:
        with Client(server_process.target, retry=None) as client, pytest.raises(RecollectError):
            client.admin.delete_space("ada", timeout=20)
        assert server_process.was_killed
    server = start_server(store=url, data_dir=data_dir)
    assert spaces(server) == []
    with Client(server.target) as client:
        (receipt,) = client.admin.list_space_receipts()
        assert (receipt.name, receipt.conversations) == ("ada", 2)
    assert tables_with_the_word(postgres, url) == []


@pytest.mark.parametrize("is_anew", [False, True], ids=["index", "no index"])
def test_lines_that_stand_under_another_logs_name_are_answered_under_neither_and_named(
    postgres: Postgres, start_server: Start, tmp_path: Path, is_anew: bool
) -> None:
    url = postgres.new_database()
    server = start_server(store=url)
    with Client(server.target) as client:
        mine, other = (
            client.conversations.create("web", messages=[Message.user(f"zebra {it}")])
            for it in ("ana", "bob")
        )
    server.stop()
    swap = (
        "UPDATE recollect.lines l SET body = o.body FROM recollect.lines o WHERE l.log <> o.log"
        " AND l.log LIKE 'conv-%' AND o.log LIKE 'conv-%' AND l.\"offset\" = o.\"offset\""
    )
    folder = {"data_dir": tmp_path / "anew"} if is_anew else {}
    postgres.execute(swap, url)
    with Client(start_server(store=url, **folder).target, retry=None) as client:
        for it, text in ((mine, "zebra bob"), (other, "zebra ana")):
            assert text not in answer(partial(client.conversations.load, it.id))
        assert {it.id for it in verified(client).problems} == {mine.id, other.id}
