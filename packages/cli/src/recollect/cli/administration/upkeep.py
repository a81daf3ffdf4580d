"""`recollect admin jobs`, `backup`, `backups`, `verify` and `stats`: the state of what a server
keeps.
"""

import sys
import time
from collections.abc import Iterable
from typing import Any

import click
from rich.table import Table

from recollect import StoredBackup, Verification
from recollect._shared.plain import plain
from recollect.cli import exits
from recollect.cli.options import Shell, with_patient_shell, with_shell
from recollect.cli.printing import (
    clean,
    console,
    json_line,
    local,
    one_line,
    table_of,
    warn,
)
from recollect.imports.values import counted

TORN_ADVICE = (
    "Look whether it has a message that is missed, then remove the file: this notice goes with it."
)
"""Advice about a file with what a start cut off a log, whose append nobody was answered for."""
_LOOK_SECONDS = 0.2  # between two looks at a verification


@click.command("jobs")
@with_shell
def list_jobs(shell: Shell) -> None:
    """List the background jobs of the space, with what waits and what failed."""
    jobs = shell.client.admin.list_jobs()
    shell.print_table(
        jobs,
        table_of("job", "state", "due", "failed", "last run", "", right=(2, 3)),
        lambda it: (
            it.name,
            it.state.value,
            str(it.due),
            str(it.failed),
            local(it.last_run_time),
            one_line(it.help, "dim"),
        ),
        "There is no job.",
    )
    for it in () if shell.as_json else jobs:
        for failure in it.failures:
            about = f" of {failure.conversation_id}" if failure.conversation_id else ""
            console().print(clean(f"{it.name}{about}: {failure.reason}."))


@click.command("backup")
@click.argument("name", required=False)
@with_patient_shell
def make_backup(shell: Shell, name: str | None) -> None:
    """Have the server copy its spaces into the folder NAME of its setting backup_dir."""
    made = shell.client.admin.backup(name=name)
    shell.print(
        made,
        f"{counted(made.conversations, 'conversation')}, {made.bytes} bytes of"
        f" {', '.join(made.spaces)} are in {made.path} on the server's machine,"
        f" {counted(made.problem_count, 'problem')}.",
    )
    for problem in made.problems:
        warn(problem)
    if made.problem_count:
        raise click.exceptions.Exit(exits.FAILED)


@click.command("backups")
@click.option("--in-bucket", is_flag=True, help="The copies in its backup_url instead.")
@with_shell
def list_backups(shell: Shell, in_bucket: bool) -> None:
    """List the backups in the server's setting backup_dir, newest first. `recollect-server
    restore`, on its machine, takes one back.
    """
    rows = list(shell.client.admin.list_backups(in_bucket=in_bucket))
    shell.print_table(
        rows,
        table_of("backup", "made", "spaces", "conversations", "bytes", "", right=(3, 4)),
        lambda it: (
            one_line(it.name),
            local(it.create_time),
            one_line(", ".join(it.spaces)),
            "" if it.encrypted or in_bucket else str(it.conversations),
            "" if in_bucket else str(it.bytes),
            one_line("; ".join(_notes_of(it))),
        ),
        "There is no backup.",
    )
    if rows and not in_bucket and not shell.as_json:
        folder = rows[0].path.removesuffix(rows[0].name)
        console().print(clean(f"They are in {folder} on the server's machine."))


def _notes_of(it: StoredBackup) -> Iterable[str]:
    if it.encrypted:
        yield f"encrypted, key {it.key_id}" if it.key_id else "encrypted"
    if it.damaged_lines:
        yield f"{counted(it.damaged_lines, 'damaged line')} in it"
    if it.problem:
        yield it.problem
    elif not it.complete:
        yield "not complete"


@click.command("verify")
@click.option("--all", "every", is_flag=True, help="Every space that the token administers.")
@click.option("--no-wait", is_flag=True, help="Begin, and print what the last one found.")
@with_shell
def verify(shell: Shell, every: bool, no_wait: bool) -> None:
    """Compare the logs of the space with its index and vectors while the server runs. It changes
    nothing; exits with 1 if anything is wrong.
    """
    names: list[str | None] = [None]
    if every:
        names = [it.name for it in shell.client.admin.list_spaces()]
    newest = [shell.client.admin.get_verification(space=name) for name in names] if no_wait else []
    started = [shell.client.admin.verify(space=name) for name in names]
    if no_wait:
        results = [last or it for last, it in zip(newest, started, strict=True)]
    else:
        results = [_verified(shell, it.space) for it in started]
    for it in results:
        _print_verification(shell, it)
        for file in shell.client.admin.get_stats(space=it.space).space.torn_files:
            warn(f"{file} has what a start cut off a log. {TORN_ADVICE}")
    if any(it.problem_count or it.failure for it in results):
        raise click.exceptions.Exit(exits.FAILED)


def _verified(shell: Shell, space: str) -> Verification:
    """Wait for the end of a verification and return it."""
    shows = sys.stderr.isatty() and not shell.as_json
    while True:
        it = shell.client.admin.get_verification(space=space)
        if it is None:
            raise click.ClickException(
                f"the server was started anew while it verified {space}: ask again"
            )
        if it.end_time is not None:
            return it
        if shows:
            click.echo(f"\r{space}: {it.logs} of {it.total_logs} logs", err=True, nl=False)
        time.sleep(_LOOK_SECONDS)


def _print_verification(shell: Shell, it: Verification) -> None:
    if shell.as_json:
        json_line(plain(it))
        return
    out = console()
    if it.end_time is None:
        out.print(clean(f"{it.space}: {it.logs} of {it.total_logs} logs so far."))
    else:
        threads = f", {counted(it.threads, 'thread')}" if it.threads else ""
        out.print(
            clean(
                f"{it.space}: {counted(it.conversations, 'conversation')}, {counted(it.messages, 'message')},"
                f" {counted(it.external_communications, 'external communication')}{threads},"
                f" {counted(it.problem_count, 'problem')}."
            )
        )
    for problem in it.problems:
        out.print(clean(f"{problem.id or it.space}: {problem.problem}"))
    if left := it.problem_count - len(it.problems):
        warn(f"There are {left} problems more, or several in one line.")
    if it.failure:
        warn(f"The verification of {it.space} did not end: {it.failure}.")


@click.command("stats")
@with_shell
def get_stats(shell: Shell) -> None:
    """Print what the space holds and what is left to do there."""
    stats = shell.client.admin.get_stats()
    if shell.as_json:
        json_line(plain(stats))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in _flat(plain(stats.space)):
        table.add_row(one_line(name), one_line(value))
    if stats.server is not None:
        table.add_row("")
        for name, value in _flat(plain(stats.server)):
            table.add_row(one_line(f"server {name}"), one_line(value))
    console().print(table, soft_wrap=False)


def _flat(record: dict[str, Any], above: str = "") -> Iterable[tuple[str, str]]:
    """Yield the values of nested objects, each with its path."""
    for name, value in record.items():
        words = "".join(f" {c.lower()}" if c.isupper() else c for c in name)
        path = f"{above} {words}".strip()
        if isinstance(value, dict):
            yield from _flat(value, path)
        elif isinstance(value, list):
            for item in value:
                parts = item.values() if isinstance(item, dict) else [item]
                yield path, ", ".join(map(str, parts))
        elif isinstance(value, float):
            yield path, f"{value:.3g}"
        elif value not in ("", None):
            yield path, str(value)
