"""`recollect export`: writes conversations as JSON lines, which `import` reads."""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

import click

from recollect import Client, DataDamaged, NotFound
from recollect.cli import transcript
from recollect.cli.exits import INCOMPLETE, Ended
from recollect.cli.options import CONVERSATION, Shell, with_channels, with_shell
from recollect.cli.printing import warn
from recollect.cli.reading import all_messages


@click.command()
@click.argument("conversations", nargs=-1, type=CONVERSATION, metavar="[CONVERSATION]...")
@with_channels
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write into FILE.")
@with_shell
def export(shell: Shell, conversations: tuple[str, ...], channels: tuple[str, ...], output: Path | None) -> None:
    """Write conversations as JSON lines, all of them or those that are named.

    The lines are those of the server's transcripts, checksums included: all messages, and the title, the topics, the model, the
    newest compression and the newest notes as they stand now. Each conversation begins with a line of the type `meta`. FILE is
    there when it is whole, and not before.
    """
    if output is None:
        left_out = _write(shell.client, conversations, channels, sys.stdout.buffer)
    else:
        try:
            # Made anew, for the owner alone, under a name that nobody can guess: others may write to its folder too.
            with NamedTemporaryFile("wb", dir=output.parent, prefix=f".{output.name}.", suffix=".part", delete=False) as file:
                part = Path(file.name)
                try:
                    left_out = _write(shell.client, conversations, channels, file)
                    file.close()  # all of it is written before it takes the name
                    part.replace(output)
                finally:
                    part.unlink(missing_ok=True)
        except OSError as error:
            raise Ended(f"cannot write {output}: {error.strerror}") from error
    if left_out:
        raise Ended(f"{left_out} conversations are not there in full", INCOMPLETE)


def _write(client: Client, names: tuple[str, ...], channels: tuple[str, ...], file: IO[bytes]) -> int:
    """Writes conversations and answers how many of them are not there in full."""
    left_out = 0
    for name in _chosen(client, names, channels):
        try:
            now = client.conversations.load(name, max_turns=1)
            assert now.conversation is not None, "a conversation that is named is answered or not found"
            history = all_messages(client, now.conversation)
        except (NotFound, DataDamaged) as error:
            warn(f"left out {name}: {error}")
            left_out += 1
            continue
        if history.damaged_lines:
            warn(f"left out of {name}: {history.damaged_lines} damaged lines of its transcript")
            left_out += 1
        file.write(transcript.encode(transcript.beginning(now.conversation)))
        file.writelines(map(transcript.encode, transcript.said(history.messages)))
        file.writelines(map(transcript.encode, transcript.happened(now)))
        file.flush()
    return left_out


def _chosen(client: Client, names: tuple[str, ...], channels: tuple[str, ...]) -> Iterator[str]:
    """The ids asked for, those first that changed last. Raises NotFound for a named one before anything is written."""
    if names:
        there = [client.conversations.get(name) for name in dict.fromkeys(names)]
        yield from (it.id for it in there if not channels or it.channel in channels)
        return
    found: dict[str, None] = {}
    while True:
        before = len(found)
        # One that gets a message while the pages are read moves to the front, unseen: read until nothing is new.
        found |= dict.fromkeys(it.id for it in client.conversations.list(channels=channels, page_size=500))
        if len(found) == before:
            break
    yield from found
