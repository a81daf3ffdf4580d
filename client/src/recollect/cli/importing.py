"""`recollect import`: brings conversations in from transcripts and recall sets, exactly once."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import click

from recollect import RecollectError
from recollect.cli import plans, recall_sets, transcript
from recollect.cli.exits import INCOMPLETE, Ended, code_of, sentence_of
from recollect.cli.options import PIPES, Shell, open_regular, with_patient_shell
from recollect.cli.parallel import each
from recollect.cli.plans import Plan, Skip, Tally
from recollect.cli.printing import clean, console, json_line, warn
from recollect.cli.recall_sets import SetOptions
from recollect.cli.sending import carry_out
from recollect.cli.transcript import Damaged

_LABEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)
_FIRST_LINES = 100  # of a file, read to tell a recall set from a transcript


@dataclass(slots=True)
class _Sources:
    """The files to import."""

    transcripts: list[Path | BinaryIO] = field(default_factory=list)
    sets: list[Path] = field(default_factory=list)


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(), metavar="PATH...")
@click.option(
    "--channel", metavar="NAME", help="The channel of a recall set's conversations.  [default: web]"
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    help="Only this group of a recall set; may be repeated.",
)
@click.option(
    "--abbreviations",
    is_flag=True,
    help="Record a recall set's abbreviations as the conversations' notes.",
)
@with_patient_shell
def import_(
    shell: Shell,
    paths: tuple[str, ...],
    channel: str | None,
    groups: tuple[str, ...],
    abbreviations: bool,
) -> None:
    """Bring in the conversations of each PATH.

    PATH is a file that `export` wrote, a transcript, a folder of transcripts (conv-….jsonl) or a
    recall set (a folder with conversations.jsonl, a folder of such folders, or the file); `-` is
    standard input. A second run adds nothing, and a run that broke off is finished by the next.

    Lines that people or other programs wrote need no checksum, and messages neither time nor turn.
    A conversation keeps its id where that is free, its title and its topics; its turns are numbered
    anew. One that the server has by its id already is left as it is. Anchors, suggested splits and
    pins whose place is taken are not brought in. Every line that is left out is named on standard
    error, and the exit code is 6. `recollect-server backup` and `restore` leave nothing out.
    """
    sources = _Sources()
    for path in paths:
        _find(path, sources)
    tally = Tally()
    try:
        options = _set_options(sources, channel, groups, abbreviations)
        shell.client.conversations.list_page(page_size=1)  # fails here where there is no server
        _import_all(shell, sources, options, tally)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Ended(f"cannot read {error.filename}: {error.strerror}") from error
    _report(shell, tally)


def _find(path: str, sources: _Sources) -> None:
    """Add the files that a path stands for. Ends the command where there is nothing to import."""
    if path == "-" or path.startswith(PIPES):
        sources.transcripts.append(cast(BinaryIO, click.File("rb").convert(path, None, None)))
        return
    place = Path(path)
    try:
        if not path:
            raise click.UsageError("A path must not be empty: write . for the current folder.")
        if not place.is_dir():
            (sources.sets if _is_set(place) else sources.transcripts).append(place)
        elif (place / recall_sets.FILE).is_file():
            sources.sets.append(place / recall_sets.FILE)
        elif matches := sorted(place.glob(plans.TRANSCRIPTS)):
            sources.transcripts += matches
        elif matches := sorted(place.glob(f"*/{recall_sets.FILE}")):
            sources.sets += matches
        else:
            raise Ended(
                f"{path} holds nothing to import: neither {recall_sets.FILE} (here or one"
                f" folder down) nor {plans.TRANSCRIPTS}"
            )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"{path!r} cannot be read: {reason}") from error


def _is_set(path: Path) -> bool:
    """Return whether a file's first line that is JSON is one of a recall set. Raises OSError."""
    with open(path, "rb", opener=open_regular) as file:
        if path.match(plans.TRANSCRIPTS):
            return False
        for _, text in zip(range(_FIRST_LINES), file, strict=False):
            try:
                return "type" not in transcript.decode(text)
            except Damaged:
                continue
    return False


def _set_options(
    sources: _Sources, channel: str | None, groups: tuple[str, ...], abbreviations: bool
) -> SetOptions:
    if sources.transcripts and (channel is not None or groups or abbreviations):
        raise click.UsageError(
            "--channel, --group and --abbreviations are for recall sets: a transcript says all"
            " this itself."
        )
    if channel is not None and not _LABEL.fullmatch(channel):
        expected = "1 to 32 lower case letters, digits, _ and -, beginning with a letter or digit"
        raise click.UsageError(f"--channel: is not a channel: {expected}")
    if groups:
        there: set[str] = set()
        for path in sources.sets:
            there |= recall_sets.groups(path)
        if missing := sorted(set(groups) - there):
            raise Ended(
                f"there is no group {', '.join(missing)} in {', '.join(map(str, sources.sets))}"
            )
    return SetOptions(channel or "web", frozenset(groups), abbreviations)


def _import_all(shell: Shell, sources: _Sources, options: SetOptions, tally: Tally) -> None:
    """Import every conversation. Raises OSError for a recall set that cannot be read."""
    work = partial(carry_out, shell.client)
    readings = _plans(sources, options, tally)
    try:
        for one in each(work, readings, total=_total(sources), title="Importing"):
            tally.add(one)
            for skip in one.skips:
                _leave_out(tally, skip)
    except RecollectError as error:
        sentence = (
            f"{sentence_of(error, shell.address)}; what was imported stays, and the same command"
        )
        raise Ended(f"{sentence} again goes on from there", code_of(error)) from error


def _plans(sources: _Sources, options: SetOptions, tally: Tally) -> Iterator[Plan]:
    """Yield the plans of all sources. What is none is left out. Raises OSError as
    `recall_sets.read`.
    """
    for source in sources.transcripts:
        try:
            for plan in _read(source):
                if isinstance(plan, Plan):
                    yield plan
                else:
                    _leave_out(tally, plan)
        except OSError as error:
            _leave_out(tally, Skip(str(source), f"cannot be read: {error.strerror}"))
    for path in sources.sets:
        for plan in recall_sets.read(path, options):
            if isinstance(plan, Plan):
                yield plan
            else:
                _leave_out(tally, plan)


def _read(source: Path | BinaryIO) -> Iterator[Plan | Skip]:
    if isinstance(source, Path):
        with open(source, "rb", opener=open_regular) as file:
            yield from plans.read(file, str(source))
    else:
        yield from plans.read(source, source.name)


def _total(sources: _Sources) -> int | None:
    """Return the number of conversations, None where only reading everything would tell."""
    if all(isinstance(it, Path) and it.match(plans.TRANSCRIPTS) for it in sources.transcripts):
        return len(sources.transcripts) + sum(map(recall_sets.count, sources.sets))
    return None


def _leave_out(tally: Tally, skip: Skip) -> None:
    tally.skips.append(skip)
    warn(f"left out {skip.where}: {skip.reason}")


def _report(shell: Shell, tally: Tally) -> None:
    """Print the counts. Ends the command with a code of its own where something was left out."""
    if shell.as_json:
        json_line(
            {
                "conversationsNew": tally.conversations_new,
                "conversationsKnown": tally.conversations_known,
                "messagesNew": tally.messages_new,
                "messagesKnown": tally.messages_known,
                "idsGiven": tally.ids_given,
                "leftOut": len(tally.skips),
            }
        )
    else:
        given = (
            f" {tally.ids_given} of the new ones have an id given by the server."
            if tally.ids_given
            else ""
        )
        console().print(
            clean(
                f"Conversations: {tally.conversations_new} new, {tally.conversations_known}"
                " already there."
                f" Messages: {tally.messages_new} new, {tally.messages_known} already there.{given}"
            )
        )
    if tally.skips:
        raise Ended(f"{len(tally.skips)} lines or conversations were left out", INCOMPLETE)
