"""`recollect-server export`: writes conversations of a running server as plain Recollect JSONL, which `import` reads."""

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import NamedTemporaryFile

import click
from recollect import (
    Client,
    Conversation,
    DataDamaged,
    InvalidArgument,
    LoadedConversation,
    NoteRecord,
    NotFound,
    ResourceExhausted,
)

from recollect_server.cli.conversion import message_from, party_from, time_from
from recollect_server.cli.options import NamedPath
from recollect_server.cli.parallel import each
from recollect_server.cli.plan import Tally
from recollect_server.cli.remote import connected, with_target
from recollect_server.domain.conversation import Abbreviated, Began, Compressed, Event, MetaUpdated, TitleAssigned
from recollect_server.domain.message import Message
from recollect_server.storage.index.file import NAME
from recollect_server.storage.logs.files import SUFFIX
from recollect_server.storage.logs.record import Entry, Stamp, encode

_PAGE_TURNS = 1000
_PAGE_TOKENS = 2_000_000  # about 8 MB of text


@click.command()
@click.argument("folder", metavar="DIR", type=NamedPath(file_okay=False, path_type=Path))
@click.option("--channel", "channels", multiple=True, metavar="NAME", help="only of this channel; may be repeated")
@click.option("--conversation", "ids", multiple=True, metavar="ID", help="only this conversation; may be repeated")
@click.option("--overwrite", is_flag=True, help="replace files that are there already")
@with_target
def export(
    folder: Path,
    channels: tuple[str, ...],
    ids: tuple[str, ...],
    overwrite: bool,
    target: str | None,
    config: Path | None,
) -> None:
    """Write the conversations of a running server into DIR, one conv-….jsonl each.

    The files are transcripts as the server keeps them, with what its API tells: all messages, and the title, the topics, the model,
    the newest compression and the newest abbreviation as they stand now. Earlier ones, anchors, suggested splits, and which request
    wrote what, it does not tell: `backup` keeps every line. `import` reads the files back.
    """
    if (folder / NAME).exists():
        raise click.ClickException(f"{folder} is the data folder of a server: name another one")
    tally = Tally()
    with connected(target, config) as client:
        chosen = _chosen(client, channels, ids)
        there = [name for name in chosen if _path(folder, name).exists()]
        if there and not overwrite:
            raise click.ClickException(
                f"{folder} has {len(there)} of these {len(chosen)} conversations already, {there[0]}{SUFFIX} first:"
                " name another folder, or replace them with --overwrite"
            )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            for one in each(partial(_write, client, folder), chosen, total=len(chosen), title="Exporting"):
                tally.add(one)
                for skip in one.skips:
                    click.echo(f"skipped {skip}", err=True)
        except OSError as error:
            raise click.ClickException(f"cannot write into {folder}: {error.strerror}") from error
    click.echo(
        f"Wrote {tally.conversations_new} conversations with {tally.messages_new} messages into {folder}."
        f" Skipped: {len(tally.skips)}."
    )


def _chosen(client: Client, channels: tuple[str, ...], ids: tuple[str, ...]) -> list[str]:
    """The ids of the conversations that are asked for, those last that changed last. Ends the command for one that is not there."""
    try:
        if ids:
            there = [client.conversations.get(name) for name in dict.fromkeys(ids)]
            return [it.id for it in there if not channels or it.channel in channels]
        found: dict[str, None] = {}
        while True:
            before = len(found)
            # One that gets a message while the pages are read moves to the front, unseen: read until nothing is new.
            found |= dict.fromkeys(it.id for it in client.conversations.list(channels=channels, page_size=500))
            if len(found) == before:
                return list(found)[::-1]
    except (InvalidArgument, NotFound) as error:
        raise click.ClickException(str(error)) from error


def _write(client: Client, folder: Path, conversation_id: str) -> Tally:
    """Writes one conversation, whole or not at all."""
    tally = Tally()
    try:
        now = client.conversations.load(conversation_id, max_turns=1)
        assert now.conversation is not None, "a conversation that is named is answered or not found"
        pages, damaged = _history(client, now.conversation)
    except NotFound:
        tally.skip(conversation_id, "it was deleted meanwhile")
        return tally
    except DataDamaged as error:
        tally.skip(conversation_id, str(error))
        return tally
    if damaged:
        tally.skip(conversation_id, f"{damaged} damaged lines of its transcript")
    path = _path(folder, conversation_id)
    # Made anew, for the owner alone, under a name that nobody can guess: others may write to the folder too.
    with NamedTemporaryFile("wb", dir=folder, prefix=f".{path.name}.", suffix=".part", delete=False) as file:
        part = Path(file.name)
        try:
            file.write(encode(Entry(_began(now.conversation))))
            for page in pages:
                file.writelines(_lines(page))
                tally.messages_new += len(page)
            file.writelines(encode(Entry(event)) for event in _events(now))
            file.close()  # all of it is written before it takes the name
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    tally.conversations_new = 1
    return tally


def _history(client: Client, conversation: Conversation) -> tuple[list[list[Message]], int]:
    """All messages in pages of whole turns, oldest first, and how many damaged lines lie among them."""
    pages: list[list[Message]] = []
    damaged = 0
    before, turns, more = conversation.turn_count + 1, _PAGE_TURNS, conversation.message_count > 0
    cut = 0  # the line before which the turn goes on, where it alone is larger than an answer may be
    while more and (before > 1 or cut):
        try:
            page = client.conversations.load(
                conversation.id, max_turns=turns, max_tokens=_PAGE_TOKENS, before_turn=before, before_sequence=cut
            )
        except ResourceExhausted:
            if turns == 1:
                raise
            turns = max(1, turns // 4)  # thinking and metadata do not count as tokens: the page was too large to receive
            continue
        damaged += page.damaged_lines
        more = page.has_more
        if page.messages:
            pages.append([message_from(message) for message in page.messages])
        cut = page.cut_before_sequence
        before = page.messages[0].turn_number + bool(cut) if page.messages else before - 1
    return pages[::-1], damaged


def _began(conversation: Conversation) -> Began:
    return Began(
        conversation.id,
        conversation.channel,
        time_from(conversation.create_time),
        conversation.participants,
        party_from(conversation.party),
        conversation.model,
    )


def _lines(messages: list[Message]) -> Iterator[bytes]:
    """The lines of these messages, every turn a batch: it is stored whole or not at all where it is imported."""
    for _, group in groupby(messages, key=lambda message: message.turn_number):
        turn = list(group)
        for index, message in enumerate(turn, start=1):
            yield encode(Entry(message, Stamp(batch=(index, len(turn)))))


def _events(now: LoadedConversation) -> Iterator[Event]:
    """What happened to the conversation besides its messages, as far as it still holds."""
    conversation = now.conversation
    assert conversation is not None
    time, topics, notes = time_from(conversation.update_time), conversation.topics, conversation.notes
    if conversation.title and (not conversation.manually_named or (topics and not conversation.abbreviation)):
        yield TitleAssigned(conversation.title, topics, time, *_written_by(notes.title if notes else None))
    if conversation.compressed_through:
        yield Compressed(conversation.compressed_through, now.compression_summary, time)
    if conversation.abbreviation:
        by = _written_by(notes.abbreviation if notes else None)
        yield Abbreviated(conversation.abbreviation, time, topics or None, *by)
    if conversation.manually_named:
        yield MetaUpdated(time, title=conversation.title, manually_named=True)
    if conversation.pinned:
        yield MetaUpdated(time, pinned=True)


def _written_by(record: NoteRecord | None) -> tuple[str, str]:
    """Return writer and model as a line has them: empty where nothing is recorded."""
    return ("", "") if record is None or record.writer == "unknown" else (record.writer, record.model)


def _path(folder: Path, conversation_id: str) -> Path:
    return folder / f"{conversation_id}{SUFFIX}"
