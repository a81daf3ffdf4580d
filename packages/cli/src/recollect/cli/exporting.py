"""`recollect export`: writes conversations as JSON lines, which `import` reads."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

import click

from recollect import ArchiveFilter, Client, RecollectError, TurnMemory, Unimplemented
from recollect._shared.history import read_history
from recollect.cli.exits import INCOMPLETE, Ended
from recollect.cli.options import (
    CONVERSATION,
    NamedPath,
    Shell,
    with_channels,
    with_participants,
    with_patient_shell,
)
from recollect.cli.printing import followed, warn
from recollect.imports import transcript
from recollect.imports.plans import Tally
from recollect.imports.running import in_parallel
from recollect.imports.sending import ends_run
from recollect.imports.values import counted

_INDEX = "conversations.db"
"""The file of a server's index, by which its data folder is known."""


@click.command()
@click.argument("conversations", nargs=-1, type=CONVERSATION, metavar="[CONVERSATION]...")
@with_channels
@with_participants
@click.option(
    "--output", "-o", type=NamedPath(dir_okay=False), metavar="FILE", help="Write into FILE."
)
@click.option(
    "--folder",
    "-d",
    type=NamedPath(file_okay=False),
    metavar="DIR",
    help="Write into DIR, a file conv-….jsonl for each conversation.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that are in DIR already.")
@with_patient_shell
def export(
    shell: Shell,
    conversations: tuple[str, ...],
    channels: tuple[str, ...],
    participants: tuple[str, ...],
    output: Path | None,
    folder: Path | None,
    overwrite: bool,
) -> None:
    """Write conversations as JSON lines, all of them or those that are named.

    The lines are those of the server's transcripts, checksums included: all messages, and the
    title, the topics, the model, the newest compression and the newest notes as they stand now, and
    what was recorded of turns.
    Earlier ones, anchors, suggested splits, and which request wrote what, the API does not tell:
    `recollect-server backup` keeps every line. Each conversation begins with a line of the type
    `meta`. A file is there when it is whole, and not before.
    """
    if conversations and participants:
        raise click.UsageError("Name conversations, or choose them with --participant.")
    if output and folder:
        raise click.UsageError("Give --output or --folder, not both.")
    if overwrite and not folder:
        raise click.UsageError("--overwrite is for --folder.")
    try:
        if output and output.exists() and not output.is_file():
            # A file that takes the name would remove a pipe or, for root, a device.
            raise Ended(
                f"cannot write {output}: it is no regular file. Leave out --output to write to standard"
                " output"
            )
        chosen = _chosen(shell.client, conversations, channels, participants)
        if folder:
            tally = _write_folder(shell.client, folder, chosen, overwrite=overwrite)
        elif output:
            with _new_file(output) as file:
                tally = _write(shell.client, chosen, file)
        else:
            tally = _write(shell.client, chosen, sys.stdout.buffer)
    except BrokenPipeError:
        raise
    except OSError as error:
        if not output and not folder:
            raise
        raise Ended(f"cannot write {output or folder}: {error.strerror}") from error
    if folder:
        counts = {"conversations": tally.conversations_new, "messages": tally.messages_new}
        written = f"{counted(tally.conversations_new, 'conversation')} with {counted(tally.messages_new, 'message')}"
        shell.print(counts | {"leftOut": len(tally.skips)}, f"Wrote {written} into {folder}.")
    if tally.skips:
        raise Ended(f"not there in full: {counted(len(tally.skips), 'conversation')}", INCOMPLETE)


def _chosen(
    client: Client,
    names: tuple[str, ...],
    channels: tuple[str, ...],
    participants: tuple[str, ...],
) -> list[str]:
    """Return the ids asked for, newest first.

    Raises NotFound for a name that is no conversation.
    """
    if names:
        there = [client.conversations.get(name) for name in dict.fromkeys(names)]
        return [it.id for it in there if not channels or it.channel in channels]
    ids: dict[str, None] = {}
    while True:
        before = len(ids)
        # A conversation that gets a message while the pages are read moves to the front, unseen:
        # read until nothing is new.
        pages = client.conversations.list(
            channels=channels,
            participants=participants,
            page_size=500,
            archived=ArchiveFilter.ALL,
        )
        ids |= dict.fromkeys(it.id for it in pages)
        if len(ids) == before:
            return list(ids)


def _write_folder(client: Client, folder: Path, chosen: list[str], *, overwrite: bool) -> Tally:
    """Write a file for each conversation, the one that changed last at the end. Raises OSError."""
    if (folder / _INDEX).exists():
        raise Ended(f"{folder} is the data folder of a server: name another one")
    there = [name for name in chosen if _path(folder, name).exists()]
    if there and not overwrite:
        raise Ended(
            f"{folder} has {len(there)} of these {len(chosen)} conversations already,"
            f" {_path(folder, there[0]).name} first: name another folder, or replace them with"
            " --overwrite"
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tally = Tally()
    written = in_parallel(partial(_write_file, client, folder), reversed(chosen))
    for one in followed(written, total=len(chosen), title="Exporting"):
        tally.add(one)
        tally.skips += one.skips
    return tally


def _write_file(client: Client, folder: Path, conversation_id: str) -> Tally:
    tally = Tally()
    lines = _lines(client, conversation_id, tally)
    if tally.conversations_new:
        with _new_file(_path(folder, conversation_id)) as file:
            file.writelines(lines)
    return tally


def _path(folder: Path, conversation_id: str) -> Path:
    return folder / f"{conversation_id}.jsonl"


def _write(client: Client, chosen: list[str], file: IO[bytes]) -> Tally:
    """Write the conversations into one file. Raises OSError."""
    tally = Tally()
    for name in followed(chosen, total=len(chosen), title="Exporting"):
        file.writelines(_lines(client, name, tally))
        file.flush()
    return tally


def _lines(client: Client, conversation_id: str, tally: Tally) -> Iterator[bytes]:
    """Return the lines of a conversation, none where it cannot be read, and count them."""
    try:
        now = client.conversations.load(conversation_id, max_turns=1)
        assert now.conversation is not None, "a conversation that is named is answered or not found"
        history = read_history(client.conversations.load, now.conversation)
        memories = _memories(client, conversation_id)
    except RecollectError as error:
        if ends_run(error):
            raise
        _leave_out(tally, conversation_id, str(error))
        return iter(())
    if history.damaged_lines:
        _leave_out(
            tally,
            conversation_id,
            f"{counted(history.damaged_lines, 'damaged line')} of its transcript",
        )
    tally.conversations_new += 1
    tally.messages_new += len(history.messages)
    return map(transcript.encode, transcript.lines_of(now, history.messages, memories))


def _memories(client: Client, conversation_id: str) -> list[TurnMemory]:
    """Return what is recorded of the turns of a conversation; a server of an earlier version keeps
    nothing of them.
    """
    with suppress(Unimplemented):
        return list(client.conversations.list_turn_memory(conversation_id))
    return []


def _leave_out(tally: Tally, conversation_id: str, reason: str) -> None:
    tally.skip(conversation_id, reason)
    warn(f"left out of {conversation_id}: {reason}")


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its name when it is whole. Raises OSError.

    It is made anew, for the owner alone, under a name that nobody can guess: others may write to
    its folder too.
    """
    with NamedTemporaryFile(
        "wb", dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False
    ) as file:
        part = Path(file.name)
        try:
            yield file
            file.close()  # all of it is written before it takes the name
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
