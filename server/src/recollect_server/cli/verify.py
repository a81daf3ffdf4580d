"""`recollect-server verify`: compares everything that is kept with everything that is indexed."""

from pathlib import Path
from typing import Any

import click

from recollect_server.cli.folder import alone, folder_of, list_problems, said_plainly, shown
from recollect_server.cli.options import load_settings, with_settings
from recollect_server.services.upkeep.verification import verify as verify_all


@click.command()
@with_settings
def verify(config: Path | None, **flags: Any) -> None:
    """Compare the transcripts and the index of a stopped server. Prints what is wrong; exits with 1
    if anything is.

    Every line's checksum, whole batches, turn numbers; that each message and its words, each
    conversation and each request stand in the index as the transcript says; of third parties too.
    Changes nothing: `rebuild` mends an index, the next start cuts a torn tail.
    """
    settings = load_settings(config, flags)
    folder = folder_of(settings)
    with alone(settings), said_plainly():
        done = verify_all(folder, shown("Verifying"))
    external = f", {done.communications} external communications" if done.communications else ""
    click.echo(
        f"{done.conversations} conversations, {done.messages} messages{external}, {len(done.problems)} problems"
    )
    list_problems(done.problems)
