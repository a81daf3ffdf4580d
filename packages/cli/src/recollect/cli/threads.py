"""`recollect threads`: checkpoints of programs, such as LangGraph's."""

import click
from rich.console import Console

from recollect import CheckpointThread
from recollect.cli.commands import Commands
from recollect.cli.options import Shell, confirm, with_shell, with_yes
from recollect.cli.printing import local, one_line


@click.group(cls=Commands)
def threads() -> None:
    """List and delete threads: the checkpoints of programs, kept beside the conversations."""


@threads.command("list")
@with_shell
def list_(shell: Shell) -> None:
    """List all threads, each with its time and the size of its log."""
    rows = list(shell.client.checkpoints.list_threads(page_size=500))
    if not shell.as_json:
        rows.sort(key=lambda row: row.create_time, reverse=True)
    shell.print_each(rows, _print_thread, "No threads.")


def _print_thread(out: Console, it: CheckpointThread) -> None:
    out.print(one_line(it.thread_id, "bold"))
    out.print(one_line(f"  from {local(it.create_time)} on, {it.bytes} bytes", "dim"))


@threads.command()
@click.argument("names", nargs=-1, required=True, metavar="THREAD...")
@with_yes
@with_shell
def delete(shell: Shell, names: tuple[str, ...], yes: bool) -> None:
    """Delete each THREAD for good, to its last byte. A program that goes on with it begins anew.

    It asks first on a terminal; elsewhere it needs --yes.
    """
    if not yes:
        confirm(f"Delete {', '.join(map(repr, names))} for good?")
    for name in names:
        size = shell.client.checkpoints.delete_thread(name)
        what = f"{size} bytes are removed" if size else "there is no such thread"
        shell.print({"threadId": name, "bytesRemoved": size}, f"{name}: {what}.")
