"""`recollect-server verify`, which compares everything kept with everything indexed, and `rebuild`,
which makes the index anew from the transcripts.
"""

import time
from pathlib import Path
from typing import Any

import click
from recollect.cli.administration.upkeep import TORN_ADVICE
from recollect.cli.administration.upkeep import verify as verify_live

from recollect_server.kernel.compare import recovery
from recollect_server.kernel.compare.verification import verify as verify_all
from recollect_server.kernel.domain.errors import RecollectError
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.domain.wording import counted
from recollect_server.run.commands.folder import (
    alone,
    folders_of,
    leave_to_server,
    list_problems,
    named,
    said_plainly,
    shown,
)
from recollect_server.run.commands.options import OF_FOLDER, load_settings, with_settings
from recollect_server.run.features import FEATURES


@click.command()
@with_settings(*OF_FOLDER)
def verify(config: Path | None, **flags: Any) -> None:
    """Compare the transcripts and the index, of all spaces or of `--space`. Prints what is wrong;
    exits with 1 if anything is.

    A server that runs on the data folder does it, as `recollect admin verify` says, and over
    PostgreSQL one has to run. It needs the token in RECOLLECT_TOKEN if it asks for one.

    Every line's checksum, whole batches, turn numbers; that each message and its words, each
    conversation and each request stand in the index as the transcript says; of third parties too.
    Changes nothing: `rebuild` makes the index anew, the next start cuts a torn tail, and a damaged
    line comes back from a backup.
    """
    settings = load_settings(config, flags)
    space = flags.get("space")
    leave_to_server(settings, verify_live, *(("--all",) if space is None else ("--space", space)))
    folders = folders_of(settings, flags)
    conversations = messages = communications = threads = 0
    problems: list[str] = []
    cut: list[str] = []
    with alone(settings), said_plainly():
        for space, folder in folders.items():
            done = verify_all(folder, FEATURES, shown("Verifying"))
            conversations += done.conversations
            messages += done.messages
            communications += done.communications
            threads += done.threads
            problems += [named(space, folders, problem) for problem in done.lines()]
            cut += [named(space, folders, it) for it in done.cut]
    spaces = f" in {len(folders)} spaces" if len(folders) > 1 else ""
    external = f", {counted(communications, 'external communication')}" if communications else ""
    external += f", {counted(threads, 'thread')}" if threads else ""
    click.echo(
        f"{counted(conversations, 'conversation')}, {counted(messages, 'message')}{external}{spaces},"
        f" {counted(len(problems), 'problem')}"
    )
    for it in cut:
        click.echo(f"{it}. {TORN_ADVICE}")
    list_problems(
        problems,
        "Restore damaged lines from a backup; for all else run `recollect-server rebuild`.",
    )


@click.command()
@with_settings(*OF_FOLDER)
def rebuild(config: Path | None, **flags: Any) -> None:
    """Make the indexes of a stopped server anew from its transcripts, of all spaces or of
    `--space`. Torn tails are cut as at a start.
    """
    settings = load_settings(config, flags)
    folders = folders_of(settings, flags)
    with alone(settings), said_plainly():
        for space, folder in folders.items():
            began = time.monotonic()
            try:
                done = recovery.rebuild(folder, FEATURES, system_clock, shown("Rebuilding"))
            except RecollectError as error:
                raise click.ClickException(named(space, folders, str(error))) from error
            done.index.close(sound=True)
            seconds = time.monotonic() - began
            line = (
                f"{counted(done.messages, 'message')} of {counted(done.conversations, 'conversation')}"
                f" indexed in {seconds:.1f} s,"
                f" {done.messages / seconds:,.0f} messages/s. {counted(done.damaged, 'damaged line')},"
                f" {done.bytes_cut} torn bytes cut."
            )
            click.echo(named(space, folders, line))
