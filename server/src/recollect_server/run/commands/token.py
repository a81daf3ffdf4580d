"""`recollect-server token`: AdminService's calls about tokens, made on the machine, where no server
needs to run.
"""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click
from google.protobuf.timestamp_pb2 import Timestamp
from recollect.cli.commands import Commands
from recollect.v1 import admin_service_pb2 as api
from recollect.v1.admin_pb2 import Token, TokenState

from recollect_server.access.principal import CUSTOM, KINDS, Scope
from recollect_server.access.token import is_token_id, parse, scopes_of
from recollect_server.contract.admin_token_service import SCOPES, scope_numbers
from recollect_server.contract.convert import timestamp
from recollect_server.kernel.domain.errors import InvalidField, RecollectError, TokenNotFound
from recollect_server.kernel.domain.time import milliseconds, system_clock, to_text
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.log.store import LogUnavailable
from recollect_server.run.administration import TokenCommands, token_commands
from recollect_server.run.commands.folder import folder_there, format_known
from recollect_server.run.commands.logs import say, set_up_logs_of_a_command
from recollect_server.run.commands.options import NamedPath, load_settings
from recollect_server.run.folder import CannotStart
from recollect_server.run.settings.values import FOLDER, duration

_FLAGS = {
    "spaces": "space",
    "conversation_id": "conversation",
    "expire_time": "expires",
    "limits": "limit",
    "token_id": "token",
    "start_time": "since",
}
"""Name of the flag, or of the argument, for each field of the contract that has another name."""


def _duration(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    """Return the length of time that an option names; None where it is not given."""
    try:
        return None if value is None else duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}", ctx, param) from error


def _limits(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, float]:
    """Return the limits that options name."""
    limits: dict[str, float] = {}
    for value in values:
        key, _, number = value.partition("=")
        try:
            limits[key] = float(number)
        except ValueError as error:
            raise click.BadParameter(f"{value!r} is not NAME=NUMBER", ctx, param) from error
    return limits


def _with_tokens(
    command: Callable[..., None], *, makes_folder: bool = False
) -> Callable[..., None]:
    """Give a command `--config`, `--data-dir` and `--store`, and call it with what calls
    AdminService. Without `makes_folder` it ends where there is no data folder.
    """

    @wraps(command)
    def run(
        config: Path | None, data_dir: Path | None, store: str | None, **arguments: Any
    ) -> None:
        settings = load_settings(config, {"data_dir": data_dir, "store": store})
        set_up_logs_of_a_command(settings)
        format_known(settings)
        if settings.store == FOLDER and not makes_folder:
            folder_there(settings)
        try:
            with token_commands(settings) as tokens:
                command(tokens, **arguments)
        except InvalidField as error:
            raise click.ClickException(
                "\n".join(
                    f"{_FLAGS.get(it.field, it.field)}: {it.description}" for it in error.violations
                )
            ) from error
        except (CannotStart, LogUnavailable, RecollectError) as error:
            if isinstance(error, LogUnavailable) and settings.store == FOLDER:
                raise  # the group of all commands names the file
            raise click.ClickException(str(error)) from error

    path = NamedPath(path_type=Path)
    for flag, metavar, text in (
        ("--data-dir", "VALUE", "folder that holds all data [.recollect]"),
        ("--config", "FILE", "a YAML file with settings"),
    ):
        run = click.option(flag, type=path, metavar=metavar, help=text)(run)
    return click.option(
        "--store", metavar="VALUE", help="URL of the database that has the tokens [folder]"
    )(run)


_JSON = click.option("--json", "as_json", is_flag=True, help="print JSON")


@click.group(cls=Commands)
def token() -> None:
    """Create, list, revoke and rotate the tokens of a data folder, or of the database that
    `--store` names, and show their use, while servers run or not.

    A running server follows within a second.
    """


@token.command()
@click.option(
    "--kind", required=True, metavar="KIND", help=f"{', '.join(KINDS)}, or {CUSTOM} with --scopes"
)
@click.option(
    "--space",
    "spaces",
    multiple=True,
    metavar="NAME",
    help="a space that it is for, several times for several; * for all [the setting space]",
)
@click.option("--conversation", default="", metavar="ID", help="the only conversation it may name")
@click.option(
    "--channel", default="", metavar="NAME", help="the channel that its holder speaks from"
)
@click.option(
    "--scopes",
    default="",
    metavar="SCOPE,…",
    help=f"of a {CUSTOM} token: {', '.join(sorted(SCOPES.values()))}",
)
@click.option(
    "--expires", callback=_duration, metavar="DURATION", help="its lifetime, as 90d [for ever]"
)
@click.option("--note", default="", metavar="TEXT", help="a note for the list")
@click.option(
    "--limit",
    "limits",
    callback=_limits,
    multiple=True,
    metavar="NAME=NUMBER",
    help="a limit of its own, in place of the settings'",
)
@_JSON
@partial(_with_tokens, makes_folder=True)
def create(
    tokens: TokenCommands,
    *,
    kind: str,
    spaces: tuple[str, ...],
    conversation: str,
    channel: str,
    scopes: str,
    expires: timedelta | None,
    note: str,
    limits: dict[str, float],
    as_json: bool,
) -> None:
    """Create a token and print it, this once: the server keeps only its hash."""
    names = tuple(name.strip() for name in scopes.split(",") if name.strip())
    granted = scopes_of(kind, names)
    request = api.CreateTokenRequest(
        kind=kind,
        scopes=scope_numbers(granted - {Scope.ANY}) if names else (),
        spaces=spaces,
        conversation_id=conversation,
        channel=channel,
        expire_time=_end_of(expires),
        limits=limits,
        note=note,
    )
    _show_new(tokens.call("CreateToken", request, "token create"), as_json=as_json)


@token.command("list")
@click.option("--all", "with_ended", is_flag=True, help="list expired and revoked ones too")
@_JSON
@_with_tokens
def list_(tokens: TokenCommands, *, with_ended: bool, as_json: bool) -> None:
    """List tokens, without their secrets."""
    listed = [_fields(it) for it in _all(tokens, with_ended=with_ended)]
    if as_json:
        click.echo(json.dumps(listed, indent=2))
        return
    if not listed:
        place = tokens.settings.data_dir if tokens.settings.store == FOLDER else "the database"
        ended = "" if with_ended else " that can be used; --all lists those that have ended"
        click.echo(f"there are no tokens in {place}{ended}", err=True)
    _show(listed)


@token.command()
@click.argument("ids", metavar="ID…", nargs=-1, required=True)
@_with_tokens
def revoke(tokens: TokenCommands, *, ids: tuple[str, ...]) -> None:
    """Revoke tokens by their ids. A running server ends their open streams within a second.

    A whole token is accepted in place of its id.
    """
    chosen = [_id_of(it) for it in ids]
    present = {it.id for it in _all(tokens, with_ended=True)}
    if missing := [it for it in chosen if it not in present]:
        raise TokenNotFound(missing[0])  # before any of the others is revoked
    for each in chosen:
        tokens.call("RevokeToken", api.RevokeTokenRequest(token_id=each), "token revoke")
        click.echo(f"revoked {each}")


@token.command()
@click.argument("token_id", metavar="ID")
@click.option(
    "--expires", callback=_duration, metavar="DURATION", help="lifetime of the new one [as the old]"
)
@click.option(
    "--overlap",
    callback=_duration,
    default="1d",
    show_default="1d",
    metavar="DURATION",
    help="how long the old one stays valid",
)
@_JSON
@_with_tokens
def rotate(
    tokens: TokenCommands,
    *,
    token_id: str,
    expires: timedelta | None,
    overlap: timedelta,
    as_json: bool,
) -> None:
    """Create a token that allows the same as another one, and print it, this once.

    Both are valid until the old one ends.
    """
    request = api.RotateTokenRequest(token_id=_id_of(token_id), expire_time=_end_of(expires))
    request.overlap.FromTimedelta(overlap)
    made = tokens.call("RotateToken", request, "token rotate")
    _show_new(made, as_json=as_json)
    say(f"The old token {made.replaced.id} ends at {_text(made.replaced.expire_time)}.", sys.stderr)


@token.command()
@click.argument("token_id", metavar="ID")
@click.option(
    "--since", callback=_duration, metavar="DURATION", help="only of the last 12h, 7d, … [90 days]"
)
@_JSON
@_with_tokens
def use(tokens: TokenCommands, *, token_id: str, since: timedelta | None, as_json: bool) -> None:
    """Show the use of a token: its calls by day, space, method and address, oldest day first. A
    running server writes them down every ten seconds.

    A whole token is accepted in place of its id.
    """
    start = None if since is None else timestamp(system_clock() - milliseconds(since))
    request = api.ListTokenUsesRequest(token_id=_id_of(token_id), start_time=start)
    uses = list(_pages(tokens, "ListTokenUses", request, "uses"))[::-1]
    listed = [
        {
            "day": it.day,
            "method": it.method,
            "space": it.space,
            "peer": it.peer,
            "calls": it.calls,
            "refused": it.refused_calls,
            "last": _text(it.last_call_time),
        }
        for it in uses
    ]
    if as_json:
        click.echo(json.dumps(listed, indent=2))
        return
    _show(listed)
    calls, refused = (sum(it[name] for it in listed) for name in ("calls", "refused"))
    last = f", the last at {max(it['last'] for it in listed)}" if listed else ""
    say(f"{counted(calls, 'call')} let in and {refused} refused{last}.", sys.stderr)


def _all(tokens: TokenCommands, *, with_ended: bool) -> list[Token]:
    """Return the tokens, oldest first."""
    request = api.ListTokensRequest(include_ended=with_ended)
    return list(_pages(tokens, "ListTokens", request, "tokens"))[::-1]


def _pages(tokens: TokenCommands, method: str, request: Any, field: str) -> Iterator[Any]:
    """Yield the entries of a field of all pages, in their order."""
    while True:
        answer = tokens.call(method, request)
        yield from getattr(answer, field)
        if not answer.next_page_token:
            return
        request.page_token = answer.next_page_token


def _show(listed: list[dict[str, Any]]) -> None:
    """Print each entry as a line of its fields that are set."""
    for fields in listed:
        click.echo(" ".join(f"{name}={_quoted(value)}" for name, value in fields.items() if value))


def _show_new(made: Any, *, as_json: bool) -> None:
    """Show the answer of CreateToken or RotateToken."""
    it = made.token
    if as_json:
        click.echo(json.dumps({"token": made.secret, **_fields(it)}, indent=2))
        return
    click.echo(made.secret)
    until = f"until {_text(it.expire_time)}" if it.HasField("expire_time") else "without an end"
    say(
        f"Token {it.id} of kind {it.kind} for {', '.join(it.spaces)}, valid {until}."
        " It is printed this once.",
        sys.stderr,
    )


def _fields(it: Token) -> dict[str, Any]:
    return {
        "id": it.id,
        "kind": it.kind,
        "scopes": sorted(SCOPES[number] for number in it.scopes if number in SCOPES)
        if it.kind == CUSTOM
        else [],
        "spaces": list(it.spaces),
        "conversation": it.conversation_id,
        "channel": it.channel,
        "state": TokenState.Name(it.state).removeprefix("TOKEN_STATE_").lower(),
        "created": _text(it.create_time),
        "expires": _text(it.expire_time) if it.HasField("expire_time") else "",
        "replaces": it.replaces,
        "limits": {name: int(n) if n.is_integer() else n for name, n in it.limits.items()},
        "note": it.note,
    }


def _text(time: Timestamp) -> str:
    return to_text(time.ToMilliseconds())


def _quoted(value: Any) -> str:
    match value:
        case list():
            return ",".join(map(str, value))
        case dict():
            return ",".join(f"{name}:{number}" for name, number in value.items())
        case str() if " " in value or '"' in value:
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def _end_of(lifetime: timedelta | None) -> Timestamp | None:
    """Return the moment at which a lifetime that begins now ends; None for none."""
    if lifetime is None:
        return None
    end = system_clock() + milliseconds(lifetime)
    try:
        to_text(end)
    except ValueError:
        raise InvalidField.of("expire_time", "is after the year 9999") from None
    return timestamp(end)


def _id_of(text: str) -> str:
    """Return the id of a token that is named by its id, or by itself."""
    if is_token_id(text):
        return text
    try:
        return parse(text)[0]
    except ValueError:
        raise InvalidField.of(
            "token_id", "is not the id of a token: `token list` has them"
        ) from None
