"""Backups in a bucket of an S3-compatible store."""

import fcntl
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from recollect import Client, Unavailable
from recollect_server.access.principal import EVERY_SPACE
from recollect_server.backup.bucket import BackupBucket
from recollect_server.backup.manifest import CannotCopy
from recollect_server.kernel.domain.time import system_clock

from tests.buckets import KEY, SECRET, s3_store
from tests.conftest import RunningServer, Start
from tests.credentials.conftest import grant, tokens_of
from tests.server.conftest import Connect, answers
from tests.server_cli.conftest import QUERIES, run
from tests.waiting import until


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """Start an S3 server with an empty bucket `backups`, and return its URL."""
    with s3_store(tmp_path / "s3") as url:
        yield url


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    return path


def operate(*arguments: object, url: str, folder: Path, **env: str | None) -> Result:
    """Run `recollect-server` with a folder of backups and a bucket; of its secrets no output has
    one.
    """
    keys: Mapping[str, str | None] = {
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": None, "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
    }  # fmt: skip
    result = run(*arguments, "--backup-dir", folder, "--backup-url", url, env={**keys, **env})
    assert SECRET not in result.output
    return result


def test_a_backup_is_copied_to_the_bucket_and_restored_from_it_on_another_machine(
    server: RunningServer,
    filled: list[str],
    store: str,
    key_file: Path,
    tmp_path: Path,
    connect: Connect,
    start_server: Start,
) -> None:
    url, folder, bucket = f"{store}/backups/own/", tmp_path / "here", tmp_path / "s3/backups/own"
    secret = {"AWS_SECRET_ACCESS_KEY_FILE": str(key_file)}
    on_server = ("--data-dir", server.data_dir)
    made = operate("backup", *on_server, url=url, folder=folder, **secret)
    assert made.exit_code == 0, made.output
    [name] = [path.name for path in bucket.iterdir()]
    assert f"copied to {store}/backups/own/{name}" in made.stdout
    sizes = {path.relative_to(folder): path.stat().st_size for path in folder.rglob("*.json*")}
    assert {it.relative_to(bucket): it.stat().st_size for it in bucket.rglob("*.json*")} == sizes

    elsewhere = tmp_path / "elsewhere"  # `list` makes it

    def on_other(*arguments: object) -> Result:
        return operate(*arguments, url=url, folder=elsewhere, **secret)

    assert on_other("backups", "list").stdout.endswith(f"{store}/backups/own/{name}\n")
    assert "good" in on_other("backups", "verify", "--in-bucket").stdout
    for odd in (f"own/{name}", f"../{name}", f"{tmp_path}/{name}", "."):
        refused = operate(
            "backups", "fetch", odd, url=f"{store}/backups", folder=elsewhere, **secret
        )
        assert (refused.exit_code, "is no name of a backup" in refused.output) == (2, True)
    assert list(elsewhere.iterdir()) == []
    assert on_other("backups", "fetch", name).exit_code == 0
    assert on_other("backups", "fetch", name).exit_code == 2  # it is there
    assert run("restore", elsewhere / name, "--data-dir", tmp_path / "new").exit_code == 0
    before = answers(connect(server), QUERIES)
    server.stop()
    assert answers(connect(start_server(data_dir=tmp_path / "new")), QUERIES) == before

    # an encrypted one is one object; that of a call is copied by `upload`, and no other again
    keys = tmp_path / "keys"
    assert run("backups", "new-key", keys).exit_code == 0
    encrypting = (*on_server, "--backup-dir", folder, "--backup-key-file", keys)
    until(lambda: run("backup", *encrypting).exit_code == 0)  # a second has one name
    shutil.rmtree(folder / name)
    uploaded = operate("backups", "upload", url=url, folder=folder, **secret)
    [encrypted] = [path.name for path in folder.iterdir()]
    assert uploaded.stdout == f"copied to {store}/backups/own/{encrypted}\n"
    assert [it.name for it in (bucket / encrypted).iterdir()] == ["backup.encrypted"]
    assert operate("backups", "upload", url=url, folder=folder, **secret).stdout == ""
    fetched = on_other("backups", "fetch", encrypted, "--backup-key-file", keys)
    assert fetched.exit_code == 0


def test_what_is_wrong_with_a_bucket_is_said_and_leaves_nothing_behind(
    server: RunningServer, filled: list[str], store: str, key_file: Path, tmp_path: Path
) -> None:
    url, folder = f"{store}/backups", tmp_path / "here"
    folder.mkdir()
    secret = {"AWS_SECRET_ACCESS_KEY_FILE": str(key_file)}

    def refused(*arguments: object, at: str = url, **env: str) -> str:
        result = operate(*arguments, url=at, folder=folder, **env)
        assert result.exit_code != 0, result.output
        return result.output

    assert f"there is no key for {url}: set AWS_ACCESS_KEY_ID" in refused("backups", "upload")
    wrong = refused("backups", "list", AWS_SECRET_ACCESS_KEY=KEY)
    assert f"cannot list {url}: " in wrong
    assert "does not match the signature" in wrong
    assert "NoSuchBucket" in refused("backups", "list", at=f"{store}/other", **secret)
    assert "names no bucket" in refused("backups", "list", at=store, **secret)
    plain = refused("backups", "list", at="http://s3.invalid/backups", **secret)
    assert "would send backups over the network in plain text" in plain
    missing = f"{store}/other"
    backup = ("backup", "--data-dir", server.data_dir)
    unsent = refused(*backup, at=missing, **secret)
    assert f"cannot list {missing}: " in unsent
    assert "NoSuchBucket" in unsent
    [made] = folder.iterdir()  # it was made all the same, and waits for `backups upload`
    assert operate("backups", "upload", url=url, folder=folder, **secret).exit_code == 0

    bucket, objects = client_of(store), tmp_path / "s3/backups"
    manifest = objects / made.name / "backup.json"
    shutil.rmtree(made)
    name, whole = made.name, manifest.read_bytes()
    bucket.remove_object("backups", f"{name}/backup.json")
    assert "has no complete backup" in refused("backups", "fetch", name, **secret)
    assert operate("backups", "list", url=url, folder=folder, **secret).stdout == ""
    bucket.put_object("backups", f"{name}/backup.json", BytesIO(whole), len(whole))
    transcript = next(manifest.parent.rglob("conv-*.jsonl"))
    other = transcript.read_bytes().replace(b"zebra", b"zebrA")
    path = str(transcript.relative_to(objects))
    bucket.put_object("backups", path, BytesIO(other), len(other))
    assert "is not as it was" in refused("backups", "verify", "--in-bucket", **secret)
    assert "is not as it was" in refused("backups", "fetch", name, **secret)
    assert list(folder.iterdir()) == []


def client_of(store: str) -> Any:
    """Return a client of the store. What is changed on its disk it would see late."""
    return pytest.importorskip("minio").Minio(
        store.removeprefix("http://"), KEY, SECRET, secure=False
    )


def test_an_upload_removes_what_another_left_under_the_name_of_a_backup(
    server: RunningServer, filled: list[str], store: str, key_file: Path, tmp_path: Path
) -> None:
    url, folder = f"{store}/backups/own", tmp_path / "here"
    secret = {"AWS_SECRET_ACCESS_KEY_FILE": str(key_file)}
    made = run("backup", "--data-dir", server.data_dir, "--backup-dir", folder)
    assert made.exit_code == 0, made.output
    [name] = [it.name for it in folder.iterdir()]
    bucket = client_of(store)
    bucket.put_object("backups", f"own/{name}/conversations/stray.jsonl", BytesIO(b"{}\n"), 3)
    uploaded = operate("backups", "upload", url=url, folder=folder, **secret)
    assert uploaded.stdout == f"copied to {url}/{name}\n", uploaded.output
    verified = operate("backups", "verify", "--in-bucket", url=url, folder=folder, **secret)
    assert verified.exit_code == 0, verified.output


def test_a_backup_in_the_bucket_is_not_replaced_by_another_of_its_name(
    server: RunningServer,
    filled: list[str],
    store: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    folder = tmp_path / "here"
    assert run("backup", "--data-dir", server.data_dir, "--backup-dir", folder).exit_code == 0
    [made] = folder.iterdir()
    bucket = BackupBucket(f"{store}/backups")
    bucket.upload(made)
    other = tmp_path / "other" / made.name
    other.mkdir(parents=True)
    (other / "backup.json").write_text("{}")
    with pytest.raises(CannotCopy, match="already: give each server its own prefix"):
        bucket.upload(other)
    bucket.fetch(made.name, tmp_path / "fetched")
    assert (tmp_path / "fetched/backup.json").read_bytes() == (made / "backup.json").read_bytes()


def test_a_fetch_removes_what_a_killed_one_left_and_nothing_of_one_under_way(
    server: RunningServer, filled: list[str], store: str, key_file: Path, tmp_path: Path
) -> None:
    url, folder = f"{store}/backups", tmp_path / "here"
    secret = {"AWS_SECRET_ACCESS_KEY_FILE": str(key_file)}
    backup = ("backup", "--data-dir", server.data_dir)
    assert operate(*backup, url=url, folder=folder, **secret).exit_code == 0
    [made] = folder.iterdir()
    shutil.rmtree(made)
    stale, other = folder / ".fetching-killed", folder / ".fetching-running"
    for it in (stale, other):
        it.mkdir()
        (it / "part").write_text("a part")
    handle = os.open(other, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    fetched = operate("backups", "fetch", made.name, url=url, folder=folder, **secret)
    assert fetched.exit_code == 0, fetched.output
    os.close(handle)
    assert sorted(folder.iterdir()) == sorted([other, made])


def test_a_call_lists_the_copies_in_the_bucket_to_who_may_see_every_space(
    start_server: Start, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    bucket = client_of(store)
    for path in (
        "recollect-20260101t000000z/backup.json",
        "recollect-20260301t123456z/backup.encrypted",
        "recollect-20260201t000000z/backup.json",
        "recollect-20260401t000000z/conversations/a.jsonl",  # not complete
        "partial-20260501t000000z/backup.json",
        "holiday/backup.json",
    ):
        bucket.put_object("backups", f"own/{path}", BytesIO(b"{}"), 2)
    server = start_server(
        backup_dir=tmp_path / "here", backup_url=f"{store}/backups/own", auth="required"
    )
    tokens = tokens_of(server.data_dir, system_clock)
    own, all_ = (tokens.create(grant("admin", it))[1] for it in ("ada", EVERY_SPACE))
    with Client(server.target, token=all_) as client:
        copies = list(client.admin.list_backups(in_bucket=True, page_size=2))
        assert [it.name.removeprefix("recollect-2026") for it in copies] == [
            "0301t123456z",
            "0201t000000z",
            "0101t000000z",
        ]
        assert f"{copies[0].create_time:%Y-%m-%d %H:%M:%S}" == "2026-03-01 12:34:56"
        assert {(it.path, it.complete, it.spaces) for it in copies} == {("", True, ())}
        assert list(client.admin.list_backups()) == []  # of the folder
        with Client(server.target, token=own) as narrow:
            assert list(narrow.admin.list_backups(in_bucket=True)) == []
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
        with pytest.raises(Unavailable, match="does not match the signature"):
            list(client.admin.list_backups(in_bucket=True))
    other = start_server(data_dir=tmp_path / "other", backup_dir=tmp_path / "here")
    with Client(other.target) as client:
        assert list(client.admin.list_backups(in_bucket=True)) == []


def test_a_bucket_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("minio", reason="the extra s3 is not installed")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bucket = BackupBucket(f"http://127.0.0.1:{silent.getsockname()[1]}/backups", patience=0.1)
        with pytest.raises(CannotCopy, match="cannot list"):
            next(bucket.names())
