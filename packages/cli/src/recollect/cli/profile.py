"""`recollect profile`: what is known of the user, in the words that were said."""

from datetime import datetime

import click
from rich.console import Console

from recollect import ProfileStatement
from recollect.cli.commands import Commands
from recollect.cli.options import (
    CONVERSATION,
    MAX_NUMBER,
    Shell,
    WholeNumber,
    confirm,
    with_as_of,
    with_shell,
    with_yes,
)
from recollect.cli.printing import clean, console, local, one_line


@click.group(cls=Commands)
def profile() -> None:
    """Show what users said of themselves and how they want to be answered, and take it away."""


@profile.command("list")
@with_as_of
@with_shell
def list_(shell: Shell, as_of: datetime | None) -> None:
    """List the profile, in the order in which it gets room in a context."""
    answer = shell.client.recall.get_profile(as_of=as_of)
    shell.print_each(answer.statements, _print_statement, "Nothing is known.")
    if answer.degraded and not shell.as_json:
        console().print(clean(f"Some may be missing: {answer.degraded}."))


def _print_statement(out: Console, it: ProfileStatement) -> None:
    sender = f" by {it.sender}" if it.sender else ""
    place = f"{it.conversation_id} {it.sequence} {it.start}"
    out.print(one_line(it.text, "bold"))
    out.print(one_line(f"{it.kind.value}, said {local(it.time)}{sender}, from {place}", "dim"))


@profile.command()
@click.argument("conversation", type=CONVERSATION)
@click.argument("sequence", type=WholeNumber(1, MAX_NUMBER))
@click.argument("start", type=WholeNumber(0, MAX_NUMBER), default=0)
@with_yes
@with_shell
def remove(shell: Shell, conversation: str, sequence: int, start: int, yes: bool) -> None:
    """Leave a statement out of the profile from now on, by its place as `profile list` shows it:
    CONVERSATION, SEQUENCE and START. What was said stays in its conversation.

    It asks first on a terminal; elsewhere it needs --yes.
    """
    if not yes:
        confirm("Leave it out of the profile?")
    shell.client.recall.remove_profile_statement(conversation, sequence, start)
    if not shell.as_json:
        console().print("It is in no context any more.")
