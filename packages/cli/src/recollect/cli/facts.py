"""`recollect anchors` and `recollect profile`: facts about the user, and what users said of
themselves.
"""

from datetime import datetime

import click
from rich.console import Console

from recollect import Anchor, ProfileStatement
from recollect.cli.commands import Commands
from recollect.cli.options import (
    CONVERSATION,
    MAX_NUMBER,
    Number,
    Shell,
    WholeNumber,
    confirm,
    with_as_of,
    with_shell,
    with_yes,
)
from recollect.cli.printing import clean, console, json_lines, local, one_line


@click.group(cls=Commands)
def anchors() -> None:
    """Show, set and delete anchors: lasting facts about the user, which stand in every context."""


@anchors.command("list")
@click.argument("key", required=False)
@click.option("--superseded", is_flag=True, help="Earlier values too.")
@with_as_of
@with_shell
def list_anchors(shell: Shell, key: str | None, superseded: bool, as_of: datetime | None) -> None:
    """List anchors by key, all of them or that of KEY."""
    rows = shell.client.recall.list_anchors(key, include_superseded=superseded, as_of=as_of)
    shell.print_each(rows, _print_anchor, "No anchors.")


def _print_anchor(out: Console, it: Anchor) -> None:
    out.print(one_line(f"{it.key}: {it.value}", "dim" if it.superseded_time else "bold"))
    until = f" to {local(it.superseded_time)}" if it.superseded_time else " on"
    source = f", from {it.source.conversation_id} {it.source.sequence}" if it.source else ""
    times = f"  from {local(it.create_time)}{until}, sure to {it.confidence:.2f}{source}"
    out.print(one_line(times, "dim"))


@anchors.command("set")
@click.argument("key")
@click.argument("value", nargs=-1, required=True)
@click.option(
    "--confidence",
    type=Number(0, 1),
    metavar="0..1",
    help="The confidence.  [default: the server's]",
)
@click.option(
    "--source",
    nargs=2,
    type=(CONVERSATION, WholeNumber(1, MAX_NUMBER)),
    metavar="CONVERSATION SEQUENCE",
    help="The message that it came from: its conversation, and its `sequence` in `show --json`.",
)
@with_shell
def set_anchor(
    shell: Shell,
    key: str,
    value: tuple[str, ...],
    confidence: float | None,
    source: tuple[str, int] | None,
) -> None:
    """Set the anchor KEY to VALUE. A value that it had before is superseded and remembered."""
    it = shell.client.recall.set_anchor(key, " ".join(value), confidence=confidence, source=source)
    before = f", before that {it.supersedes!r}" if it.supersedes else ""
    shell.print(it, f"{it.key} is {it.value!r}{before}.")


@anchors.command("delete")
@click.argument("key")
@with_yes
@with_shell
def delete_anchor(shell: Shell, key: str, yes: bool) -> None:
    """Forget the anchor KEY for good, with all values that it ever had. What was said stays in its
    conversation.

    It asks first on a terminal; elsewhere it needs --yes. As JSON every line is a value that was
    forgotten.
    """
    if not yes:
        confirm(f"Forget {key!r} for good?")
    forgotten: tuple[Anchor, ...] = shell.client.recall.delete_anchor(key)
    if shell.as_json:
        json_lines(forgotten)
    else:
        console().print(
            clean(f"{key} is forgotten: {', '.join(repr(it.value) for it in forgotten)}.")
        )


@click.group(cls=Commands)
def profile() -> None:
    """Show what users said of themselves and how they want to be answered, and take it away."""


@profile.command("list")
@with_as_of
@with_shell
def list_profile(shell: Shell, as_of: datetime | None) -> None:
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


@profile.command("remove")
@click.argument("conversation", type=CONVERSATION)
@click.argument("sequence", type=WholeNumber(1, MAX_NUMBER))
@click.argument("start", type=WholeNumber(0, MAX_NUMBER), default=0)
@with_yes
@with_shell
def remove_statement(shell: Shell, conversation: str, sequence: int, start: int, yes: bool) -> None:
    """Leave a statement out of the profile from now on, by its place as `profile list` shows it:
    CONVERSATION, SEQUENCE and START. What was said stays in its conversation.

    It asks first on a terminal; elsewhere it needs --yes.
    """
    if not yes:
        confirm("Leave it out of the profile?")
    shell.client.recall.remove_profile_statement(conversation, sequence, start)
    if not shell.as_json:
        console().print("It is in no context any more.")
