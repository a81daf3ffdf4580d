"""`recollect communications` and `recollect escalations`: third parties, how far they are trusted,
and what the owner is asked.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice
from typing import Any, BinaryIO

import click
from rich.console import Console
from rich.text import Text

from recollect import (
    CommunicationChanged,
    CommunicationDeleted,
    CommunicationEscalated,
    CommunicationList,
    CommunicationMatch,
    CommunicationMessage,
    CommunicationUpdate,
    DateRange,
    DeletedCommunications,
    Direction,
    Escalation,
    ExternalCommunication,
    ExternalMessage,
    ExternalMessageRedacted,
    Trust,
)
from recollect._shared.plain import plain
from recollect.cli.commands import Commands
from recollect.cli.deleting import end_of, print_receipt, remove_matching, the_one
from recollect.cli.options import (
    MAX_NUMBER,
    Shell,
    WholeNumber,
    confirm,
    text_of,
    with_channels,
    with_limit,
    with_patient_shell,
    with_shell,
    with_span,
    with_text,
    with_yes,
)
from recollect.cli.printing import (
    clean,
    console,
    json_line,
    local,
    one_line,
    snippet_of,
    update_record,
    warn,
)
from recollect.imports.values import counted

_PAGE = 500
_MOST_IDS = 1000
"""Ids that a delete takes."""
_ARROWS = {Direction.INBOUND: "←", Direction.OUTBOUND: "→"}
_TRUST = click.Choice([it.value for it in Trust])


@click.group(cls=Commands)
def communications() -> None:
    """Read, trust and answer third parties: senders who are no owners."""


@communications.command("list")
@click.option(
    "--party",
    metavar="NAME",
    help="Only with this party: its address as it is listed, the name of linked addresses, or else"
    " its display name.",
)
@click.option("--trust", type=_TRUST, help="Only with this trust.")
@click.option(
    "--open", "open_only", is_flag=True, help="Only those with a question that waits for the owner."
)
@with_limit
@with_shell
def list_communications(
    shell: Shell, party: str | None, trust: str | None, open_only: bool, limit: int
) -> None:
    """List communications, the newest message first."""

    def pages(party: str | None) -> Iterator[ExternalCommunication]:
        return shell.client.external.list_communications(
            party=party,
            trust=None if trust is None else Trust(trust),
            open_escalations_only=open_only,
            page_size=min(limit or _PAGE, _PAGE),
        )

    rows = pages(party)
    first = next(rows, None)
    if first is not None:
        rows = chain([first], rows)
    elif party is not None:
        rows = (it for it in pages(None) if _is_called(it, party))
    chosen = islice(rows, limit or None)
    shell.print_each(chosen, lambda out, it: out.print(_heading(it)), "No communications.")


@communications.command()
@click.argument("communication")
@click.option(
    "--messages",
    type=WholeNumber(1, _PAGE),
    default=20,
    show_default=True,
    help="The number of newest messages.",
)
@click.option("--all", "everything", is_flag=True, help="All messages, however many.")
@with_shell
def show(shell: Shell, communication: str, messages: int, everything: bool) -> None:
    """Show what was written in COMMUNICATION, an id as `list` prints it. As JSON every line is a
    message.
    """
    it, newest_first, has_more = _read(shell, communication, messages, everything=everything)
    if shell.as_json:
        for message in reversed(newest_first):
            json_line({"communicationId": it.id} | plain(message))
        return
    out = console()
    out.print(_heading(it))
    if has_more:
        out.print(clean("… there is more: --all", "dim"))
    for message in reversed(newest_first):
        out.print()
        _print_message(out, message)


@communications.command()
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--party",
    metavar="ADDRESS",
    help="Only with this party: with --channel in any usual form, else as it is listed.",
)
@click.option("--channel", metavar="NAME", help="Only on this channel.")
@click.option("--trust", type=_TRUST, help="Only with this trust.")
@click.option("--communication", metavar="ID", help="Only in this communication.")
@with_span
@click.option(
    "--limit",
    type=WholeNumber(1, 100),
    default=10,
    show_default=True,
    help="The most to list.",
)
@with_shell
def search(
    shell: Shell,
    words: tuple[str, ...],
    party: str | None,
    channel: str | None,
    trust: str | None,
    communication: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
) -> None:
    """Find messages from and to third parties, by words. `recollect search` finds nothing of
    these.
    """
    answer = shell.client.external.search_communications(
        " ".join(words),
        limit=limit,
        party=party,
        channel=channel,
        trust=None if trust is None else Trust(trust),
        date_range=DateRange(since, until) if since or until else None,
        communication_id=communication,
    )
    shell.print_each(answer, _print_match, "Nothing found.")


def _print_match(out: Console, it: CommunicationMatch) -> None:
    out.print(_heading(it.communication))
    arrow = _ARROWS[it.direction]
    out.print(one_line(f"{arrow} {local(it.timestamp)}  {it.score:.2f}", "dim"))
    out.print(snippet_of(it), soft_wrap=False)
    out.print()


@communications.command()
@click.argument("channel")
@click.argument("party")
@click.option(
    "--trust",
    "level",
    type=_TRUST,
    default=Trust.KNOWN.value,
    show_default=True,
    help="The trust in it.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="NAME",
    help="With known: what it may be answered about; may be repeated.",
)
@with_shell
def register(shell: Shell, channel: str, party: str, level: str, scopes: tuple[str, ...]) -> None:
    """Say how far PARTY on CHANNEL is trusted, before its first message: then that asks nobody."""
    _print_trust(
        shell,
        shell.client.external.register_contact(channel, party, trust=Trust(level), scopes=scopes),
    )


@communications.command()
@click.argument("communication")
@click.argument("level", type=_TRUST)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="NAME",
    help="With known: what it may be answered about; may be repeated.",
)
@with_shell
def trust(shell: Shell, communication: str, level: str, scopes: tuple[str, ...]) -> None:
    """Set how far the party of COMMUNICATION is trusted.

    To block it closes its open questions, without an answer.
    """
    _print_trust(shell, shell.client.external.set_trust(communication, Trust(level), scopes=scopes))


@communications.command()
@click.argument("communication")
@with_text
@click.option("--scope", metavar="NAME", help="The subject of the reply.")
@with_shell
def reply(
    shell: Shell,
    communication: str,
    words: tuple[str, ...],
    file: BinaryIO | None,
    scope: str | None,
) -> None:
    """Record TEXT as a reply to the party of COMMUNICATION. It ends with 5 where its trust does not
    allow one.

    Recollect sends nothing: the gateway that brings messages in also takes them out.
    """
    stored = shell.client.external.record_reply(communication, _required(words, file), scope=scope)
    if shell.as_json:
        json_line({"communicationId": stored.communication.id} | plain(stored.message))
    else:
        _print_message(console(), stored.message)


@communications.command("delete")
@click.argument("those", nargs=-1, metavar="[COMMUNICATION]...")
@click.option(
    "--party",
    "parties",
    multiple=True,
    metavar="NAME",
    help="With this party: an address in any usual form, or the name of linked addresses (`recollect"
    " owners link`), each of which is found; else a display name. May be repeated.",
)
@with_channels
@click.option(
    "--limit", type=WholeNumber(1, MAX_NUMBER), help="The most to remove.  [default: all]"
)
@click.option("--yes", is_flag=True, help="Remove them. Without it, only say which.")
@with_patient_shell
def delete_communications(
    shell: Shell,
    those: tuple[str, ...],
    parties: tuple[str, ...],
    channels: tuple[str, ...],
    limit: int | None,
    yes: bool,
) -> None:
    """Remove all communications that match every filter for good, the longest unchanged first.

    Without --yes nothing is removed: it prints what would be. With a communication go its questions
    and the trust in its party: one that was blocked may write again, as a stranger. Anybody may
    have any display name: others that are called as a removed party is are named, and stay. As JSON
    every line is a receipt.
    """
    if not (those or parties or channels):
        raise click.UsageError("Choose some: by their ids, with --party or with --channel.")
    if parties:
        those, parties = _of_parties(shell, those, parties, channels)

    def remove(most: int) -> DeletedCommunications:
        return shell.client.external.delete_communications(
            communication_ids=tuple(dict.fromkeys(those)),
            parties=parties,
            channels=channels,
            dry_run=not yes,
            limit=most,
        )

    def described(name: str) -> str:
        it = shell.client.external.get_communication(name, page_size=1).communication
        return f"{it.id}  {it.channel}  {it.party}, {counted(it.message_count, 'message')}"

    for receipt in remove_matching(remove, limit, yes=yes):
        print_receipt(shell, receipt, "communication", described, {}, is_dry=not yes)
    end_of(receipt)


def _is_called(it: ExternalCommunication, name: str) -> bool:
    return bool(it.party_name) and it.party_name.casefold() == name.casefold()


def _of_parties(
    shell: Shell, those: tuple[str, ...], parties: tuple[str, ...], channels: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids and the parties that a delete is to be about: of ids alone where a party is a
    display name, which the server does not search. Print what else is called as they are.
    """
    everything = list(shell.client.external.list_communications(page_size=_PAGE))
    matching: dict[str, ExternalCommunication] = {}
    is_by_name = False
    for party in parties:
        rows = list(shell.client.external.list_communications(party=party, page_size=_PAGE))
        if not rows:
            rows = [it for it in everything if _is_called(it, party)]
            is_by_name = is_by_name or bool(rows)
        if not rows:
            warn(f"{party}: is no address, name of linked addresses or display name of a party.")
        matching |= {it.id: it for it in rows if it.channel in channels or not channels}
    if those:
        matching = {name: it for name, it in matching.items() if name in those}
    names = {it.party_name for it in matching.values()} | set(parties)
    for it in everything:
        if it.id not in matching and any(_is_called(it, name) for name in names):
            warn(f"Called so too, and not among these: {it.id}  {it.channel}  {it.party}")
    if not is_by_name:
        return those, parties
    if len(matching) > _MOST_IDS:
        raise click.UsageError(
            f"{len(matching)} communications are of that name: choose them by address or --channel."
        )
    return tuple(matching), ()


@communications.command("redact")
@click.argument("communication")
@click.argument("sequence", type=WholeNumber(min=2), required=False)
@click.option(
    "--contains", metavar="TEXT", help="The one message with this text, whatever its case."
)
@with_yes
@with_shell
def redact_message(
    shell: Shell, communication: str, sequence: int | None, contains: str | None, yes: bool
) -> None:
    """Remove the text of a message of COMMUNICATION for good; that it was there stays.

    SEQUENCE is its number: `recollect communications show --json` prints it. Its files, the name of
    its sender and its quote in a question to the owner go too. It asks first on a terminal;
    elsewhere it needs --yes.
    """
    if (sequence is None) == (not contains):
        raise click.UsageError("Name the message by its sequence or with --contains.")
    if contains:
        _, messages, _ = _read(shell, communication, everything=True)
        those = [it.sequence for it in messages if contains.casefold() in it.text.casefold()]
        sequence = the_one(communication, those)
    assert sequence is not None
    if not yes:
        confirm(f"Remove the text of message {sequence} of {communication} for good?")
    done = shell.client.external.redact_external_message(communication, sequence)
    question = ", and of the question about it" if done.escalation else ""
    shell.print(done, f"{communication}: the text of message {sequence}{question} is removed.")


@communications.command("tail")
@click.option(
    "--cursor", metavar="CURSOR", help="Go on behind this update (`cursor` of a JSON line) instead."
)
@with_shell
def tail_communications(shell: Shell, cursor: str | None) -> None:
    """Follow third parties live, until Ctrl-C. As JSON every line is one update, and its `kind`
    says what happened.
    """
    out = console()
    with shell.client.external.watch(cursor=cursor) as watch:
        for update in watch:
            if shell.as_json:
                json_line(_record(update))
            else:
                _print_update(out, update)


@click.group(cls=Commands)
def escalations() -> None:
    """Read and answer what the owner is asked about third parties."""


@escalations.command("list")
@click.option("--communication", metavar="ID", help="Only of this communication.")
@click.option("--resolved", is_flag=True, help="Those that were resolved too.")
@with_limit
@with_shell
def list_escalations(shell: Shell, communication: str | None, resolved: bool, limit: int) -> None:
    """List the questions that wait for the owner, the oldest first."""
    pages = shell.client.external.list_escalations(
        communication_id=communication,
        include_resolved=resolved,
        page_size=min(limit or _PAGE, _PAGE),
    )
    shell.print_each(list(islice(pages, limit or None)), _print_escalation, "No questions.")


@escalations.command()
@click.argument("escalation")
@with_text
@with_shell
def resolve(shell: Shell, escalation: str, words: tuple[str, ...], file: BinaryIO | None) -> None:
    """Record TEXT as the owner's answer to ESCALATION, an id as `list` prints it."""
    it = shell.client.external.resolve_escalation(escalation, _required(words, file))
    if shell.as_json:
        json_line(plain(it))
    else:
        _print_escalation(console(), it)


def _read(
    shell: Shell, communication: str, newest: int = _PAGE, *, everything: bool
) -> tuple[ExternalCommunication, list[ExternalMessage], bool]:
    """Return a communication with its newest messages, newest first, and whether there are more."""
    get = shell.client.external.get_communication
    page = get(communication, page_size=_PAGE if everything else newest)
    it, messages = page.communication, list(page.messages)
    while everything and page.next_page_token:
        page = get(communication, page_size=_PAGE, page_token=page.next_page_token)
        messages += page.messages
    return it, messages, bool(page.next_page_token)


def _required(words: tuple[str, ...], file: BinaryIO | None) -> str:
    text = text_of(words, file)
    if text is None:
        raise click.UsageError("Missing the TEXT: give it as arguments or with --file.")
    return text


def _print_trust(shell: Shell, it: ExternalCommunication) -> None:
    if shell.as_json:
        json_line(plain(it))
    else:
        about = f" about {', '.join(it.scopes)}" if it.scopes else ""
        console().print(one_line(f"{it.party} on {it.channel} is {it.trust.value}{about}."))


def _heading(it: ExternalCommunication) -> Text:
    """Return two lines: who it is and how far they are trusted, and what to name it by."""
    trusted = " ".join([it.trust.value, *it.scopes])
    party = f"{it.party_name} <{it.party}>" if it.party_name else it.party
    heading = one_line(
        f"{party} ({it.channel}, {trusted}): {counted(it.message_count, 'message')}, {it.open_escalations}"
        " open",
        "bold",
    )
    return heading.append_text(clean(f"\n  {it.id}  {local(it.update_time)}", "dim"))


def _print_message(out: Console, message: ExternalMessage) -> None:
    style = "bold green" if message.direction is Direction.OUTBOUND else "bold cyan"
    about = message.email.subject if message.email else message.scope
    out.print(
        one_line(
            f"{_ARROWS[message.direction]} {local(message.timestamp)}  {message.sender_name} "
            f" {about}",
            style,
        )
    )
    if message.text:
        out.print(clean(message.text))
    for file in message.attachments:
        out.print(one_line(f"[{file.media_type}] {file.uri}", "blue"))


def _print_escalation(out: Console, it: Escalation) -> None:
    state = f"resolved {local(it.resolve_time)}" if it.resolve_time else "waits for the owner"
    out.print(one_line(f"{it.id}  {local(it.create_time)}  {it.communication_id}  {state}", "dim"))
    out.print(clean(it.question))
    if it.answer:
        out.print(clean(it.answer, "green"))
    out.print()


def _print_update(out: Console, update: CommunicationUpdate) -> None:
    match update.kind:
        case CommunicationList(communications=newest):
            if update.reset:
                warn("The stream began again: this is what is newest.")
            for it in reversed(newest):
                out.print(_heading(it))
        case (
            CommunicationMessage(communication=it, message=message)
            | ExternalMessageRedacted(communication=it, message=message)
        ):
            out.print(_heading(it))
            if message:
                _print_message(out, message)
        case CommunicationChanged(communication=it):
            out.print(_heading(it))
        case CommunicationEscalated(escalation=escalation):
            _print_escalation(out, escalation)
        case CommunicationDeleted():
            out.print(one_line(f"{update.communication_id} is deleted.", "bold"))


def _record(update: CommunicationUpdate) -> dict[str, Any]:
    """Return an update as JSON. `kind` is the name in the contract."""
    name = type(update.kind).__name__
    record = update_record(update, name, communicationId=update.communication_id)
    if isinstance(update.kind, CommunicationList):
        return record | {"communications": [plain(it) for it in update.kind.communications]}
    return record | {name: value for name, value in plain(update.kind).items() if value is not None}
