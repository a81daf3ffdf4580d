"""`recollect-server backups`: list, verify and remove the backups of a folder."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from recollect_server.cli.folder import list_problems, said_plainly, shown
from recollect_server.cli.options import NamedPath, load_settings
from recollect_server.domain.time import system_clock
from recollect_server.services.upkeep.backing_up import CannotCopy, check
from recollect_server.services.upkeep.backups import BackupFolder, StoredBackup
from recollect_server.settings import Settings

_PATH = NamedPath(path_type=Path)


def _with_folder(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--config`, `--data-dir` and `--backup-dir`, and call it with the folder and
    the settings.
    """

    @wraps(command)
    def run(
        config: Path | None, data_dir: Path | None, backup_dir: Path | None, **arguments: Any
    ) -> None:
        named = {"data_dir": data_dir, "backup_dir": backup_dir}
        named |= {name: arguments.pop(name) for name in ("backup_keep",) if name in arguments}
        settings = load_settings(config, named)
        if settings.backup_dir is None:
            raise click.UsageError("name the folder of the backups with --backup-dir")
        with said_plainly():
            command(BackupFolder(settings.backup_dir), settings=settings, **arguments)

    for flag, metavar, text in (
        ("--backup-dir", "VALUE", "folder for backups"),
        ("--data-dir", "VALUE", "folder that holds all data, and its settings [.recollect]"),
        ("--config", "FILE", "a YAML file with settings"),
    ):
        run = click.option(flag, type=_PATH, metavar=metavar, help=text)(run)
    return run


@click.group()
def backups() -> None:
    """Look after the backups of all spaces in a folder, which `recollect-server backup` without a
    folder and the call Backup make. What has another name is left alone.
    """


@backups.command("list")
@_with_folder
def list_backups(folder: BackupFolder, settings: Settings) -> None:  # noqa: ARG001
    """List the backups, newest first."""
    for it in folder.list():
        click.echo(f"{it.time:%Y-%m-%d %H:%M:%S} UTC  {it.path}" + _incomplete(it))


@backups.command()
@click.argument("name", required=False)
@_with_folder
def verify(folder: BackupFolder, settings: Settings, name: str | None) -> None:  # noqa: ARG001
    """Read the backups, or the one called NAME, and compare each with its manifest. Exits with 1 if
    anything differs, or holds damaged lines.
    """
    problems: list[str] = []
    chosen = [it for it in folder.list() if name in (None, it.path.name)]
    if name is not None and not chosen:
        raise click.UsageError(f"there is no backup {name}: `backups list` lists them")
    for it in chosen:
        try:
            checked = check(it.path, shown("Verifying"))
        except CannotCopy as error:
            problems.append(str(error))
            continue
        state = "good" if checked.is_good else f"{len(checked.problems)} problems"
        state += f", {checked.damaged} damaged lines in it" if checked.damaged else ""
        click.echo(f"{it.path}: {checked.files} files, {checked.bytes} bytes, {state}")
        problems += [f"{it.path.name}: {problem}" for problem in checked.problems]
        if checked.damaged:
            problems.append(
                f"{it.path.name}: {checked.damaged} lines were damaged when it was made"
            )
    list_problems(problems)


@backups.command()
@click.option("--dry-run", is_flag=True, help="say what would be removed, and remove nothing")
@click.option(
    "--backup-keep",
    metavar="VALUE",
    help="backups that stay, as `daily=7 weekly=5 monthly=12` (also last, hourly, yearly)",
)
@_with_folder
def prune(folder: BackupFolder, settings: Settings, *, dry_run: bool) -> None:
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
        click.echo(f"{'would remove' if dry_run else 'removed'} {it.path}" + _incomplete(it))
    click.echo(f"{len(done.remaining)} backups stay" + (", nothing was removed" if dry_run else ""))


def _incomplete(backup: StoredBackup) -> str:
    return "" if backup.is_complete else "  (not complete)"
