"""`recollect-server stats`: what lies in a data folder."""

import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from recollect_server.cli.folder import folders_of, said_plainly
from recollect_server.cli.options import load_settings, with_settings
from recollect_server.domain.time import DAY, system_clock
from recollect_server.settings import Settings
from recollect_server.storage.index.checking import external_state_of, state_of
from recollect_server.storage.index.notes import note_state_of
from recollect_server.storage.index.routing import limited_of
from recollect_server.storage.index.tiers import hits_of
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.store import Kind
from recollect_server.storage.spending import SpendingFile
from recollect_server.storage.usage import UsageFile
from recollect_server.storage.vectors import checking as vectors_checking
from recollect_server.storage.vectors.checking import State

_MAX_LIMITED = 10  # named
_PART_BYTES = 800  # about as many bytes of a long text as one of its vectors stands for


def _spent(settings: Settings, folders: dict[str, FolderStore]) -> str:
    day, calls, tokens, cost = SpendingFile(settings.data_dir).last()
    if not day and settings.space in folders:  # an older server kept it in the index
        notes = note_state_of(folders[settings.space].root)
        day, calls, tokens, cost = notes.day, notes.calls, notes.tokens, notes.cost
    if not day:
        return "none"
    money = f", {cost:.2f} US dollars" if cost else ""
    return f"{calls} calls, {tokens} tokens{money} on {day}"


def _limited(settings: Settings) -> str:
    """Return the tokens and spaces that reached a limit today, those with most refusals first."""
    usage = UsageFile(settings.data_dir).read()
    refused = usage.refused.items() if usage.day == system_clock() // DAY else ()
    named = sorted(refused, key=lambda row: -row[1])[:_MAX_LIMITED]
    return ", ".join(
        [
            str(len(refused)),
            *(f"{of} {name} {limit} ({count} refused)" for (of, name, limit), count in named),
        ]
    )


def _embedding(messages: int, size: int, behind: float, vectors: State) -> str:
    """Return how much of the text has its vectors, and how long the rest will take at the pace at
    which a server last embedded.
    """
    if not messages or vectors.condition != "whole":
        return "nothing to report"
    behind = max(0.0, behind - _PART_BYTES * vectors.parts)
    if not behind:
        return "complete"
    share = math.floor(100 * max(0.0, 1 - behind / max(size, 1)))
    if not vectors.pace:
        return f"{share} % of the text"
    left = timedelta(seconds=math.ceil(behind / vectors.pace))
    return f"{share} % of the text, about {left} left at the last pace"


@click.command()
@with_settings
def stats(config: Path | None, **flags: Any) -> None:
    """Print what is kept, whether a server runs or not: of all spaces, or of `--space`.

    Messages that a disk refused and the server holds in memory stand in its log alone:
    `messages_held`.
    """
    settings = load_settings(config, flags)
    folders = folders_of(settings, flags)
    if len(folders) > 1:
        click.echo(f"spaces: {len(folders)}")
    for number, (space, folder) in enumerate(folders.items()):
        if len(folders) > 1:
            click.echo(f"\nspace: {space}")
        if number:
            _print(folder, {}, {})
        else:  # with the spending and the limits of the whole server
            spent, limited = _spent(settings, folders), _limited(settings)
            _print(folder, {"model_spending": spent}, {"limited_today": limited})


def _print(folder: FolderStore, spending: dict[str, str], limits: dict[str, str]) -> None:
    with said_plainly():
        index = state_of(folder.root)
        vectors = vectors_checking.state_of(folder.root)
        notes = note_state_of(folder.root)
        hits = hits_of(folder.root)
        limited, worst = limited_of(folder.root, 3)
        sizes = dict(folder.logs(Kind.CONVERSATION))
        torn = folder.torn_sizes()
        deleting = len(folder.deleted())
        external = external_state_of(folder.root)
        parties = dict(folder.logs(Kind.COMMUNICATION))
    behind_by = {
        name: sizes.get(name, 0) * max(0.0, 1 - vectors.lines.get(name, 0) / lines)
        for name, lines in index.lines.items()
        if vectors.lines.get(name) != lines
    }
    behind = sum(index.progress.get(name) != size for name, size in sizes.items())
    for name, value in {
        "conversations": len(sizes),
        "messages": index.messages,
        "transcript_bytes": sum(sizes.values()),
        "index": index.condition,
        "index_bytes": index.size,
        "not_indexed_yet": f"{behind} conversations",
        "vectors": vectors.condition,
        "vectors_kept": vectors.vectors,
        "vectors_bytes": vectors.size,
        "vectors_of_other_languages": vectors.beside,
        "not_embedded_yet": f"{len(behind_by)} conversations",
        "embedding": _embedding(
            index.messages, sum(sizes.values()), sum(behind_by.values()), vectors
        ),
        "notes_due": f"{notes.without} conversations",
        "notes_failed": f"{notes.failed} conversations"
        + (f", as: {notes.reason}" if notes.failed else ""),
        **{
            f"notes_failed_of {conversation_id}": reason
            for conversation_id, reason in notes.failures
        },
        **spending,
        "contexts": f"{hits.get('contexts', 0)}, of them {hits.get('hot_in_memory', 0)} with the newest turns from memory and"
        f" {hits.get('cold_asked', 0)} that asked other conversations",
        "messages_in_contexts": f"{hits.get('hot', 0)} hot, {hits.get('warm', 0)} warm, {hits.get('cold', 0)} cold",
        "torn_tails": f"{len(torn)} files, {sum(torn)} bytes",
        "deletes_to_finish": deleting,
        "external_communications": len(parties),
        "external_messages": external.messages,
        "external_bytes": sum(parties.values()),
        "external_not_indexed_yet": sum(
            external.progress.get(name) != size for name, size in parties.items()
        ),
        "escalations_open": external.open_escalations,
        "limited_senders": ", ".join(
            [str(limited), *(f"{it.channel} {it.sender} ({it.refused} refused)" for it in worst)]
        ),
        **limits,
    }.items():
        click.echo(f"{name}: {value}")
