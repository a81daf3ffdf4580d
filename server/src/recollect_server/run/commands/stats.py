"""`recollect-server stats`: what lies in a data folder."""

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from recollect.cli.administration.upkeep import TORN_ADVICE, get_stats

from recollect_server.admin.server import ServerState, ServerWatch
from recollect_server.admin.statistics import WHOLE, Statistics, statistics_of
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.notes.hosted.spending import DailySpending
from recollect_server.run.commands.folder import folders_of, leave_to_server, said_plainly
from recollect_server.run.commands.options import OF_FOLDER, load_settings, with_settings
from recollect_server.run.settings.values import FOLDER


def _spent(it: DailySpending) -> str:
    money = f", {it.cost:.2f} US dollars" if it.cost else ""
    return f"{it.calls} calls, {it.tokens} tokens{money} on {it.day}" if it.day else "none"


def _limited(it: ServerState) -> str:
    """Return the tokens and spaces that reached a limit today, those with most refusals first."""
    texts = (f"{row.of} {row.name} {row.limit} ({row.count} refused)" for row in it.most_limited)
    return ", ".join([str(it.limited), *texts])


def _embedding(space: Statistics) -> str:
    """Return how much of the text has its vectors, and how long the rest will take at the pace at
    which a server last embedded.
    """
    embedded = space.embedded
    if not space.messages or embedded.condition != WHOLE:
        return "nothing to report"
    if embedded.seconds_left == 0:
        return "complete"
    share = math.floor(100 * embedded.share)
    if embedded.seconds_left is None:
        return f"{share} % of the text"
    left = timedelta(seconds=math.ceil(embedded.seconds_left))
    return f"{share} % of the text, about {left} left at the last pace"


@click.command()
@with_settings(*OF_FOLDER)
def stats(config: Path | None, **flags: Any) -> None:
    """Print what is kept, whether a server runs or not: of all spaces, or of `--space`. Over
    PostgreSQL a server has to run, which is asked about its space as by `recollect admin stats`.

    Messages that a disk refused and the server holds in memory stand in its log alone:
    `messages_held`.
    """
    settings = load_settings(config, flags)
    if settings.store != FOLDER:
        leave_to_server(settings, get_stats, "--space", settings.space)
    folders = folders_of(settings, flags)
    if len(folders) > 1:
        click.echo(f"spaces: {len(folders)}")
    for number, (space, folder) in enumerate(folders.items()):
        if len(folders) > 1:
            click.echo(f"\nspace: {space}")
        if number:
            _print(folder, {}, {})
        else:  # with the spending and the limits of the whole server
            server = ServerWatch(settings.data_dir, lambda: None, system_clock).state()
            _print(
                folder,
                {"model_spending": _spent(server.spent)},
                {"limited_today": _limited(server)},
            )


def _print(folder: FolderStore, spending: dict[str, str], limits: dict[str, str]) -> None:
    with said_plainly():
        space = statistics_of(folder)
    notes, hits, parties, embedded = space.notes, space.hits, space.parties, space.embedded
    for name, value in {
        "conversations": space.conversations,
        "messages": space.messages,
        "transcript_bytes": space.transcript_bytes,
        "index": space.index,
        "index_bytes": space.index_bytes,
        "not_indexed_yet": counted(space.not_indexed_yet, "conversation"),
        "vectors": embedded.condition,
        "vectors_kept": embedded.vectors,
        "vectors_bytes": embedded.size,
        "vectors_of_other_languages": embedded.beside,
        "not_embedded_yet": counted(embedded.waiting, "conversation"),
        "embedding": _embedding(space),
        "notes_due": counted(notes.without, "conversation"),
        "notes_failed": f"{counted(notes.failed, 'conversation')}"
        + (f", as: {notes.reason}" if notes.failed else ""),
        **{
            f"notes_failed_of {conversation_id}": reason
            for conversation_id, reason in notes.failures
        },
        **spending,
        "contexts": f"{hits.get('contexts', 0)}, of them {hits.get('hot_in_memory', 0)} with the newest turns from memory and"
        f" {hits.get('cold_asked', 0)} that asked other conversations",
        "messages_in_contexts": f"{hits.get('hot', 0)} hot, {hits.get('warm', 0)} warm, {hits.get('cold', 0)} cold",
        "torn_tails": f"{len(space.torn)} files, {sum(space.torn.values())} bytes",
        **{
            f"torn_tail {file}": f"{size} bytes. {TORN_ADVICE}" for file, size in space.torn.items()
        },
        "deletes_to_finish": space.deletes_to_finish,
        "threads": space.threads,
        "threads_bytes": space.threads_bytes,
        "external_communications": parties.communications,
        "external_messages": parties.messages,
        "external_bytes": parties.size,
        "external_not_indexed_yet": parties.not_indexed_yet,
        "escalations_open": parties.open_escalations,
        "limited_senders": ", ".join(
            [
                str(space.limited),
                *(f"{it.channel} {it.sender} ({it.refused} refused)" for it in space.worst_limited),
            ]
        ),
        **limits,
    }.items():
        click.echo(f"{name}: {value}")
