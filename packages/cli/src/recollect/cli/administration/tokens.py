"""`recollect admin tokens`: create, list, rotate and revoke tokens, and show their use."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.text import Text

from recollect import Token
from recollect._shared.plain import plain
from recollect.cli.commands import Commands
from recollect.cli.options import Shell, with_shell
from recollect.cli.printing import (
    console,
    json_line,
    local,
    one_line,
    table_of,
    warn,
)

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_COLUMNS = ("id", "kind", "spaces", "state", "until", "note")
_PAGE = 500


class _Lifetime(click.ParamType):  # type: ignore[type-arg]  # before 8.4 it takes no parameter
    """A length of time as `90d`."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Return the length of time."""
        if isinstance(value, timedelta):
            return value
        number, unit = str(value)[:-1], str(value)[-1:]
        if not number.isascii() or not number.isdigit() or unit not in _UNITS or len(number) > 9:
            self.fail(f"{value!r} is not a duration as 30m, 12h or 90d", param, ctx)
        return timedelta(seconds=int(number) * _UNITS[unit])


class _Limit(click.ParamType):  # type: ignore[type-arg]
    """A limit as `calls=10`."""

    name = "limit"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Return its name and its number."""
        if isinstance(value, tuple):
            return value
        name, _, number = str(value).partition("=")
        try:
            return name, float(number)
        except ValueError:
            self.fail(f"{value!r} is not NAME=NUMBER", param, ctx)


@click.group(cls=Commands)
def tokens() -> None:
    """Create, list, rotate and revoke tokens, and show their use."""


@tokens.command("list")
@click.option("--all", "with_ended", is_flag=True, help="Expired and revoked ones too.")
@with_shell
def list_tokens(shell: Shell, with_ended: bool) -> None:
    """List the tokens, the newest first, without their secrets."""
    rows = list(shell.client.admin.list_tokens(include_ended=with_ended, page_size=_PAGE))
    shell.print_table(rows, table_of(*_COLUMNS), _cells_of, "There is no token.")


def _cells_of(it: Token) -> Iterable[Text]:
    spaces, until = ", ".join(it.spaces), local(it.expire_time)
    return map(one_line, (it.id, it.kind, spaces, it.state.value, until, it.note))


@tokens.command("create")
@click.option(
    "--kind",
    required=True,
    metavar="KIND",
    help="brain, project, gateway, panel, reader, admin, or custom with --scopes.",
)
@click.option(
    "--for-space",
    "for_spaces",
    multiple=True,
    metavar="NAME",
    help="A space that it is for; several times for several; * for all. [that of the call]",
)
@click.option("--scopes", default="", metavar="SCOPE,…", help="Permissions of a custom token.")
@click.option("--conversation", metavar="ID", help="The only conversation that it may name.")
@click.option("--channel", metavar="NAME", help="The channel that its holder speaks from.")
@click.option(
    "--expires", type=_Lifetime(), metavar="DURATION", help="Its lifetime, as 90d. [for ever]"
)
@click.option(
    "--limit",
    "limits",
    type=_Limit(),
    multiple=True,
    metavar="NAME=NUMBER",
    help="A limit of its own, in place of the settings'.",
)
@click.option("--note", metavar="TEXT", help="A note for the list.")
@with_shell
def create_token(
    shell: Shell,
    kind: str,
    for_spaces: tuple[str, ...],
    scopes: str,
    conversation: str | None,
    channel: str | None,
    expires: timedelta | None,
    limits: tuple[tuple[str, float], ...],
    note: str | None,
) -> None:
    """Create a token and print it, this once: the server keeps only its hash."""
    made = shell.client.admin.create_token(
        kind,
        scopes=[name.strip() for name in scopes.split(",") if name.strip()],
        spaces=for_spaces,
        conversation_id=conversation,
        channel=channel,
        expire_time=_end(expires),
        limits=dict(limits),
        note=note,
    )
    _print_new(shell, made.token, made.secret)


@tokens.command("rotate")
@click.argument("token_id", metavar="ID")
@click.option(
    "--expires", type=_Lifetime(), metavar="DURATION", help="Lifetime of the new one. [as the old]"
)
@click.option(
    "--overlap", type=_Lifetime(), metavar="DURATION", help="How long the old one lives on. [1d]"
)
@with_shell
def rotate_token(
    shell: Shell, token_id: str, expires: timedelta | None, overlap: timedelta | None
) -> None:
    """Create a token that allows the same as the token ID, and print it, this once."""
    made = shell.client.admin.rotate_token(token_id, expire_time=_end(expires), overlap=overlap)
    _print_new(shell, made.token, made.secret)
    warn(f"The old token {made.replaced.id} ends at {local(made.replaced.expire_time)}.")


@tokens.command("use")
@click.argument("token_id", metavar="ID")
@click.option(
    "--since",
    type=_Lifetime(),
    metavar="DURATION",
    help="Only of the days of the last 12h, 7d, …. [90 days]",
)
@with_shell
def use_of_token(shell: Shell, token_id: str, since: timedelta | None) -> None:
    """Show the use of the token ID: its calls by day, space, method and address, the newest day
    first.
    """
    start = None if since is None else datetime.now(UTC) - min(since, timedelta(days=366))
    rows = list(shell.client.admin.list_token_uses(token_id, start_time=start, page_size=_PAGE))
    table = table_of("last call", "calls", "refused", "from", "space", "method")
    table.columns[-1].no_wrap = True
    shell.print_table(
        rows,
        table,
        lambda it: (
            local(it.last_call_time),
            str(it.calls),
            str(it.refused_calls),
            *map(one_line, (it.peer, it.space, it.method)),
        ),
        "It was not used.",
    )


@tokens.command("revoke")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@with_shell
def revoke_tokens(shell: Shell, ids: tuple[str, ...]) -> None:
    """Revoke tokens by their ids. Their open streams end within a second."""
    for token_id in ids:
        revoked = shell.client.admin.revoke_token(token_id)
        shell.print(revoked, f"{revoked.id} is revoked.")


def _end(lifetime: timedelta | None) -> datetime | None:
    if lifetime is None:
        return None
    try:
        return datetime.now(UTC) + lifetime
    except OverflowError:
        raise click.UsageError("--expires: ends after the year 9999") from None


def _print_new(shell: Shell, token: Token, secret: str) -> None:
    if shell.as_json:
        json_line({"secret": secret} | plain(token))
        return
    console().print(secret)
    until = f"until {local(token.expire_time)}" if token.expire_time else "without an end"
    warn(
        f"Token {token.id} of kind {token.kind} for {', '.join(token.spaces)}, valid {until}."
        " It is printed this once."
    )
