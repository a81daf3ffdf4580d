"""`recollect search`: finds conversations and messages again."""

from datetime import datetime

import click
from rich.console import Console

from recollect import BesideMessage, DateRange, LegScore, SearchHit, SearchResult
from recollect._shared.moments import local_zone
from recollect.cli.options import (
    CONVERSATION,
    Number,
    Shell,
    WholeNumber,
    with_participants,
    with_shell,
    with_span,
    with_topics,
)
from recollect.cli.printing import clean, local, one_line, snippet_of, warn


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--messages", is_flag=True, help="The messages that fit best, not the conversations.")
@click.option("--channel", metavar="NAME", help="Only of this channel.")
@click.option("--conversation", type=CONVERSATION, metavar="ID", help="Only in this conversation.")
@with_topics
@with_participants
@with_span
@click.option(
    "--limit",
    type=WholeNumber(1, 100),
    default=10,
    show_default=True,
    help="The most to list.",
)
@click.option(
    "--min-score",
    type=Number(0, 1),
    metavar="P",
    help="Only what scores at least this. A score is the probability that this result, or at least"
    " one behind it, answers.",
)
@click.option(
    "--time-zone",
    metavar="NAME",
    is_eager=True,  # --since is read by it
    help="The zone of dates, in WORDS too, such as Asia/Tokyo. Default: this machine's.",
)
@click.option(
    "--moment",
    is_flag=True,
    help="With --messages: show what was said right before and behind each.",
)
@click.option("--explain", is_flag=True, help="Show the part of each retriever in a score.")
@with_shell
def search(
    shell: Shell,
    words: tuple[str, ...],
    messages: bool,
    channel: str | None,
    conversation: str | None,
    topics: tuple[str, ...],
    participants: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    limit: int,
    min_score: float | None,
    time_zone: str | None,
    moment: bool,
    explain: bool,
) -> None:
    """Find the conversations that answer a question best.

    WORDS are a question or some words; no character in them is an operator. A search that finds
    nothing is no error.
    """
    answer = shell.client.recall.search(
        " ".join(words),
        limit=limit,
        channel=channel,
        date_range=DateRange(since, until) if since or until else None,
        conversation_id=conversation,
        topics=topics,
        participants=participants,
        min_score=min_score,
        time_zone=time_zone or local_zone(),
        explain=explain,
        moment=moment,
    )
    for leg in answer.degraded:
        warn(f"{leg.leg} could not answer in full: {leg.reason}")
    if messages:
        shell.print_each(answer.hits, _print_hit, "Nothing found.")
    else:
        shell.print_each(answer.results, _print_result, "Nothing found.")


def _print_result(out: Console, it: SearchResult) -> None:
    heading = one_line(it.conversation_name, "bold")
    out.print(heading.append_text(clean(f"  {it.score:.2f}", "dim")))
    turns = ", ".join(map(str, it.matched_turns))
    out.print(
        one_line(f"{it.conversation_id}  {it.channel}  {local(it.date)}  turns {turns}", "dim")
    )
    out.print(snippet_of(it), soft_wrap=False)
    _print_explanation(out, it.explanation)
    out.print()


def _print_hit(out: Console, it: SearchHit) -> None:
    heading = one_line(it.sender or it.role.value, "bold")
    place = f"  {local(it.date)}  {it.conversation_id}  turn {it.turn_number}  {it.score:.2f}"
    out.print(heading.append_text(one_line(place, "dim")))
    _print_beside(out, it.before)
    out.print(snippet_of(it), soft_wrap=False)
    _print_beside(out, it.after)
    _print_explanation(out, it.explanation)
    out.print()


def _print_beside(out: Console, message: BesideMessage | None) -> None:
    """Print a message beside a hit, cut to one line."""
    if message is not None:
        name = message.sender or message.role.value
        line = clean("  ").append_text(one_line(f"{name}: {message.text}", "dim"))
        out.print(line, no_wrap=True, overflow="ellipsis")


def _print_explanation(out: Console, explanation: tuple[LegScore, ...]) -> None:
    for leg in explanation:
        out.print(clean(f"  {leg.leg}: rank {leg.rank}, {leg.score:.3f}", "dim"))
