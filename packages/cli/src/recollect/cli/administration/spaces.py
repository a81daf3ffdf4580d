"""`recollect admin spaces`: look after the spaces of the server."""

from itertools import islice

import click

from recollect._shared.plain import plain
from recollect.cli.commands import Commands
from recollect.cli.options import MAX_NUMBER, Shell, WholeNumber, confirm, with_shell, with_yes
from recollect.cli.printing import local, one_line, table_of
from recollect.imports.values import counted

_PAGE = 500


@click.group(cls=Commands)
def spaces() -> None:
    """Look after the spaces of the server: one owner's data each."""


@spaces.command("list")
@click.option("--query", metavar="TEXT", help="Only those with this in their name.")
@with_shell
def list_spaces(shell: Shell, query: str | None) -> None:
    """List the spaces with what they hold."""
    rows = list(shell.client.admin.list_spaces(query=query, page_size=_PAGE))
    shell.print_table(
        rows,
        table_of("space", "state", "conversations", "messages", "bytes", "", right=(2, 3, 4)),
        lambda it: (
            one_line(it.name),
            one_line(it.state.value),
            *(str(number) for number in (it.conversations, it.messages, it.bytes)),
            one_line(it.index_problem or ("default" if it.is_default else "")),
        ),
        "There is no such space.",
    )


@spaces.command("create")
@click.argument("name")
@with_shell
def create_space(shell: Shell, name: str) -> None:
    """Make the space NAME, unless there is one."""
    made = shell.client.admin.create_space(name)
    what = "is made" if made.created else "was there already"
    shell.print(plain(made.space) | {"created": made.created}, f"{name} {what}.")


@spaces.command("delete")
@click.argument("name")
@with_yes
@with_shell
def delete_space(shell: Shell, name: str, yes: bool) -> None:
    """Delete the space NAME with all its data, for good."""
    if not yes:
        confirm(f"Delete the space {name} with everything in it, for good?")
    receipt = shell.client.admin.delete_space(name)
    shell.print(
        receipt,
        f"{name} is deleted: {counted(receipt.conversations, 'conversation')},"
        f" {counted(receipt.external_communications, 'external communication')}, {receipt.bytes} bytes."
        " Revoke its tokens, or a write makes it anew.",
    )


@spaces.command("receipts")
@click.option(
    "--limit",
    type=WholeNumber(0, MAX_NUMBER),
    default=50,
    show_default=True,
    help="The most receipts; 0 means all.",
)
@with_shell
def list_space_receipts(shell: Shell, limit: int) -> None:
    """List the receipts of deleted spaces, the newest first."""
    rows = list(islice(shell.client.admin.list_space_receipts(page_size=_PAGE), limit or None))
    shell.print_table(
        rows,
        table_of("space", "deleted", "conversations", "third parties", "bytes", right=(2, 3, 4)),
        lambda it: (
            one_line(it.name),
            local(it.delete_time),
            *(str(number) for number in (it.conversations, it.external_communications, it.bytes)),
        ),
        "No space was deleted.",
    )
