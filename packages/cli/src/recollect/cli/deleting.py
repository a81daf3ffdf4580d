"""`recollect delete`, `delete-many` and `redact`: what a person removes for good."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, TypeVar

import click

from recollect import (
    AnchorDisposition,
    ArchiveFilter,
    DeletedCommunications,
    DeletedConversations,
)
from recollect._shared.history import read_history
from recollect._shared.plain import plain
from recollect.cli import exits
from recollect.cli.options import (
    CONVERSATION,
    MAX_NUMBER,
    Shell,
    WholeNumber,
    confirm,
    with_channels,
    with_participants,
    with_patient_shell,
    with_shell,
    with_span,
    with_topics,
    with_yes,
)
from recollect.cli.printing import called, clean, console, json_line, warn
from recollect.imports.values import counted

_MOST_AT_ONCE = 1000
"""Conversations, or communications, that one call deletes."""
_MOST_NAMED = 20
"""Those of a dry run that a person sees described."""

Receipt = TypeVar("Receipt", DeletedConversations, DeletedCommunications)


@click.command()
@click.argument(
    "conversations", nargs=-1, required=True, type=CONVERSATION, metavar="CONVERSATION..."
)
@click.option(
    "--anchors",
    type=click.Choice([it.value for it in AnchorDisposition]),
    help="The fate of facts about the user that came from it. Without this, one that has"
    " some is not deleted.",
)
@click.option(
    "--force", is_flag=True, help="Pinned ones too: those that their channels' new messages join."
)
@with_yes
@with_shell
def delete(
    shell: Shell, conversations: tuple[str, ...], anchors: str | None, force: bool, yes: bool
) -> None:
    """Remove each CONVERSATION for good, its text from every file of the service.

    It asks first on a terminal; elsewhere it needs --yes. As JSON every line is a receipt, which
    says what was removed from where.
    """
    if not yes:
        there = [shell.client.conversations.get(name) for name in dict.fromkeys(conversations)]
        named = ", ".join(f"{it.id} ({called(it)}, {it.turn_count} turns)" for it in there)
        confirm(f"Remove {named} for good?")
    disposition = None if anchors is None else AnchorDisposition(anchors)
    for name in dict.fromkeys(conversations):
        receipt = shell.client.conversations.delete(name, anchors=disposition, force=force)
        places = ", ".join(f"{it.place} {it.count}" for it in receipt.removed)
        shell.print(receipt, f"{receipt.conversation_id} is removed: {places}.")


@click.command("delete-many")
@click.argument("conversations", nargs=-1, type=CONVERSATION, metavar="[CONVERSATION]...")
@with_channels
@with_topics
@with_participants
@with_span
@click.option("--archived", is_flag=True, help="Only those in the archive.")
@click.option(
    "--all", "everything", is_flag=True, help="Every conversation, where nothing chooses some."
)
@click.option(
    "--limit", type=WholeNumber(1, MAX_NUMBER), help="The most to remove.  [default: all]"
)
@click.option(
    "--anchors",
    type=click.Choice([it.value for it in AnchorDisposition]),
    help="The fate of facts about the user that came from them. Without this, those that have"
    " some are left.",
)
@click.option(
    "--force", is_flag=True, help="Pinned ones too: those that their channels' new messages join."
)
@click.option("--yes", is_flag=True, help="Remove them. Without it, only say which.")
@with_patient_shell
def delete_many(
    shell: Shell,
    conversations: tuple[str, ...],
    channels: tuple[str, ...],
    topics: tuple[str, ...],
    participants: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    archived: bool,
    everything: bool,
    limit: int | None,
    anchors: str | None,
    force: bool,
    yes: bool,
) -> None:
    """Remove all conversations that match every filter for good, the longest unchanged first.

    Without --yes nothing is removed: it prints what would be. Those with facts about the user, and
    pinned ones, are left and named unless --anchors and --force say what to do with them. As JSON
    every line is a receipt.
    """
    filters = (conversations, channels, topics, participants, since, until, archived)
    if not any(filters) and not everything:
        raise click.UsageError("Choose some with a filter, or all with --all.")
    if any(filters) and everything:
        raise click.UsageError("--all goes with no filter.")
    chosen = ArchiveFilter.ARCHIVED if archived else ArchiveFilter.ALL if everything else None
    disposition = None if anchors is None else AnchorDisposition(anchors)

    def remove(most: int) -> DeletedConversations:
        return shell.client.conversations.delete_many(
            conversation_ids=tuple(dict.fromkeys(conversations)) or None,
            channels=channels,
            topics=topics,
            participants=participants,
            updated_after=since,
            updated_before=until,
            archived=chosen,
            anchors=disposition,
            force=force,
            dry_run=not yes,
            limit=most,
        )

    def described(name: str) -> str:
        it = shell.client.conversations.get(name)
        return f"{it.id}  {it.channel}  {called(it)}, {it.turn_count} turns"

    for receipt in remove_matching(remove, limit, yes=yes):
        left = [{"conversationId": name, "reason": reason} for name, reason in receipt.left]
        extra = {"left": left} if left else {}
        print_receipt(shell, receipt, "conversation", described, extra, is_dry=not yes)
    if not shell.as_json:
        _print_left(receipt)
    end_of(receipt)


def remove_matching(
    remove: Callable[[int], Receipt], limit: int | None, *, yes: bool
) -> Iterator[Receipt]:
    """Call `remove`, with how many it may remove, until nothing is left to remove, and yield each
    receipt. Without `yes` call it once.
    """
    count = 0
    while True:
        receipt = remove(min(_MOST_AT_ONCE, limit - count if limit else _MOST_AT_ONCE))
        removed = len(ids_of(receipt))
        count += removed
        yield receipt
        is_done = not (yes and receipt.has_more and removed) or bool(receipt.failure)
        if is_done or (limit is not None and count >= limit):
            return


def end_of(receipt: Receipt) -> None:
    """End the command with the failure of the last receipt, if it has one."""
    if receipt.failure:
        raise exits.Ended(
            f"it ended early, at {receipt.failure}; run it again for the rest", exits.FAILED
        )


def ids_of(receipt: Receipt) -> tuple[str, ...]:
    """Return the ids of what a receipt is about."""
    if isinstance(receipt, DeletedCommunications):
        return receipt.communication_ids
    return receipt.conversation_ids


def print_receipt(
    shell: Shell,
    receipt: Receipt,
    noun: str,
    described: Callable[[str], str],
    extra: dict[str, Any],
    *,
    is_dry: bool,
) -> None:
    """Print a receipt, and of a dry run what would be removed, each as `described` has it."""
    if shell.as_json:
        json_line(plain(receipt) | extra | {"dryRun": is_dry})
        return
    out, ids = console(), ids_of(receipt)
    named = counted(len(ids), noun)
    if is_dry:
        more = " and more" if receipt.has_more else ""
        out.print(clean(f"Would remove {named}{more} for good; --yes does it."))
        for name in ids[:_MOST_NAMED]:
            out.print(clean(f"  {described(name)}"))
        if len(ids) > _MOST_NAMED:
            out.print(clean(f"  … and {len(ids) - _MOST_NAMED} more"))
    else:
        places = ", ".join(f"{it.place} {it.count}" for it in receipt.removed)
        out.print(clean(f"Removed {named}: {places}." if places else f"Removed {named}."))


def _print_left(receipt: DeletedConversations) -> None:
    out = console()
    for name, reason in receipt.left:
        why = _LEFT.get(reason, f"the server refuses it: {reason}")
        out.print(clean(f"Left {name}: {why}."))


_LEFT = {
    "CONVERSATION_PINNED": "it is pinned; --force removes it too",
    "ANCHORS_PRESENT": "facts about the user came from it; --anchors says what becomes of them",
}


def _message_with(shell: Shell, conversation: str, text: str) -> int:
    """Return the message of a conversation that has a text. Ends the command unless it is one."""
    load = shell.client.conversations.load
    now = load(conversation, max_turns=1).conversation
    assert now is not None, "a conversation that is named is answered or not found"
    folded = text.casefold()
    those = [
        it.sequence
        for it in read_history(load, now).messages
        if folded in it.content.casefold() or folded in it.thinking_text.casefold()
    ]
    return the_one(conversation, those)


def the_one(name: str, those: list[int]) -> int:
    """Return the only message that has a text. Ends the command unless there is exactly one."""
    if not those:
        raise exits.Ended(f"--contains: no message of {name} has that text", exits.USAGE)
    if len(those) > 1:
        named = ", ".join(map(str, those[:10]))
        raise exits.Ended(
            f"--contains: {len(those)} messages ({named}) of {name} have that text;"
            " give more of it, or the message's sequence",
            exits.USAGE,
        )
    return those[0]


@click.command()
@click.argument("conversation", type=CONVERSATION)
@click.argument("sequence", type=WholeNumber(min=2), required=False)
@click.option(
    "--turn",
    "turn_number",
    type=WholeNumber(min=1),
    metavar="N",
    help="All messages of this turn, instead of one.",
)
@click.option(
    "--contains", metavar="TEXT", help="The one message with this text, whatever its case."
)
@with_yes
@with_shell
def redact(
    shell: Shell,
    conversation: str,
    sequence: int | None,
    turn_number: int | None,
    contains: str | None,
    yes: bool,
) -> None:
    """Remove the text of a message of CONVERSATION for good; that it was there stays.

    SEQUENCE is its number: `recollect show --json` prints it. What was made of the text, as notes
    and summaries, goes too. It asks first on a terminal; elsewhere it needs --yes.
    """
    if [sequence, turn_number, contains or None].count(None) != 2:
        raise click.UsageError(
            "Name the message by its sequence or with --contains, or a turn with --turn."
        )
    if contains:
        sequence = _message_with(shell, conversation, contains)
    if not yes:
        what = f"message {sequence}" if sequence else f"all messages of turn {turn_number}"
        confirm(f"Remove the text of {what} of {conversation} for good?")
    done = shell.client.conversations.redact_message(
        conversation, sequence, turn_number=turn_number
    )
    noun = "message" if len(done.messages) == 1 else "messages"
    lines = ", ".join(str(it.sequence) for it in done.messages)
    shell.print(done, f"{conversation}: the text of {noun} {lines} is removed.")
    if done.copied_in and not shell.as_json:
        copies = ", ".join(done.copied_in)
        warn(f"Copies may stand in {copies}: redact them there too.")
