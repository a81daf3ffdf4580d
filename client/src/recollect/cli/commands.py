"""Groups of commands, listed by whole sentences."""

from typing import Any

import click

_ANY_LENGTH = 1000
"""Characters of a sentence: click's own lists cut it to what a line has room for."""


class Commands(click.Group):
    """Group whose help says of each command what its first sentence says, however long."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        rows = [(name, self._sentence(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _sentence(self, ctx: click.Context, name: str) -> Any:
        command = self.get_command(ctx, name)
        return command.get_short_help_str(_ANY_LENGTH) if command else ""
