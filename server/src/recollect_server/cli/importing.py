"""`recollect-server import`: brings recall sets and transcripts into a running server, exactly once."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
import orjson
from recollect import Client

from recollect_server.cli import recall_sets, transcripts
from recollect_server.cli.options import NamedPath
from recollect_server.cli.parallel import each
from recollect_server.cli.plan import Plan, Skip, Tally
from recollect_server.cli.recall_sets import SetOptions
from recollect_server.cli.remote import connected, with_target
from recollect_server.cli.sending import carry_out
from recollect_server.domain.errors import InvalidField
from recollect_server.storage.logs.files import open_transcript
from recollect_server.transport.checks import Checks

Reading = Callable[[], Plan | Skip | None]


@dataclass(slots=True)
class Sources:
    """The files that a path stands for."""

    sets: list[Path] = field(default_factory=list)
    transcripts: list[Path] = field(default_factory=list)


@click.command("import")
@click.argument("path", type=NamedPath(exists=True, path_type=Path))
@click.option("--channel", metavar="NAME", help="the channel that a recall set's conversations are put on [web]")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="only this group of a recall set; may be repeated")
@click.option("--abbreviations", is_flag=True, help="record a recall set's abbreviations as the conversations' notes")
@with_target
def import_(
    path: Path,
    channel: str | None,
    groups: tuple[str, ...],
    abbreviations: bool,
    target: str | None,
    config: Path | None,
) -> None:
    """Bring conversations into a running server.

    PATH is a recall set (a folder with conversations.jsonl, a folder of such folders, or the file), a transcript
    (conv-….jsonl), or a folder of transcripts, as `export` writes them and the server keeps them. A second run adds nothing; a run
    that broke off is finished by the next.

    Lines of a transcript that people or other programs wrote need no checksum, and messages neither time nor turn. A conversation
    keeps its id where that is free; its turns are numbered anew. Of a transcript the API takes everything but anchors, suggested
    splits and pins. Every line that is left out is named, with the reason, on standard error. `backup` and `restore` leave nothing
    out.
    """
    try:
        sources = find_sources(path)
        options = _set_options(sources, channel, groups, abbreviations)
        _check_groups(sources, options.groups)
        with connected(target, config) as client:
            began = time.monotonic()
            tally = _import_all(client, sources, options)
    except OSError as error:
        raise click.ClickException(f"cannot read {error.filename or path}: {error.strerror}") from error
    click.echo(summary(tally, time.monotonic() - began))


def find_sources(path: Path) -> Sources:
    """What a path stands for. Ends the command if it is nothing that can be imported."""
    if path.is_file():
        return Sources(transcripts=[path]) if _is_transcript(path) else Sources(sets=[path])
    if (path / recall_sets.FILE).is_file():
        return Sources(sets=[path / recall_sets.FILE])
    if found := sorted(path.glob(transcripts.PATTERN)):
        return Sources(transcripts=found)
    if found := sorted(path.glob(f"*/{recall_sets.FILE}")):
        return Sources(sets=found)
    raise click.ClickException(
        f"{path} holds nothing to import: neither {recall_sets.FILE} (here or one folder down) nor {transcripts.PATTERN}"
    )


def summary(tally: Tally, seconds: float) -> str:
    """What came of an import, on one line."""
    said = (
        f"Conversations: {tally.conversations_new} new, {tally.conversations_known} already there."
        f" Messages: {tally.messages_new} new, {tally.messages_known} already there."
        f" Skipped: {len(tally.skips)}. {seconds:.1f} s."
    )
    return f"{said} The server gave {tally.ids_given} of the new conversations an id of its own." if tally.ids_given else said


def _import_all(client: Client, sources: Sources, options: SetOptions) -> Tally:
    tally = Tally()
    total = len(sources.transcripts) + sum(1 for source in sources.sets for _ in recall_sets.lines(source))
    work = partial(_bring_in, client)
    for one in each(work, _readings(sources, options), total=total, title="Importing"):
        tally.add(one)
        for skip in one.skips:
            click.echo(f"skipped {skip}", err=True)
    return tally


def _bring_in(client: Client, reading: Reading) -> Tally:
    match reading():
        case Plan() as plan:
            return carry_out(client, plan)
        case Skip() as skip:
            return Tally(skips=[skip])
        case _:
            return Tally()


def _readings(sources: Sources, options: SetOptions) -> Iterator[Reading]:
    """What is to be read, one conversation each. The reading itself is done where it is sent."""
    for transcript in sources.transcripts:
        yield partial(transcripts.read, transcript)
    for source in sources.sets:
        for line in recall_sets.lines(source):
            yield partial(recall_sets.read, line, options)


def _is_transcript(path: Path) -> bool:
    """Whether a file's first line that is JSON is one of a transcript."""
    if path.match(transcripts.PATTERN):
        return True
    with os.fdopen(open_transcript(path.resolve(), os.O_RDONLY), "rb") as file:
        for text in file:
            try:
                fields: Any = orjson.loads(text)
            except orjson.JSONDecodeError:
                continue
            return isinstance(fields, dict) and "type" in fields
    return False


def _set_options(sources: Sources, channel: str | None, groups: tuple[str, ...], abbreviations: bool) -> SetOptions:
    if sources.transcripts and (channel is not None or groups or abbreviations):
        raise click.UsageError("--channel, --group and --abbreviations are for recall sets: a transcript says all this itself")
    chosen = SetOptions("web" if channel is None else channel, frozenset(groups), abbreviations)
    checks = Checks()
    checks.label("--channel", chosen.channel, required=True)
    try:
        checks.done()
    except InvalidField as error:
        raise click.UsageError(str(error)) from error
    return chosen


def _check_groups(sources: Sources, groups: frozenset[str]) -> None:
    """Ends the command if a group that is asked for is not there."""
    if groups:
        there = {recall_sets.group_of(line) for source in sources.sets for line in recall_sets.lines(source)}
        if missing := sorted(groups - there):
            raise click.ClickException(f"there is no group {', '.join(missing)} in {', '.join(map(str, sources.sets))}")
