"""`recollect admin retention`: the rules of retention, a trial of any rules, and receipts."""

from itertools import islice

import click
from rich.console import Console

from recollect import RetiredConversation
from recollect.cli.commands import Commands
from recollect.cli.options import MAX_NUMBER, Shell, WholeNumber, with_shell
from recollect.cli.printing import clean, local, one_line, table_of, warn

_PAGE = 500


@click.group(cls=Commands)
def retention() -> None:
    """Look at the rules that delete and unindex conversations by themselves, and at what they did.

    The setting `retention` holds the rules: recollect admin settings set retention "delete
    channel=web idle=90d"
    """


@retention.command("rules")
@with_shell
def list_rules(shell: Shell) -> None:
    """List the rules about the space."""
    shell.print_table(
        shell.client.admin.list_retention_rules().rules,
        table_of("rule", "space", "anchors", "from"),
        lambda it: (
            one_line(it.rule),
            one_line(it.space or "every"),
            "stay" if it.keeps_anchors or it.unindexes else "go",
            local(it.start_time) if it.start_time else "now",
        ),
        "No rule is about this space: nothing is deleted or unindexed by itself.",
    )


@retention.command("preview")
@click.option(
    "--rules",
    metavar="TEXT",
    help="Rules to try, semicolons between them. [those in force]",
)
@click.option(
    "--limit",
    type=WholeNumber(1, 1000),
    default=100,
    show_default=True,
    help="The most conversations.",
)
@with_shell
def preview_retention(shell: Shell, rules: str | None, limit: int) -> None:
    """Print what the rules would delete or unindex now, and why. This changes nothing."""
    if rules is not None and not rules.strip(" ;"):
        raise click.UsageError("--rules: names no rule; leave it out for those in force")
    plan = shell.client.admin.preview_retention(retention=rules, limit=limit)
    shell.print_each(
        plan.conversations, _print_retired, "Nothing would be deleted or unindexed now."
    )
    if plan.has_more:
        warn(f"There are more than these {limit}: --limit takes up to 1000.")


@retention.command("receipts")
@click.option(
    "--limit",
    type=WholeNumber(0, MAX_NUMBER),
    default=50,
    show_default=True,
    help="The most receipts; 0 means all.",
)
@with_shell
def list_receipts(shell: Shell, limit: int) -> None:
    """List what rules deleted or unindexed, the newest first."""
    receipts = list(
        islice(shell.client.admin.list_retention_receipts(page_size=_PAGE), limit or None)
    )
    shell.print_each(
        receipts,
        lambda out, it: _print_retired(out, it.conversation, f"at {local(it.time)}, "),
        "No rule deleted or unindexed anything yet.",
    )


def _print_retired(out: Console, it: RetiredConversation, when: str = "") -> None:
    """Print a conversation on a line and the reason beneath: a table would cut the ids."""
    out.print(clean(f"{it.conversation_id}  {it.channel}", "bold"))
    out.print(
        one_line(f"{when}last changed at {local(it.update_time)}, {it.bytes} bytes", "dim"),
        one_line(f"{it.rule}: {it.reason}"),
        sep="\n",
    )
