"""`recollect rename`: names a conversation by hand."""

import click

from recollect._shared.plain import plain
from recollect.cli.options import CONVERSATION, Shell, with_shell
from recollect.cli.printing import clean, console, json_line


@click.command()
@click.argument("conversation", type=CONVERSATION)
@click.argument("title", nargs=-1, required=True)
@with_shell
def rename(shell: Shell, conversation: str, title: tuple[str, ...]) -> None:
    """Give CONVERSATION a TITLE, for good: nothing automatic renames it after that."""
    renamed = shell.client.conversations.rename(conversation, " ".join(title))
    if shell.as_json:
        json_line(plain(renamed))
    else:
        console().print(clean(f"{renamed.id} is now called {renamed.title!r}."))
