"""`recollect admin settings`: list and change the settings of the server."""

import click

from recollect import ChangedSetting, Setting
from recollect._shared.plain import plain
from recollect.cli.commands import Commands
from recollect.cli.options import Shell, with_shell
from recollect.cli.printing import (
    clean,
    console,
    json_line,
    json_lines,
    one_line,
    table_of,
    warn,
)


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
