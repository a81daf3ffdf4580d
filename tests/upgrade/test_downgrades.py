"""Data that a newer version wrote is refused in one sentence, and left as it is."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import structlog
from recollect_server.kernel.format import FORMAT, NAME
from recollect_server.run.folder import CannotStart
from structlog.testing import capture_logs
from structlog.typing import EventDict

from tests.conftest import RunningServer, Start
from tests.postgres import Postgres
from tests.server.conftest import Connect, connect
from tests.server_cli.conftest import run

__all__ = ["connect"]

SENTENCE = (
    r"%s was written by Recollect 9\.8\.7, in format 99, and this server \(\d+\.\d+\.\d+(?:\+g\w+)?\)"
    r" reads formats up to 3: run 9\.8\.7 or a later version, or restore a backup that is older than the"
    r" upgrade into another folder"
)


def of_a_newer_version(data_dir: Path) -> Path:
    marker = data_dir / NAME
    assert json.loads(marker.read_text())["format"] == FORMAT
    marker.write_text('{"format": 99, "version": "9.8.7"}')
    return marker


def files_of(folder: Path) -> dict[Path, bytes]:
    return {
        it: it.read_bytes()
        for it in folder.rglob("*")
        if it.is_file() and it.name != "recollect.lock"
    }


@pytest.mark.usefixtures("no_log")
def test_a_folder_of_a_newer_version_is_refused_by_the_server_and_every_command(
    server: RunningServer, start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    connect(server).create("web")
    server.stop()
    of_a_newer_version(server.data_dir)
    before = files_of(server.data_dir)
    sentence = SENTENCE % re.escape(f"the data folder {server.data_dir}")
    with pytest.raises(CannotStart) as refusal:
        start_server()
    assert re.fullmatch(sentence, str(refusal.value))
    commands = (
        ("serve", "--listen", "127.0.0.1:0"),
        ("verify",),
        ("rebuild",),
        ("stats",),
        ("backup", tmp_path / "copy"),
        ("token", "list"),
    )
    for command in commands:
        result = run(*command, "--data-dir", server.data_dir)
        assert result.exit_code == 1, command
        assert re.search(rf"^(Error: )?(recollect-server: )?.*{sentence}\n$", result.stderr), (
            command,
            result.stderr,
        )
    assert files_of(server.data_dir) == before
    assert not (tmp_path / "copy").exists()


@pytest.mark.usefixtures("no_log")
def test_a_backup_of_a_newer_version_is_refused(
    server: RunningServer, connect: Connect, tmp_path: Path
) -> None:
    connect(server).create("web")
    copy, new = tmp_path / "copy", tmp_path / "new"
    assert run("backup", copy, "--data-dir", server.data_dir).exit_code == 0
    manifest = json.loads((copy / "backup.json").read_text())
    (copy / "backup.json").write_text(json.dumps(manifest | {"format": 99, "version": "9.8.7"}))
    result = run("restore", copy, "--data-dir", new)
    assert result.exit_code == 1
    assert re.fullmatch(f"Error: {SENTENCE % re.escape(f'the backup {copy}')}\n", result.stderr), (
        result.stderr
    )
    assert not list(new.rglob("*.jsonl"))


@contextmanager
def formats_when_said(marker: Path) -> Iterator[list[int]]:
    """Yield the formats that a marker has when the log says that it is raised; 0 without one."""
    formats: list[int] = []

    def look(_: object, __: str, event: EventDict) -> EventDict:
        if event["event"] == "format_raised":
            formats.append(json.loads(marker.read_text())["format"] if marker.exists() else 0)
            assert (event["before"], event["now"]) == (formats[-1] or 1, FORMAT)
            assert "only a backup from before leads back" in event["reason"]
        return event

    processors = structlog.get_config()["processors"]
    processors.insert(0, look)
    try:
        yield formats
    finally:
        processors.remove(look)


@pytest.mark.parametrize("before", [0, 2])
def test_an_upgrade_that_cannot_be_undone_is_said_before_it_happens_and_once(
    server: RunningServer, start_server: Start, connect: Connect, before: int
) -> None:
    marker = server.data_dir / NAME
    with formats_when_said(marker) as formats:
        connect(server).create("web")
        start_server(data_dir=server.data_dir.with_name("new")).stop()  # has nothing to lose
        server.stop()
        start_server().stop()
        assert formats == []
        marker.unlink()
        if before:
            marker.write_text(json.dumps({"format": before, "version": "0.0.9"}))
        start_server().stop()
        start_server().stop()
    assert formats == [before]
    assert json.loads(marker.read_text())["format"] == FORMAT


def test_an_upgrade_of_a_database_is_said_before_it_happens(
    start_server: Start, postgres: Postgres
) -> None:
    url = postgres.new_database()
    with capture_logs() as new:
        start_server(store=url).stop()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "DELETE FROM recollect.schema_version WHERE version = (SELECT max(version) FROM recollect.schema_version)"
        )
    with capture_logs() as logs:
        start_server(store=url).stop()
    assert "schema_raised" not in [it["event"] for it in new]
    steps = [it["event"] for it in logs if it["event"].startswith("schema_")]
    assert steps == ["schema_raised", "schema_migrated"]


@pytest.mark.usefixtures("no_log")
def test_a_marker_that_cannot_be_read_is_refused_with_what_to_do(
    server: RunningServer, start_server: Start
) -> None:
    server.stop()
    of_a_newer_version(server.data_dir).write_text('{"format')
    with pytest.raises(CannotStart, match=r"recollect\.format cannot be read .*: remove it if"):
        start_server()
    (server.data_dir / NAME).unlink()
    start_server()


@pytest.mark.usefixtures("no_log")
def test_a_schema_of_a_newer_version_is_refused_by_the_server_and_every_command(
    start_server: Start, postgres: Postgres, tmp_path: Path
) -> None:
    url = postgres.new_database()
    start_server(store=url).stop()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO recollect.schema_version (version) VALUES (99)")
        connection.execute("UPDATE recollect.owner SET oldest_server = 99")
    sentence = (
        r"the database has version 99 of the schema, for servers that know 99, and this server"
        r" knows \d+: run the newer server"
    )
    with pytest.raises(CannotStart) as refusal:
        start_server(store=url)
    assert re.search(f"{sentence}$", str(refusal.value))
    for command in (
        ("serve", "--listen", "127.0.0.1:0", "--store", url, "--data-dir", tmp_path / "local"),
        ("token", "list", "--store", url),
        ("token", "create", "--kind", "brain", "--store", url),
        ("migrate", "--from", url, "--to", tmp_path / "folder"),
        ("migrate", "--from", tmp_path, "--to", url),
    ):
        result = run(*command)
        assert result.exit_code == 1, command
        assert re.search(rf"{sentence}\n$", result.stderr), (command, result.stderr)
        assert result.stderr.count("\n") == 1, (command, result.stderr)
