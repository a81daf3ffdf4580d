"""The commands of `recollect`, put together, and how each of them ends."""

import os
import sys
from itertools import chain
from typing import Any

import click

from recollect import __version__
from recollect.cli import exits
from recollect.cli.administration import admin
from recollect.cli.browsing import list_, open_, recent, show
from recollect.cli.changing import (
    archive,
    fork,
    metadata,
    model,
    notes,
    redo_notes,
    rename,
    switch,
    topics,
    turn_memory,
)
from recollect.cli.chatting import chat
from recollect.cli.commands import Commands
from recollect.cli.deleting import delete, delete_many, redact
from recollect.cli.exporting import export
from recollect.cli.facts import anchors, profile
from recollect.cli.finding import search
from recollect.cli.importing import import_
from recollect.cli.owners import owners
from recollect.cli.parties import communications, escalations
from recollect.cli.printing import harmless
from recollect.cli.profiles import PROFILE, use_profile
from recollect.cli.statistics import stats
from recollect.cli.tailing import tail
from recollect.cli.threads import threads

_LONGEST = 1000
"""Characters of an error's sentence."""
_CODES = "\n".join(f"  {code:>3}  {meaning}" for code, meaning in exits.MEANINGS.items())


_SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Find conversations": (search, list_, recent),
    "Read them": (show, tail, open_),
    "Write and change": (
        *(chat, fork, switch, rename, topics, notes, turn_memory, redo_notes),
        *(anchors, profile, metadata, model),
    ),
    "Keep, move and remove": (archive, export, import_, redact, delete, delete_many, threads),
    "Answer third parties": (communications, escalations, owners),
    "Administer": (stats, admin),
}
"""The commands by what a person wants, as the help lists them."""


class _Commands(Commands):
    """Group that turns an error of a command into one sentence and an exit code."""

    def sections(self, ctx: click.Context) -> dict[str, list[str]]:  # noqa: ARG002
        return {heading: [it.name or "" for it in listed] for heading, listed in _SECTIONS.items()}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        typed = [it for it in args if it in self.commands]  # parsing takes them out
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option = error.option_name
            for name in [*typed, *self.commands]:
                if any(option in it.opts for it in self.commands[name].params):
                    raise click.UsageError(
                        f"{option} stands behind the command, as in: recollect {name} {option} …",
                        ctx,
                    ) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()  # nobody reads on: this is no error
            raise click.exceptions.Exit(exits.CLOSED_PIPE) from None
        except OSError as error:
            raise _unwritten(error) from error
        return result


def _unwritten(error: OSError) -> exits.Ended:
    """Return the end of a command whose output cannot be written."""
    _discard_output()
    what = error.filename or "standard output"
    return exits.Ended(f"cannot write {what}: {error.strerror or error}")


def _discard_output() -> None:
    """Let buffered output go nowhere: Python would fail over it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=f"\b\nExit codes:\n{_CODES}",
)
@click.option(
    "--profile",
    metavar="NAME",
    envvar=PROFILE,
    show_envvar=True,
    expose_value=False,
    callback=use_profile,
    help="Call the server that has this name in your profiles.toml.",
)
@click.version_option(__version__, prog_name="recollect")
def commands() -> None:
    """Read, search, continue and look after the conversations of a Recollect server.

    The token of a server that asks for one is read from RECOLLECT_TOKEN, or its profile has it.

    On a terminal commands print for people; into a pipe or a file, or with --json, they print JSON
    lines.
    """


for command in chain.from_iterable(_SECTIONS.values()):
    commands.add_command(command)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]  # JSON is UTF-8 whatever the locale
    try:
        code = commands.main(arguments, prog_name="recollect", standalone_mode=False)
    except click.ClickException as error:
        _shortened(error, arguments).show()
        return error.code if isinstance(error, exits.Ended) else error.exit_code
    except click.Abort:
        return exits.INTERRUPTED
    except OSError as error:  # of a help text: commands handle their own
        end = _unwritten(error)
        end.show()
        return end.code
    return code if isinstance(code, int) else exits.OK


def _shortened(error: click.ClickException, arguments: list[str]) -> click.ClickException:
    """Return the error with a sentence of bounded length that does nothing to a terminal: click
    repeats what was typed, however long. What is long by itself is the help that a group without a
    command shows.
    """
    message = error.format_message()
    sentence = harmless(message)
    if len(message) > _LONGEST and sum(map(len, arguments)) > _LONGEST:
        sentence = f"{sentence[:_LONGEST]}…"
    elif sentence == message:
        return error
    return (
        click.UsageError(sentence, error.ctx)
        if isinstance(error, click.UsageError)
        else click.ClickException(sentence)
    )
