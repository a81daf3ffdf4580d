"""`recollect-server backup` and `restore`: the transcripts copied out, and in again."""

from pathlib import Path
from typing import Any

import click

from recollect_server.backup.bucket import BackupBucket
from recollect_server.backup.copying import Copied
from recollect_server.backup.folder import make_backup
from recollect_server.backup.manifest import read_manifest
from recollect_server.backup.names import backup_name
from recollect_server.backup.restoring import Restoring, decrypted
from recollect_server.backup.restoring import restore as copy_back
from recollect_server.kernel.compare import recovery
from recollect_server.kernel.domain.errors import RecollectError
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.failpoints import hit
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

_NO_TOKENS = (
    "The backup held no tokens: until `recollect-server token create` makes one, a server on"
    " loopback serves everybody there without one."
)
_PATH = NamedPath(path_type=Path, file_okay=False)


@click.command()
@click.argument("directory", metavar="[DIR]", type=_PATH, required=False)
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
@click.argument("directory", metavar="DIR", type=_PATH)
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
