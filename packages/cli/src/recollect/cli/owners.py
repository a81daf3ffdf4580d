"""`recollect owners`: who is an owner on which channel."""

import click

from recollect import OwnerIdentity
from recollect.cli.commands import Commands
from recollect.cli.options import Shell, with_shell
from recollect.cli.printing import one_line, table_of


@click.group(cls=Commands)
def owners() -> None:
    """Say whose addresses on which channels are an owner's. Anybody else's messages are a third
    party's.
    """


@owners.command("list")
@click.option("--channel", metavar="NAME", help="Only on this channel.")
@click.option("--person", metavar="NAME", help="Only of this person.")
@with_shell
def list_(shell: Shell, channel: str | None, person: str | None) -> None:
    """List the owner's addresses, by channel."""
    identities = shell.client.channels.list_owner_identities(channel=channel, person=person)
    _print(
        shell, identities, "No owner is named: on web and cli everybody is one, elsewhere nobody."
    )


@owners.command()
@click.argument("channel")
@click.argument("identity")
@click.option(
    "--person",
    metavar="NAME",
    help="The person it belongs to: a search for one address of theirs finds the others.",
)
@with_shell
def add(shell: Shell, channel: str, identity: str, person: str | None) -> None:
    """Say that IDENTITY on CHANNEL is an owner's: a phone number, an e-mail address, a user's
    id.
    """
    it = shell.client.channels.add_owner_identity(channel, identity, person=person)
    _print_one(shell, it, "is an owner's" + (f", {it.person}" if it.person else ""))


@owners.command()
@click.argument("channel")
@click.argument("identity")
@with_shell
def remove(shell: Shell, channel: str, identity: str) -> None:
    """Say that IDENTITY on CHANNEL is an owner's no more. What was stored stays."""
    it = shell.client.channels.remove_owner_identity(channel, identity)
    _print_one(shell, it, "is an owner's no more")


@owners.command()
@click.argument("person")
@click.argument(
    "identities", nargs=-1, required=True, metavar="CHANNEL IDENTITY [CHANNEL IDENTITY]..."
)
@with_shell
def link(shell: Shell, person: str, identities: tuple[str, ...]) -> None:
    """Say that identities are all PERSON's, and list all of that person."""
    if len(identities) % 2:
        raise click.UsageError(
            "Name a channel and an identity there, as often as needed: one is left over."
        )
    members = shell.client.channels.link_identities(
        person, zip(identities[::2], identities[1::2], strict=True)
    )
    _print(shell, members, "Nothing is linked.")


@owners.command()
@click.argument("channel")
@click.argument("identity")
@with_shell
def unlink(shell: Shell, channel: str, identity: str) -> None:
    """Take IDENTITY on CHANNEL out of its person. It stays an owner's."""
    it = shell.client.channels.unlink_identity(channel, identity)
    _print_one(shell, it, "stands alone")


def _print(shell: Shell, identities: tuple[OwnerIdentity, ...], otherwise: str) -> None:
    table = table_of("channel", "identity", "person")
    for column in table.columns[:2]:
        column.no_wrap = True
    shell.print_table(
        identities, table, lambda it: map(one_line, (it.channel, it.identity, it.person)), otherwise
    )


def _print_one(shell: Shell, it: OwnerIdentity, what: str) -> None:
    shell.print(it, f"{it.identity} on {it.channel} {what}.")
