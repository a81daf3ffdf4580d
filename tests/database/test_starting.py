"""Starts of a server whose logs are in PostgreSQL: what is refused, what is made anew, and what
nobody may see.
"""

import shutil
from pathlib import Path

import pytest
from recollect_server.run.folder import CannotStart
from recollect_server.run.settings import Settings, WrongSettings
from recollect_server.run.settings.catalogue import described

from tests.conftest import Start
from tests.postgres import Postgres, running
from tests.server.conftest import Connect, agent, answers, user
from tests.server_cli.conftest import run

SECRET = "s3cret"  # noqa: S105 - of nobody


def test_every_answer_is_the_same_without_the_local_folder(
    postgres: Postgres, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    url = postgres.new_database()
    server = start_server(store=url)
    service = connect(server)
    names = [service.create("web").id for _ in range(3)]
    for number, name in enumerate(names):
        service.append(name, user(f"zebra {number}"), agent("butter"), request_id=f"r{number}")
        service.rename(name, f"Title {number}")
    service.delete(names[2])
    before = answers(service, ["zebra", "butter"])
    server.stop()
    shutil.rmtree(server.data_dir)
    for data_dir in (server.data_dir, tmp_path / "another machine"):
        again = start_server(store=url, data_dir=data_dir)
        assert again.app.recovered.rebuilt
        service = connect(again)
        assert answers(service, ["zebra", "butter"]) == before
        repeated = service.append(names[0], user("zebra 0"), agent("butter"), request_id="r0")
        assert (repeated.duplicate, service.get(names[0]).message_count) == (True, 2)
        again.stop()


def test_a_start_after_a_stop_reads_no_line_again(
    postgres: Postgres, start_server: Start, connect: Connect
) -> None:
    url = postgres.new_database()
    server = start_server(store=url)
    connect(server).conversation_of("one", "two")
    server.stop()
    recovered = start_server(store=url).app.recovered
    assert (recovered.rebuilt, recovered.conversations, recovered.messages) == (False, 1, 0)


def test_a_folder_and_a_database_in_one_data_folder_never_meet(
    postgres: Postgres, start_server: Start, connect: Connect
) -> None:
    url = postgres.new_database()
    for store, text in (("folder", "zebra"), (url, "butter")) * 2:
        server = start_server(store=store)
        service = connect(server)
        if not service.pages()[0]:
            service.conversation_of(text)
        assert not server.app.recovered.rebuilt or service.found(text)
        assert [len(service.found(word)) for word in ("zebra", "butter")] == [
            text == "zebra",
            text == "butter",
        ]
        server.stop()


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (f"postgresql://ann:{SECRET}@127.0.0.1:1/logs", "onnection refused"),
        (f"postgresql://ann:{SECRET}@/nothing?host={{folder}}", "does not exist"),
        (f"postgresql://ann:{SECRET}@/logs?user=a&pass word={SECRET}", "one word"),
        (f"postgres:/ann:{SECRET}@db/logs", "must be folder, or a URL"),
        (f"postgresql://ann:{SECRET}@db:notaport/logs", "notaport"),
    ],
)
def test_a_database_that_cannot_be_used_is_named_without_its_password(
    postgres: Postgres, start_server: Start, url: str, text: str
) -> None:
    with pytest.raises((CannotStart, WrongSettings)) as raised:
        start_server(store=url.format(folder=postgres.folder))
    assert text in str(raised.value)
    assert SECRET not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_password_is_in_no_print_of_the_settings() -> None:
    url = f"postgresql://ann:{SECRET}@db/logs"
    settings = Settings.load(None, {"store": url})
    assert settings.store.url == url
    for text in (str(settings), repr(settings), repr(settings.model_dump()), settings.store):
        assert SECRET not in text
    (listed,) = [it for it in described(settings, Path("x.yaml")) if it.key == "store"]
    assert (listed.value, listed.masked) == ("postgresql://ann:***@db/logs", True)
    printed = run("config", env={"RECOLLECT_STORE": url})
    assert "store: postgresql://ann:***@db/logs" in printed.stdout


@pytest.mark.parametrize("command", ["verify", "rebuild", "stats", "backup", "restore"])
def test_a_command_about_files_says_that_the_logs_are_in_a_database(
    command: str, tmp_path: Path
) -> None:
    places = [tmp_path / "copy"] if command in ("backup", "restore") else []
    result = run(command, *places, "--store", f"postgresql://ann:{SECRET}@db/logs")
    assert result.exit_code == 1
    assert "this command is about logs in a folder, and --store is postgresql://ann:***@" in (
        result.output
    )


def test_verify_and_stats_are_left_to_the_server_that_runs_on_the_data_folder(
    postgres: Postgres, start_server: Start, connect: Connect
) -> None:
    url = postgres.new_database()
    server = start_server(store=url)
    connect(server).create("web")
    arguments = ("--store", url, "--data-dir", server.data_dir)
    verified = run("verify", *arguments)
    assert "default: 1 conversation, 0 messages, 0 external" in verified.stdout
    assert "conversations" in run("stats", *arguments).stdout
    server.stop()
    stopped = run("stats", *arguments)
    assert (stopped.exit_code, "ask the server that runs" in stopped.output) == (1, True)


OLD = Path("/usr/lib/postgresql/15/bin")
"""Programs of a PostgreSQL that is too old, where Debian has installed them."""


@pytest.mark.skipif(not (OLD / "postgres").exists(), reason=f"there is no PostgreSQL in {OLD}")
def test_an_older_postgresql_is_refused_by_its_version(start_server: Start) -> None:
    with running(programs=OLD, has_schema=False) as old:
        with pytest.raises(CannotStart) as raised:
            start_server(store=old.url("postgres"))
        result = run("token", "list", "--store", old.url("postgres"))
    assert str(raised.value).endswith(" is PostgreSQL 15: 16 or newer is needed")
    assert (result.exit_code, "is PostgreSQL 15: 16 or newer" in result.stderr) == (1, True)
    assert "\n" not in str(raised.value)
