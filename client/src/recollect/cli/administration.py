"""`recollect admin`: the administration of a server from anywhere. `recollect-server` does the same
on the server's machine.
"""

import dataclasses
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import click
from rich.table import Table

from recollect import (
    ChangedSetting,
    RetentionReceipt,
    RetiredConversation,
    Setting,
    Space,
    SpaceReceipt,
    Token,
    Verification,
)
from recollect._shared.plain import plain
from recollect.cli import exits
from recollect.cli.options import (
    MAX_NUMBER,
    Shell,
    confirm,
    with_patient_shell,
    with_shell,
    with_yes,
)
from recollect.cli.printing import clean, console, json_line, local, one_line, warn

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PAGE = 500
_LOOK_SECONDS = 0.2  # between two looks at a verification


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


@click.group()
def admin() -> None:
    """Administer a server: its settings, spaces, tokens and background jobs.

    It takes a token with the scope `admin`. One for certain spaces administers those alone;
    settings need one for every space.
    """


# Settings -----------------------------------------------------------------------------------------


@admin.group()
def settings() -> None:
    """List and change the settings of the server."""


@settings.command("list")
@click.option("--group", metavar="NAME", help="Only of this group: notes, limits, logs …")
@click.option("--changed", is_flag=True, help="Only those that somebody set.")
@with_shell
def list_settings(shell: Shell, group: str | None, changed: bool) -> None:
    """List the settings with their values and sources."""
    answer = shell.client.admin.list_settings()
    chosen = [
        it
        for it in answer.settings
        if group in (None, it.group) and not (changed and it.source == "default" and not it.pending)
    ]
    if shell.as_json:
        _lines(chosen)
        return
    label = ""
    table = _table("setting", "value", "source", "")
    for it in chosen:
        if it.group_label != label:
            label = it.group_label
            table.add_row(one_line(label, "bold"))
        table.add_row(
            one_line(f"  {it.key}"),
            one_line(it.value or "-"),
            one_line(it.source.value),
            one_line(_remark(it)),
        )
    console().print(table if chosen else "Nothing of that kind is set.", soft_wrap=False)
    if answer.locked:
        warn(answer.locked)


@settings.command("set")
@click.argument("key")
@click.argument("value")
@with_shell
def set_setting(shell: Shell, key: str, value: str) -> None:
    """Set the setting KEY in the server's file, and at once where it can be."""
    _print_changed(shell, shell.client.admin.set_setting(key, value))


@settings.command("reset")
@click.argument("key")
@with_shell
def reset_setting(shell: Shell, key: str) -> None:
    """Take the setting KEY out of the server's file, so that its default counts."""
    _print_changed(shell, shell.client.admin.set_setting(key, reset=True))


def _remark(it: Setting) -> str:
    if it.pending:
        return f"{it.pending_value} from the next start on"
    return "only on the server's machine" if it.locked else ""


def _print_changed(shell: Shell, changed: ChangedSetting) -> None:
    it = changed.setting
    if shell.as_json:
        json_line(plain(it) | {"restartNeeded": changed.restart_needed})
    elif changed.restart_needed:
        console().print(
            clean(f"{it.key} is {it.pending_value} from the next start of the server on.")
        )
    else:
        console().print(clean(f"{it.key} is {it.value or 'empty'}."))


# Spaces -------------------------------------------------------------------------------------------


@admin.group()
def spaces() -> None:
    """Look after the spaces of the server: one owner's data each."""


@spaces.command("list")
@click.option("--query", metavar="TEXT", help="Only those with this in their name.")
@with_shell
def list_spaces(shell: Shell, query: str | None) -> None:
    """List the spaces with what they hold."""
    rows = list(_spaces(shell, query))
    if shell.as_json:
        _lines(rows)
        return
    table = _table("space", "state", "conversations", "messages", "bytes", "", right=(2, 3, 4))
    for it in rows:
        table.add_row(
            one_line(it.name),
            one_line(it.state.value),
            *(str(number) for number in (it.conversations, it.messages, it.bytes)),
            one_line(it.index_problem or ("default" if it.is_default else "")),
        )
    console().print(table if rows else "There is no such space.", soft_wrap=False)


def _spaces(shell: Shell, query: str | None = None) -> Iterable[Space]:
    token = ""
    while True:
        page = shell.client.admin.list_spaces(query=query, page_size=_PAGE, page_token=token)
        yield from page.spaces
        token = page.next_page_token
        if not token:
            return


@spaces.command("create")
@click.argument("name")
@with_shell
def create_space(shell: Shell, name: str) -> None:
    """Make the space NAME, unless there is one."""
    made = shell.client.admin.create_space(name)
    if shell.as_json:
        json_line(plain(made.space) | {"created": made.created})
    else:
        console().print(clean(f"{name} {'is made' if made.created else 'was there already'}."))


@spaces.command("delete")
@click.argument("name")
@with_yes
@with_shell
def delete_space(shell: Shell, name: str, yes: bool) -> None:
    """Delete the space NAME with all its data, for good."""
    if not yes:
        confirm(f"Delete the space {name} with everything in it, for good?")
    receipt = shell.client.admin.delete_space(name)
    if shell.as_json:
        json_line(plain(receipt))
    else:
        console().print(
            clean(
                f"{name} is deleted: {receipt.conversations} conversations,"
                f" {receipt.external_communications} external communications, {receipt.bytes} bytes."
                " Revoke its tokens, or a write makes it anew."
            )
        )


@spaces.command("receipts")
@click.option(
    "--limit",
    type=click.IntRange(0, MAX_NUMBER),
    default=50,
    show_default=True,
    help="The most receipts; 0 means all.",
)
@with_shell
def list_space_receipts(shell: Shell, limit: int) -> None:
    """List the receipts of deleted spaces, the newest first."""
    rows = list(islice(_space_receipts(shell), limit or None))
    if shell.as_json:
        _lines(rows)
        return
    table = _table("space", "deleted", "conversations", "third parties", "bytes", right=(2, 3, 4))
    for it in rows:
        table.add_row(
            one_line(it.name),
            local(it.delete_time),
            *(str(number) for number in (it.conversations, it.external_communications, it.bytes)),
        )
    console().print(table if rows else "No space was deleted.", soft_wrap=False)


def _space_receipts(shell: Shell) -> Iterable[SpaceReceipt]:
    token = ""
    while True:
        page = shell.client.admin.list_space_receipts(page_size=_PAGE, page_token=token)
        yield from page.receipts
        token = page.next_page_token
        if not token:
            return


# Tokens -------------------------------------------------------------------------------------------


@admin.group()
def tokens() -> None:
    """Create, list, rotate and revoke tokens."""


@tokens.command("list")
@click.option("--all", "with_ended", is_flag=True, help="Expired and revoked ones too.")
@with_shell
def list_tokens(shell: Shell, with_ended: bool) -> None:
    """List the tokens, the newest first, without their secrets."""
    token, rows = "", list[Token]()
    while True:
        page = shell.client.admin.list_tokens(
            include_ended=with_ended, page_size=_PAGE, page_token=token
        )
        rows += page.tokens
        token = page.next_page_token
        if not token:
            break
    if shell.as_json:
        _lines(rows)
        return
    table = _table("id", "kind", "spaces", "state", "until", "note")
    for it in rows:
        table.add_row(
            *map(
                one_line,
                (
                    it.id,
                    it.kind,
                    ", ".join(it.spaces),
                    it.state.value,
                    local(it.expire_time),
                    it.note,
                ),
            )
        )
    console().print(table if rows else "There is no token.", soft_wrap=False)


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


@tokens.command("revoke")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@with_shell
def revoke_tokens(shell: Shell, ids: tuple[str, ...]) -> None:
    """Revoke tokens by their ids. Their open streams end within a second."""
    for token_id in ids:
        revoked = shell.client.admin.revoke_token(token_id)
        if shell.as_json:
            json_line(plain(revoked))
        else:
            console().print(f"{revoked.id} is revoked.")


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


# Retention ----------------------------------------------------------------------------------------


@admin.group()
def retention() -> None:
    """Look at the rules that delete and unindex conversations by themselves, and at what they did.

    The setting `retention` holds the rules: recollect admin settings set retention "delete
    channel=web idle=90d"
    """


@retention.command("rules")
@with_shell
def list_rules(shell: Shell) -> None:
    """List the rules about the space."""
    rules = shell.client.admin.list_retention_rules().rules
    if shell.as_json:
        _lines(rules)
        return
    table = _table("rule", "space", "anchors")
    for it in rules:
        table.add_row(
            one_line(it.rule),
            one_line(it.space or "every"),
            "stay" if it.keeps_anchors or it.unindexes else "go",
        )
    console().print(
        table
        if rules
        else "No rule is about this space: nothing is deleted or unindexed by itself.",
        soft_wrap=False,
    )


@retention.command("preview")
@click.option(
    "--rules",
    metavar="TEXT",
    help="Rules to try, semicolons between them. [those in force]",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="The most conversations.",
)
@with_shell
def preview_retention(shell: Shell, rules: str | None, limit: int) -> None:
    """Print what the rules would delete or unindex now, and why. This changes nothing."""
    if rules is not None and not rules.strip(" ;"):
        raise click.UsageError("--rules: names no rule; leave it out for those in force")
    plan = shell.client.admin.preview_retention(retention=rules, limit=limit)
    if shell.as_json:
        _lines(plan.conversations)
    elif plan.conversations:
        for it in plan.conversations:
            _print_retired(it)
    else:
        console().print("Nothing would be deleted or unindexed now.")
    if plan.has_more:
        warn(f"There are more than these {limit}: --limit takes up to 1000.")


@retention.command("receipts")
@click.option(
    "--limit",
    type=click.IntRange(0, MAX_NUMBER),
    default=50,
    show_default=True,
    help="The most receipts; 0 means all.",
)
@with_shell
def list_receipts(shell: Shell, limit: int) -> None:
    """List what rules deleted or unindexed, the newest first."""
    receipts = list(islice(_receipts(shell), limit or None))
    if shell.as_json:
        _lines(receipts)
        return
    if not receipts:
        console().print("No rule deleted or unindexed anything yet.")
    for it in receipts:
        _print_retired(it.conversation, f"at {local(it.time)}, ")


def _receipts(shell: Shell) -> Iterable[RetentionReceipt]:
    token = ""
    while True:
        page = shell.client.admin.list_retention_receipts(page_size=_PAGE, page_token=token)
        yield from page.receipts
        token = page.next_page_token
        if not token:
            return


def _print_retired(it: RetiredConversation, when: str = "") -> None:
    """Print a conversation on a line and the reason beneath: a table would cut the ids."""
    out = console()
    out.print(clean(f"{it.conversation_id}  {it.channel}", "bold"))
    out.print(
        one_line(f"{when}last changed at {local(it.update_time)}, {it.bytes} bytes", "dim"),
        one_line(f"{it.rule}: {it.reason}"),
        sep="\n",
    )


# Health -------------------------------------------------------------------------------------------


@admin.command("jobs")
@with_shell
def list_jobs(shell: Shell) -> None:
    """List the background jobs of the space, with what waits and what failed."""
    jobs = shell.client.admin.list_jobs()
    if shell.as_json:
        _lines(jobs)
        return
    table = _table("job", "state", "due", "failed", "last run", "", right=(2, 3))
    for it in jobs:
        table.add_row(
            it.name,
            it.state.value,
            str(it.due),
            str(it.failed),
            local(it.last_run_time),
            one_line(it.help, "dim"),
        )
    out = console()
    out.print(table, soft_wrap=False)
    for it in jobs:
        for failure in it.failures:
            about = f" of {failure.conversation_id}" if failure.conversation_id else ""
            out.print(clean(f"{it.name}{about}: {failure.reason}."))


@admin.command("backup")
@click.argument("name", required=False)
@with_patient_shell
def make_backup(shell: Shell, name: str | None) -> None:
    """Have the server copy its spaces into the folder NAME of its setting backup_dir."""
    made = shell.client.admin.backup(name=name)
    if shell.as_json:
        json_line(plain(made))
    else:
        console().print(
            clean(
                f"{made.conversations} conversations, {made.bytes} bytes of"
                f" {', '.join(made.spaces)} are in {made.path} on the server's machine,"
                f" {made.problem_count} problems."
            )
        )
    for problem in made.problems:
        warn(problem)
    if made.problem_count:
        raise click.exceptions.Exit(exits.FAILED)


@admin.command("verify")
@click.option("--all", "every", is_flag=True, help="Every space that the token administers.")
@click.option("--no-wait", is_flag=True, help="Begin, and print what the last one found.")
@with_shell
def verify(shell: Shell, every: bool, no_wait: bool) -> None:
    """Compare the logs of the space with its index and vectors while the server runs. It changes
    nothing; exits with 1 if anything is wrong.
    """
    names: list[str | None] = [None]
    if every:
        names = [it.name for it in _spaces(shell)]
    newest = [shell.client.admin.get_verification(space=name) for name in names] if no_wait else []
    started = [shell.client.admin.verify(space=name) for name in names]
    if no_wait:
        results = [last or it for last, it in zip(newest, started, strict=True)]
    else:
        results = [_verified(shell, it.space) for it in started]
    for it in results:
        _print_verification(shell, it)
    if any(it.problem_count or it.failure for it in results):
        raise click.exceptions.Exit(exits.FAILED)


def _verified(shell: Shell, space: str) -> Verification:
    """Wait for the end of a verification and return it."""
    shows = sys.stderr.isatty() and not shell.as_json
    while True:
        it = shell.client.admin.get_verification(space=space)
        if it is None:
            raise click.ClickException(
                f"the server was started anew while it verified {space}: ask again"
            )
        if it.end_time is not None:
            return it
        if shows:
            click.echo(f"\r{space}: {it.logs} of {it.total_logs} logs", err=True, nl=False)
        time.sleep(_LOOK_SECONDS)


def _print_verification(shell: Shell, it: Verification) -> None:
    if shell.as_json:
        json_line(plain(it))
        return
    out = console()
    if it.end_time is None:
        out.print(clean(f"{it.space}: {it.logs} of {it.total_logs} logs so far."))
    else:
        threads = f", {it.threads} threads" if it.threads else ""
        out.print(
            clean(
                f"{it.space}: {it.conversations} conversations, {it.messages} messages,"
                f" {it.external_communications} external communications{threads},"
                f" {it.problem_count} problems."
            )
        )
    for problem in it.problems:
        out.print(clean(f"{problem.id or it.space}: {problem.problem}"))
    if left := it.problem_count - len(it.problems):
        warn(f"There are {left} problems more, or several in one line.")
    if it.failure:
        warn(f"The verification of {it.space} did not end: {it.failure}.")


@admin.command("stats")
@with_shell
def get_stats(shell: Shell) -> None:
    """Print what the space holds and what is left to do there."""
    stats = shell.client.admin.get_stats()
    if shell.as_json:
        json_line(plain(stats))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in _flat(plain(stats.space)):
        table.add_row(one_line(name), one_line(value))
    if stats.server is not None:
        table.add_row("")
        for name, value in _flat(plain(stats.server)):
            table.add_row(one_line(f"server {name}"), one_line(value))
    console().print(table, soft_wrap=False)


def _flat(record: dict[str, Any], above: str = "") -> Iterable[tuple[str, str]]:
    """Yield the values of nested objects, each with its path."""
    for name, value in record.items():
        words = "".join(f" {c.lower()}" if c.isupper() else c for c in name)
        path = f"{above} {words}".strip()
        if isinstance(value, dict):
            yield from _flat(value, path)
        elif isinstance(value, list):
            for item in value:
                yield path, ", ".join(str(part) for part in item.values())
        elif isinstance(value, float):
            yield path, f"{value:.3g}"
        elif value not in ("", None):
            yield path, str(value)


def _table(*columns: str, right: Sequence[int] = ()) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index in right else "left")
    return table


def _lines(rows: Iterable[Any]) -> None:
    for it in rows:
        assert dataclasses.is_dataclass(it)
        json_line(plain(it))
