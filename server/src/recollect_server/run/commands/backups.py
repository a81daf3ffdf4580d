"""`recollect-server backup` and `restore`: the transcripts copied out, and in again; and `backups`:
list, verify and remove the backups of a folder, and their keys.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

import click
from recollect.cli.commands import Commands

from recollect_server.backup.bucket import BackupBucket
from recollect_server.backup.copying import Copied
from recollect_server.backup.folder import BackupFolder, StoredBackup, make_backup, verified
from recollect_server.backup.manifest import CannotCopy, check, read_manifest
from recollect_server.backup.names import backup_name, backup_time
from recollect_server.backup.restoring import Restoring, decrypted
from recollect_server.backup.restoring import restore as copy_back
from recollect_server.kernel.compare import recovery
from recollect_server.kernel.domain.errors import RecollectError
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.keys import Keyring, new_key
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.log.files import make_folder, sync_folder, write_private
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.run.backup_keys import backup_keys
from recollect_server.run.commands.folder import (
    alone,
    folders_of,
    list_problems,
    said_plainly,
    shown,
    warn,
)
from recollect_server.run.commands.options import OF_FOLDER, NamedPath, load_settings, with_settings
from recollect_server.run.features import FEATURES
from recollect_server.run.settings import Settings

_FETCHING = ".fetching-"
_PATH = NamedPath(path_type=Path)
_FLAGS = ("data_dir", "backup_dir", "backup_url", "backup_key_file", "backup_keep")
"""Flags that stand for settings."""
_NO_TOKENS = (
    "The backup held no tokens: until `recollect-server token create` makes one, a server on"
    " loopback serves everybody there without one."
)
_FOLDER = NamedPath(path_type=Path, file_okay=False)


@click.command()
@click.argument("directory", metavar="[DIR]", type=_FOLDER, required=False)
@with_settings(*OF_FOLDER, "backup_dir", "backup_keep", "backup_url", "backup_key_file")
def backup(directory: Path | None, config: Path | None, **flags: Any) -> None:
    """Copy every conversation of all spaces (or of `--space`), and what third parties wrote, into
    a new folder DIR, while the server runs or not, and compare the copy with what was read.

    All that was acknowledged before it began is in the copy, on the disk when the command ends. DIR
    has the shape of a data folder, without the index and the tokens. Exits with 1, and says so, if
    a line that was copied is damaged.

    With `--backup-key-file` DIR has a single encrypted file instead.

    Without DIR, as a timer calls it, the copy gets a folder with the time in its name in
    `--backup-dir`, and then older ones that `--backup-keep` does not keep are removed. One of all
    spaces is also copied to the bucket at `--backup-url`.
    """
    settings = load_settings(config, flags)
    is_whole = flags.get("space") is None
    now = system_clock()
    rules, url = None, ""
    if directory is None:
        if settings.backup_dir is None:
            raise click.UsageError(
                "name a new folder DIR, or the folder of all backups, --backup-dir"
            )
        directory = settings.backup_dir / backup_name(now, is_whole=is_whole)
        rules, url = (settings.backup_rules, settings.backup_url) if is_whole else (None, "")
    folders = folders_of(settings, flags)
    with said_plainly():
        keys = backup_keys(settings.backup_key_file, warn)
        bucket = BackupBucket(url) if url else None
        made = make_backup(folders, directory, keys, rules, now, shown("Copying"))
        if bucket is not None:
            bucket.upload(directory, shown("Uploading", unit="files"))
            click.echo(f"copied to {bucket.url}/{directory.name}")
        if made.failure is not None:
            raise made.failure
        for old in made.removed:
            click.echo(f"removed {old.path}")
    of_spaces = f"of {len(folders)} spaces " * (len(folders) > 1)
    _say(made.copied, of_spaces + f"backed up to {directory}")


@click.command()
@click.argument("directory", metavar="DIR", type=_FOLDER)
@with_settings(*OF_FOLDER, "backup_key_file")
def restore(directory: Path, config: Path | None, **flags: Any) -> None:
    """Copy a backup DIR into an empty data folder, compare it with what was backed up, and make the
    index.

    An encrypted one is decrypted into the data folder first, which needs room for it twice.

    No server uses the data folder before all of it is there. Repeat a restore that was interrupted:
    it begins anew.

    A backup holds no tokens, so that no revoked one comes back: make new ones before others call.
    Until there is one, a server on loopback is open to everybody there.
    """
    settings = load_settings(config, flags)
    total = Copied()
    with (
        alone(settings),
        said_plainly(),
        Restoring(directory, settings.data_dir) as restoring,
        decrypted(
            directory, settings.data_dir, backup_keys(settings.backup_key_file, warn)
        ) as source,
    ):
        spaces = read_manifest(source).spaces
        # the first goes into the default space, whatever it was called
        targets = {
            space: space if number else settings.space for number, space in enumerate(spaces)
        }
        if flags.get("space") is not None:
            chosen = settings.space if settings.space in spaces else next(iter(spaces))
            targets = {chosen: settings.space}
        elif len(set(targets.values())) < len(targets):
            raise click.ClickException(
                f"the backup has two spaces that would become {settings.space}: name one with --space"
            )
        if restoring.begin(list(targets.values())):
            click.echo("An earlier restore into this folder did not end: begun anew.", err=True)
        for space, name in targets.items():
            folder = FolderStore.of(settings.data_dir, name)
            done = copy_back(spaces[space], folder, shown("Copying"))
            try:
                recovery.rebuild(folder, FEATURES, system_clock, shown("Indexing")).index.close(
                    sound=True
                )
            except RecollectError as error:
                raise click.ClickException(str(error)) from error
            hit("restore.indexed")
            total.logs += done.logs
            total.bytes += done.bytes
            total.problems += done.problems
    _say(total, f"restored to {settings.data_dir}")
    click.echo(_NO_TOKENS, err=True)


def _say(done: Copied, what: str) -> None:
    others = {Kind.COMMUNICATION: "external communication", Kind.THREAD: "thread"}
    copied = [counted(done.logs[it], noun) for it, noun in others.items() if done.logs[it]]
    copied.insert(0, counted(done.logs[Kind.CONVERSATION], "conversation"))
    click.echo(
        f"{', '.join(copied)}, {done.bytes} bytes {what}, {counted(len(done.problems), 'problem')}"
    )
    list_problems(done.problems)


def _with_folder(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--config` and the flags that say where backups and keys are, and call it with
    the folder and the settings.
    """

    @wraps(command)
    def run(config: Path | None, **arguments: Any) -> None:
        flags = {name: arguments.pop(name) for name in _FLAGS if name in arguments}
        settings = load_settings(config, flags)
        if settings.backup_dir is None:
            raise click.UsageError("name the folder of the backups with --backup-dir")
        with said_plainly():
            if settings.backup_url:  # a new machine has no folder yet to fetch into
                make_folder(settings.backup_dir)
            if not settings.backup_dir.is_dir():
                raise click.ClickException(
                    f"there is no folder {settings.backup_dir}: name another with --backup-dir"
                )
            keys = backup_keys(settings.backup_key_file, warn)
            command(
                BackupFolder(settings.backup_dir, keys), settings=settings, keys=keys, **arguments
            )

    run = click.option(
        "--backup-url", metavar="VALUE", help="bucket, as https://s3.example.org/bucket/prefix"
    )(run)
    for flag, metavar, text in (
        ("--backup-key-file", "VALUE", "file of keys of encrypted backups, the first for new ones"),
        ("--backup-dir", "VALUE", "folder for backups"),
        ("--data-dir", "VALUE", "folder that holds all data, and its settings [.recollect]"),
        ("--config", "FILE", "a YAML file with settings"),
    ):
        run = click.option(flag, type=_PATH, metavar=metavar, help=text)(run)
    return run


@click.group(cls=Commands)
def backups() -> None:
    """Look after the backups in a folder, which `recollect-server backup` and the call Backup make.
    All are listed, verified and encrypted anew; the other commands leave those without a time in
    their name, and those of some spaces, alone.
    """


@backups.command("list")
@_with_folder
def list_backups(folder: BackupFolder, settings: Settings, **_: Any) -> None:
    """List the backups, newest first; and those in the bucket, if there is a `--backup-url`."""
    for it in folder.listed():
        click.echo(f"{it.time:%Y-%m-%d %H:%M:%S} UTC  {it.path}" + _state(it))
    if settings.backup_url:
        bucket = BackupBucket(settings.backup_url)
        for name in bucket.names():
            click.echo(f"{backup_time(name):%Y-%m-%d %H:%M:%S} UTC  {bucket.url}/{name}")


@backups.command()
@_with_folder
def upload(folder: BackupFolder, settings: Settings, **_: Any) -> None:
    """Copy the complete backups that the bucket lacks to it, the newest first: one whose copy was
    interrupted, or that a call made.
    """
    bucket = _bucket_of(settings)
    for it in folder.stored():
        if it.is_complete and not bucket.has(it.path.name):
            bucket.upload(it.path, shown("Uploading", unit="files"))
            click.echo(f"copied to {bucket.url}/{it.path.name}")


@backups.command()
@click.argument("name")
@_with_folder
def fetch(_: BackupFolder, settings: Settings, keys: Keyring | None, name: str) -> None:
    """Copy the backup NAME from the bucket into the folder, and compare it with its manifest: then
    `recollect-server restore` takes it as any other.
    """
    assert settings.backup_dir is not None
    if backup_time(name) is None:
        raise click.UsageError(f"{name} is no name of a backup: `backups list` lists them")
    target = settings.backup_dir / name
    if target.exists():
        raise click.UsageError(f"{target} is there already: remove it, or restore it")
    with _fetched(settings, name) as copy:
        verified(copy, shown("Verifying"), keys)
        copy.rename(target)
        sync_folder(target.parent)
    click.echo(f"copied to {target}")


def _bucket_of(settings: Settings) -> BackupBucket:
    if not settings.backup_url:
        raise click.UsageError("name the bucket with --backup-url")
    return BackupBucket(settings.backup_url)


@contextmanager
def _fetched(settings: Settings, name: str) -> Iterator[Path]:
    """Copy a backup from the bucket into a folder that is removed afterwards, with those of
    commands that were killed.
    """
    bucket = _bucket_of(settings)
    assert settings.backup_dir is not None
    for left in settings.backup_dir.glob(f"{_FETCHING}*"):
        with _held(left) as is_alone:
            if is_alone:
                rmtree(left, ignore_errors=True)
    with (
        TemporaryDirectory(dir=settings.backup_dir, prefix=_FETCHING) as folder,
        _held(Path(folder)),
    ):
        bucket.fetch(name, Path(folder) / name, shown("Fetching", unit="files"))
        yield Path(folder) / name


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Lock a folder while this process uses it; yield whether no other one does."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # it is gone, or no folder
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_alone = True
    except OSError:
        is_alone = False
    try:
        yield is_alone
    finally:
        os.close(handle)


@backups.command()
@click.argument("name", required=False)
@click.option("--in-bucket", is_flag=True, help="verify those in the bucket, each fetched for that")
@_with_folder
def verify(
    folder: BackupFolder,
    settings: Settings,
    keys: Keyring | None,
    name: str | None,
    *,
    in_bucket: bool,
) -> None:
    """Read the backups, or the one called NAME, and compare each with its manifest. Exits with 1 if
    anything differs, or holds damaged lines.
    """
    problems: list[str] = []
    names = _bucket_of(settings).names() if in_bucket else [it.path.name for it in folder.listed()]
    chosen = [it for it in names if name in (None, it)]
    if name is not None and not chosen:
        raise click.UsageError(f"there is no backup {name}: `backups list` lists them")
    for it in chosen:
        assert settings.backup_dir is not None
        path = settings.backup_dir / it
        shown_as = f"{settings.backup_url.rstrip('/')}/{it}" if in_bucket else str(path)
        try:
            with _fetched(settings, it) if in_bucket else nullcontext(path) as read:
                checked = check(read, shown("Verifying"), keys)
        except CannotCopy as error:
            problems.append(str(error))
            continue
        except OSError as error:
            problems.append(f"{error.filename or shown_as}: {error.strerror or error}")
            continue
        state = "good" if checked.is_good else f"{len(checked.problems)} problems"
        state += f", {counted(checked.damaged, 'damaged line')} in it" if checked.damaged else ""
        click.echo(f"{shown_as}: {counted(checked.files, 'file')}, {checked.bytes} bytes, {state}")
        problems += [f"{it}: {problem}" for problem in checked.problems]
        if checked.damaged:
            problems.append(f"{it}: damaged when it was made: {counted(checked.damaged, 'line')}")
    list_problems(problems)


@backups.command()
@click.option("--dry-run", is_flag=True, help="say what would be removed, and remove nothing")
@click.option(
    "--backup-keep",
    metavar="VALUE",
    help="backups that stay, as `daily=7 weekly=5 monthly=12` (also last, hourly, yearly)",
)
@_with_folder
def prune(folder: BackupFolder, settings: Settings, *, dry_run: bool, **_: Any) -> None:
    """Remove the backups that no rule of `--backup-keep` keeps, and what interrupted ones left.

    Of each hour, day, week, month or year (UTC) the newest counts. The newest good backup stays
    whatever the rules say; if none is good, nothing is removed.
    """
    if not settings.backup_rules:
        raise click.UsageError(
            "no rule says what to keep: give --backup-keep, as `daily=7 weekly=5 monthly=12`"
        )
    done = folder.prune(
        settings.backup_rules, system_clock(), dry_run=dry_run, progress=shown("Verifying")
    )
    for it in done.removed:
        click.echo(f"{'would remove' if dry_run else 'removed'} {it.path}" + _state(it))
    note = ", nothing was removed" if dry_run else ""
    click.echo(f"kept: {counted(len(done.remaining), 'backup')}{note}")


@backups.command()
@_with_folder
def rekey(folder: BackupFolder, **_: Any) -> None:
    """Encrypt all encrypted backups of the folder with the first of the keys.

    Each is read with the key that it has, written beside itself, and exchanged when the new one is
    durable. A command that was interrupted is repeated, and goes on. Exits with 1 if one cannot be
    read, which is named and left as it is.
    """
    done = folder.encrypt_anew(shown("Encrypting"))
    for it in done.changed:
        click.echo(f"encrypted anew {it.path}")
    changed, problems = counted(len(done.changed), "backup"), counted(len(done.problems), "problem")
    click.echo(f"{changed} encrypted anew, {problems}")
    list_problems(done.problems)


@backups.command("new-key")
@click.argument("file", metavar="FILE", type=NamedPath(path_type=Path, dir_okay=False))
def make_key(file: Path) -> None:
    """Make a new key and put it first in FILE, which only this user may read.

    The keys that were in FILE stay behind it, for the backups that they encrypted. Keep a copy of
    FILE away from the backups: without it nobody can read them.
    """
    with said_plainly():
        try:
            before = file.read_text("ascii") if file.exists() else ""
            if before.strip():
                Keyring.parse(before)
        except ValueError:
            raise click.ClickException(f"{file} is no file of keys: name another") from None
        key = new_key()
        time = datetime.fromtimestamp(system_clock() / 1000, UTC)
        write_private(file, f"{key.text}  # {key.id}, made {time:%Y-%m-%d}\n{before}".encode())
    click.echo(f"{file} has the key {key.id} first: new backups are encrypted with it")


def _state(backup: StoredBackup) -> str:
    if not backup.is_complete:
        return "  (not complete)"
    if backup.key_id is None:
        return ""
    return f"  (encrypted, {f'key {backup.key_id}' if backup.key_id else 'its start is damaged'})"
