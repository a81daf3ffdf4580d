"""`recollect import`: brings in transcripts, recall sets and exports of other products, once."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from recollect import RecollectError
from recollect._shared.plain import time_text
from recollect.cli.exits import INCOMPLETE, Ended, code_of, sentence_of
from recollect.cli.options import PIPES, Shell, with_patient_shell
from recollect.cli.printing import clean, console, followed, json_line, local, warn
from recollect.imports import finding, recall_sets, running, table
from recollect.imports.forms import Options
from recollect.imports.plans import TRANSCRIPTS, Event, Skip, Tally
from recollect.imports.reading import Source
from recollect.imports.table import Input
from recollect.imports.values import counted

_LABEL = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)


if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:  # before 8.2 click's choices take no parameter
    _Choice = click.Choice


class _Format(_Choice):
    """Name of a format. Those of other distributions are looked for only where one is given."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. Refuse one of no format."""
        self.choices = tuple(dict.fromkeys(it.name for it in table.exports()))
        if value not in self.choices:
            _warn_of_formats()
        return super().convert(value, param, ctx)


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(), metavar="PATH...")
@click.option(
    "--format",
    "named",
    type=_Format(table.NAMES),
    help="The product whose export PATH is.  [default: told by its shape]",
)
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
@click.option(
    "--owner",
    default="",
    metavar="NAME",
    help="Your name in a chat of people (WhatsApp, Telegram, Discord, Slack, Signal), or your"
    " name or address in a mailbox.",
)
@click.option("--dry-run", is_flag=True, help="Print what would come, and ask no server.")
@with_patient_shell
def import_(
    shell: Shell,
    paths: tuple[str, ...],
    named: str | None,
    channel: str | None,
    groups: tuple[str, ...],
    abbreviations: bool,
    owner: str,
    dry_run: bool,
) -> None:
    """Bring in the conversations of each PATH.

    PATH is a file that `export` wrote, a transcript, a folder of transcripts (conv-….jsonl) or a
    recall set (a folder with conversations.jsonl, a folder of such folders, or the file); `-` is
    standard input. A second run adds nothing, and a run that broke off is finished by the next.

    PATH may also be what another product exports or keeps: ChatGPT, Claude, Gemini (Google
    Takeout's My Activity, or files of AI Studio), Claude Code (~/.claude/projects), Codex
    (~/.codex/sessions), Gemini CLI (~/.gemini/tmp), aider (.aider.chat.history.md), Open WebUI,
    LibreChat, llm (logs.db), WhatsApp, Telegram, Discord, Slack, Signal and mailboxes (mbox): the
    zip archive, its folder, or a file of it; other packages may add formats. The channel is the
    product's name. A newer export, or the folder again, adds what is new to conversations that were
    imported before. Of answers and questions in several versions the one shown last comes. Chats of
    people come only with --owner.

    A conversation keeps its id where that is free, its title and its topics; its turns are numbered
    anew. One that the server has by its id already is left as it is. Anchors, suggested splits,
    origins of forks and pins whose place is taken are not brought in. Everything that is left out,
    cut or guessed is named on standard error, and the exit code is 6. `recollect-server backup` and
    `restore` leave nothing out.
    """
    inputs = [it for path in paths for it in _find(path, named or "")]
    tally = Tally()
    try:
        options = replace(_options(inputs, channel, groups, abbreviations), owner=owner)
        if dry_run:
            _print_all(shell, inputs, options, tally)
        else:
            shell.client.conversations.list_page(page_size=1)  # fails here where there is no server
            _import_all(shell, inputs, options, tally)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Ended(f"cannot read {error.filename}: {error.strerror}") from error
    _report(shell, tally, is_dry=dry_run)


def _find(path: str, named: str) -> list[Input]:
    """Return the inputs at a path. Ends the command where there is nothing to import."""
    if path == "-" or path.startswith(PIPES):
        if named:
            raise click.UsageError("--format is for files and folders, not for standard input.")
        stream = cast(BinaryIO, click.File("rb").convert(path, None, None))
        return [Input(Source(stream), table.TRANSCRIPT)]
    place = Path(path)
    try:
        if not path:
            raise click.UsageError("A path must not be empty: write . for the current folder.")
        inputs = [] if named or not place.is_dir() else _in_own_folder(place)
        if not inputs:
            _warn_of_formats()
            inputs = finding.find(place, named)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"{path!r} cannot be read: {reason}") from error
    if inputs:
        return inputs
    titles = ", ".join(dict.fromkeys(it.title for it in table.exports()))
    raise Ended(
        f"{place} holds nothing to import: neither {recall_sets.FILE} (here or one folder down) nor"
        f" {TRANSCRIPTS} nor an export of {titles}"
    )


def _warn_of_formats() -> None:
    """Name the formats of other distributions that cannot be used."""
    for reason in table.added()[1]:
        warn(f"a format is left out: {reason}")


def _in_own_folder(place: Path) -> list[Input]:
    """Return the recall sets or the transcripts of a folder."""
    if (place / recall_sets.FILE).is_file():
        return [Input(Source(place / recall_sets.FILE), table.RECALL_SET)]
    if matches := sorted(place.glob(TRANSCRIPTS)):
        return [Input(Source(it), table.TRANSCRIPT) for it in matches]
    matches = sorted(place.glob(f"*/{recall_sets.FILE}"))
    return [Input(Source(it), table.RECALL_SET) for it in matches]


def _options(
    inputs: list[Input], channel: str | None, groups: tuple[str, ...], abbreviations: bool
) -> Options:
    sets = [it.source.path for it in inputs if it.format is table.RECALL_SET]
    if len(sets) < len(inputs) and (channel is not None or groups or abbreviations):
        raise click.UsageError(
            "--channel, --group and --abbreviations are for recall sets: a transcript says all"
            " this itself, and an export's channel is its product."
        )
    if channel is not None and not _LABEL.fullmatch(channel):
        expected = "1 to 32 lower case letters, digits, _ and -, beginning with a letter or digit"
        raise click.UsageError(f"--channel: is not a channel: {expected}")
    if groups:
        there: set[str] = set()
        for path in sets:
            there |= recall_sets.groups(cast(Path, path))
        if missing := sorted(set(groups) - there):
            raise Ended(f"there is no group {', '.join(missing)} in {', '.join(map(str, sets))}")
    return Options(channel or "web", frozenset(groups), abbreviations)


def _import_all(shell: Shell, inputs: list[Input], options: Options, tally: Tally) -> None:
    """Import every conversation."""
    position = 0  # bytes that are read

    def advance(size: int) -> None:
        nonlocal position
        position += size

    options = replace(options, advance=advance)
    imported = running.run(shell.client, inputs, options, partial(_leave_out, tally))
    total = sum(it.source.size for it in inputs) or None
    try:
        for one in followed(imported, total=total, title="Importing", position=lambda: position):
            tally.add(one)
    except RecollectError as error:
        sentence = (
            f"{sentence_of(error, shell.address)}; what was imported stays, and the same command"
        )
        raise Ended(f"{sentence} again goes on from there", code_of(error)) from error


def _print_all(shell: Shell, inputs: list[Input], options: Options, tally: Tally) -> None:
    """Print the conversations that an import would bring."""
    out = console()
    for plan in running.plans(inputs, options, partial(_leave_out, tally)):
        begins = plan.beginning
        titles = (
            step.fields["title"]
            for step in plan.steps
            if isinstance(step, Event) and isinstance(step.fields.get("title"), str)
        )
        title = next(titles, "")
        if shell.as_json:
            line = {"channel": begins.channel, "title": title, "messages": plan.message_count}
            if begins.create_time:
                line["createTime"] = time_text(begins.create_time)
            json_line(line | {"where": plan.where})
        else:
            shown = f"{counted(plan.message_count, 'message')}  {title or '(no title)'}"
            out.print(clean(f"{local(begins.create_time):16}  {begins.channel}  {shown}"))
        tally.conversations_new += 1
        tally.messages_new += plan.message_count
        tally.branches += plan.branches
        tally.hidden += plan.hidden
        for skip in plan.skips:
            _leave_out(tally, skip)


def _leave_out(tally: Tally, skip: Skip) -> None:
    tally.count(skip)
    warn(f"{'left out' if skip.is_lost else 'note on'} {skip.where}: {skip.reason}")


def _report(shell: Shell, tally: Tally, *, is_dry: bool) -> None:
    """Print the counts. Ends the command with a code of its own where something was left out, cut
    or guessed.
    """
    counts = tally.counts() | ({"dryRun": True} if is_dry else {})
    shell.print(counts, _sentences(tally, is_dry=is_dry))
    if tally.lost or tally.guessed:
        guesses = f"; notes on the rest: {tally.guessed}" if tally.guessed else ""
        count = f"{tally.lost}{guesses}"
        raise Ended(f"lines or conversations that were left out: {count}", INCOMPLETE)


def _sentences(tally: Tally, *, is_dry: bool) -> str:
    if is_dry:
        sentences = (
            f"Would import {counted(tally.conversations_new, 'conversation')} with"
            f" {counted(tally.messages_new, 'message')}, but for those that are there already."
        )
    else:
        sentences = (
            f"Conversations: {tally.conversations_new} new, {tally.conversations_known} already"
            f" there. Messages: {tally.messages_new} new, {tally.messages_known} already there."
        )
    if tally.ids_given:
        sentences += f" {tally.ids_given} of the new ones have an id given by the server."
    kept_out = [
        f"{count} {what}"
        for count, what in (
            (tally.branches, "messages of other versions of a question or an answer"),
            (tally.hidden, "hidden ones"),
        )
        if count
    ]
    return f"{sentences} Kept out: {' and '.join(kept_out)}." if kept_out else sentences
