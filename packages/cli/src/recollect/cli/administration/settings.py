"""`recollect admin settings`: list and change the settings of the server."""

import sys

import click

from recollect import ChangedSetting, InvalidArgument, Setting
from recollect._shared.plain import plain
from recollect.cli.commands import Commands
from recollect.cli.options import MAX_NUMBER, Shell, WholeNumber, confirm, with_shell
from recollect.cli.printing import (
    clean,
    console,
    json_line,
    json_lines,
    local,
    one_line,
    table_of,
    warn,
)
from recollect.imports.values import counted

_SHOWN = 10
"""Conversations that are named before a rule of retention is set."""


@click.group(cls=Commands)
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
        json_lines(chosen)
        return
    label = ""
    table = table_of("setting", "value", "source", "")
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


@settings.command("set", context_settings={"ignore_unknown_options": True})  # -1 is a value
@click.argument("key")
@click.argument("value")
@click.option("--yes", is_flag=True, help="Of `retention`: the rules are meant.")
@click.option(
    "--number",
    type=WholeNumber(1, MAX_NUMBER),
    help="Of `retention`: what the rules are about now, where that is more than half of all.",
)
@with_shell
def set_setting(shell: Shell, key: str, value: str, yes: bool, number: int | None) -> None:
    """Set the setting KEY in the server's file, and at once where it can be.

    Rules of `retention` that would delete or unindex something now are shown with what they are
    about, and asked for on a terminal; elsewhere they need --yes, or --number where they are about
    more than half. New rules do nothing for a while, and it says until when.
    """
    if key == "retention" and value.strip(" ;"):
        _check_meant(shell, value, yes, number)
    _print_changed(shell, shell.client.admin.set_setting(key, value))


@settings.command("reset")
@click.argument("key")
@with_shell
def reset_setting(shell: Shell, key: str) -> None:
    """Take the setting KEY out of the server's file, so that its default counts."""
    _print_changed(shell, shell.client.admin.set_setting(key, reset=True))


def _check_meant(shell: Shell, rules: str, yes: bool, number: int | None) -> None:
    """Return if rules of retention take nothing now, or somebody means what they take."""
    try:
        plan = shell.client.admin.preview_retention(retention=rules, limit=_SHOWN, every_space=True)
    except InvalidArgument:
        return  # whatever is wrong with them is refused under the name of the setting
    if not plan.total or plan.total == number or (yes and not plan.is_most):
        return
    count = counted(plan.total, "conversation")
    share = ", more than half of all," if plan.is_most else ""
    warn(f"These rules would delete or unindex {count}{share} now:")
    for it in plan.conversations:
        warn(f"  {it.name or it.conversation_id} ({it.space}, {it.channel}): {it.reason}")
    if plan.has_more:
        warn(f"  and {plan.total - len(plan.conversations)} more")
    if not plan.is_most:
        confirm("Set them?")
    elif not sys.stdin.isatty() or click.prompt(
        "Type their number to set the rules", err=True
    ) != str(plan.total):
        raise click.UsageError(
            f"That is more than half: say with --number {plan.total} that it is meant."
        )


def _remark(it: Setting) -> str:
    if it.pending:
        return f"{it.pending_value} from the next start on"
    return "only on the server's machine" if it.locked else ""


def _print_changed(shell: Shell, changed: ChangedSetting) -> None:
    it = changed.setting
    if shell.as_json:
        more = {key: value for key, value in plain(changed).items() if key != "setting"}
        json_line(plain(it) | {"restartNeeded": changed.restart_needed} | more)
    elif changed.restart_needed:
        console().print(
            clean(f"{it.key} is {it.pending_value} from the next start of the server on.")
        )
    else:
        console().print(clean(f"{it.key} is {it.value or 'empty'}."))
        if changed.retention_start_time is not None:
            start = local(changed.retention_start_time)
            console().print(f"The rules that are new do nothing before {start}.")
