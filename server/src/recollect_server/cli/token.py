"""`recollect-server token`: create, list, revoke and rotate tokens, beside a running server too."""

import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import click
from recollect.cli.commands import Commands

from recollect_server.app import CannotStart
from recollect_server.app.stores import opened_tokens
from recollect_server.cli.folder import format_known
from recollect_server.cli.logs import say, set_up_logs_of_a_command
from recollect_server.cli.options import NamedPath, load_settings
from recollect_server.domain.errors import InvalidField, RecollectError
from recollect_server.domain.principal import ALL_SCOPES, CUSTOM, KINDS, Principal, Scope
from recollect_server.domain.time import milliseconds, system_clock, to_text
from recollect_server.domain.tokens import Grant, Token, is_token_id, parse, scopes_of
from recollect_server.services.audit import Audit
from recollect_server.services.tokens import Tokens
from recollect_server.settings import Settings
from recollect_server.settings.values import FOLDER, duration
from recollect_server.storage.audit import AuditLog
from recollect_server.storage.logs.store import LogUnavailable

_OVERLAP = timedelta(days=1)
_FLAGS = {
    "spaces": "space",
    "conversation_id": "conversation",
    "expire_time": "expires",
    "limits": "limit",
    "token_id": "token",
}
"""Name of the flag, or of the argument, for each field of the contract that has another name."""


class _Duration(click.ParamType[timedelta]):
    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return duration(str(value))
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


class _Limit(click.ParamType[tuple[str, float]]):
    name = "limit"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        key, _, number = str(value).partition("=")
        try:
            parsed = float(number)
            return key, int(parsed) if parsed.is_integer() else parsed
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not NAME=NUMBER", param, ctx)


def _with_tokens(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--config`, `--data-dir` and `--store`, and call it with the tokens and the
    settings.
    """

    @wraps(command)
    def run(
        config: Path | None, data_dir: Path | None, store: str | None, **arguments: Any
    ) -> None:
        settings = load_settings(config, {"data_dir": data_dir, "store": store})
        set_up_logs_of_a_command(settings)
        format_known(settings)
        try:
            with opened_tokens(settings) as ledger:
                command(Tokens(ledger, system_clock), settings=settings, **arguments)
        except InvalidField as error:
            raise click.ClickException(
                "\n".join(
                    f"{_FLAGS.get(it.field, it.field)}: {it.description}" for it in error.violations
                )
            ) from error
        except CannotStart as error:
            raise click.ClickException(str(error)) from error
        except LogUnavailable as error:
            if settings.store == FOLDER:
                raise  # the group of all commands names the file
            raise click.ClickException(str(error)) from error
        except RecollectError as error:
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
    `--store` names, while servers run or not.

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
    help=f"of a {CUSTOM} token: {', '.join(sorted(ALL_SCOPES - {Scope.ANY}))}",
)
@click.option(
    "--expires", type=_Duration(), metavar="DURATION", help="its lifetime, as 90d [for ever]"
)
@click.option("--note", default="", metavar="TEXT", help="a note for the list")
@click.option(
    "--limit",
    "limits",
    type=_Limit(),
    multiple=True,
    metavar="NAME=NUMBER",
    help="a limit of its own, in place of the settings'",
)
@_JSON
@_with_tokens
def create(
    tokens: Tokens,
    *,
    settings: Settings,
    kind: str,
    spaces: tuple[str, ...],
    conversation: str,
    channel: str,
    scopes: str,
    expires: timedelta | None,
    note: str,
    limits: tuple[tuple[str, float], ...],
    as_json: bool,
) -> None:
    """Create a token and print it, this once: the server keeps only its hash."""
    names = tuple(name.strip() for name in scopes.split(",") if name.strip())
    grant = Grant(
        kind,
        scopes_of(kind, names),
        tuple(dict.fromkeys(spaces or (settings.space,))),
        _moment(expires),
        note,
        conversation,
        channel,
        dict(limits),
    )
    created, text = tokens.create(grant)
    _record(settings, "token create", created)
    _show_new(created, text, as_json=as_json)


@token.command("list")
@click.option("--all", "with_ended", is_flag=True, help="list expired and revoked ones too")
@_JSON
@_with_tokens
def list_(tokens: Tokens, *, settings: Settings, with_ended: bool, as_json: bool) -> None:
    """List tokens, without their secrets."""
    now = system_clock()
    listed = [_fields(it, now) for it in tokens.all() if with_ended or not it.end(now)]
    if as_json:
        click.echo(json.dumps(listed, indent=2))
        return
    if not listed:  # as of a folder whose name was mistyped
        place = settings.data_dir if settings.store == "folder" else "the database"
        ended = "" if with_ended else " that can be used; --all lists those that have ended"
        click.echo(f"there are no tokens in {place}{ended}", err=True)
    for fields in listed:
        click.echo(" ".join(f"{name}={_quoted(value)}" for name, value in fields.items() if value))


@token.command()
@click.argument("ids", metavar="ID…", nargs=-1, required=True)
@_with_tokens
def revoke(tokens: Tokens, *, settings: Settings, ids: tuple[str, ...]) -> None:
    """Revoke tokens by their ids. A running server ends their open streams within a second.

    A whole token is accepted in place of its id.
    """
    chosen = [tokens.get(_id_of(it)) for it in ids]
    for each in chosen:
        _record(settings, "token revoke", tokens.revoke(each.id))
        click.echo(f"revoked {each.id}")


@token.command()
@click.argument("token_id", metavar="ID")
@click.option(
    "--expires", type=_Duration(), metavar="DURATION", help="lifetime of the new one [as the old]"
)
@click.option(
    "--overlap",
    type=_Duration(),
    default=_OVERLAP,
    show_default="1d",
    metavar="DURATION",
    help="how long the old one stays valid",
)
@_JSON
@_with_tokens
def rotate(
    tokens: Tokens,
    *,
    settings: Settings,
    token_id: str,
    expires: timedelta | None,
    overlap: timedelta,
    as_json: bool,
) -> None:
    """Create a token that allows the same as another one, and print it, this once.

    Both are valid until the old one ends.
    """
    made = tokens.rotate(_id_of(token_id), _moment(expires), milliseconds(overlap))
    _record(settings, "token rotate", made[0])
    _show_new(*made, as_json=as_json)
    old = tokens.get(made[0].replaces)
    say(f"The old token {old.id} ends at {to_text(old.grant.expires)}.", sys.stderr)


def _record(settings: Settings, command: str, changed: Token) -> None:
    log = AuditLog(settings.data_dir, settings.audit_bytes, settings.audit_files)
    audit = Audit(log, system_clock)
    audit.record(Principal(space="", peer=f"uid:{os.getuid()}"), command, changed.id)
    audit.close()


def _show_new(created: Token, text: str, *, as_json: bool) -> None:
    fields = _fields(created, created.created)
    if as_json:
        click.echo(json.dumps({"token": text, **fields}, indent=2))
        return
    click.echo(text)
    grant = created.grant
    until = f"until {to_text(grant.expires)}" if grant.expires else "without an end"
    say(
        f"Token {created.id} of kind {grant.kind} for {', '.join(grant.spaces)}, valid {until}."
        " It is printed this once.",
        sys.stderr,
    )


def _fields(token: Token, now: int) -> dict[str, Any]:
    grant = token.grant
    return {
        "id": token.id,
        "kind": grant.kind,
        "scopes": sorted(grant.scopes - {Scope.ANY}) if grant.kind == CUSTOM else [],
        "spaces": list(grant.spaces),
        "conversation": grant.conversation_id,
        "channel": grant.channel,
        "state": token.end(now) or "valid",
        "created": to_text(token.created),
        "expires": to_text(grant.expires) if grant.expires else "",
        "replaces": token.replaces,
        "limits": dict(grant.limits),
        "note": grant.note,
    }


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


def _moment(lifetime: timedelta | None) -> int:
    """Return the moment at which a lifetime that begins now ends; 0 for none."""
    if lifetime is None:
        return 0
    end = system_clock() + milliseconds(lifetime)
    try:
        to_text(end)
    except ValueError:
        raise InvalidField.of("expire_time", "is after the year 9999") from None
    return end


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
