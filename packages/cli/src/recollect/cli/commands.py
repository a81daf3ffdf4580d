"""Groups of commands, listed by whole sentences."""

from difflib import get_close_matches
from typing import Any

import click

_ANY_LENGTH = 1000
"""Characters of a sentence: click's own lists cut it to what a line has room for."""


class Commands(click.Group):
    """Group whose help says of each command what its first sentence says, however long."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the lists of commands, each beneath its heading, with one column for all names."""
        width = max(map(len, self.list_commands(ctx)))
        for heading, names in self.sections(ctx).items():
            with formatter.section(heading):
                formatter.write_dl([(it.ljust(width), self._sentence(ctx, it)) for it in names])

    def sections(self, ctx: click.Context) -> dict[str, list[str]]:
        """Return the names of commands beneath each heading of the help."""
        return {"Commands": self.list_commands(ctx)}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant. Raises UsageError, with the names that it may have."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            near = get_close_matches(args[0], self.list_commands(ctx), 3)
            names = ", ".join(near or self.list_commands(ctx))
            advice = f"do you mean {names}?" if near else f"there are {names}"
            raise click.UsageError(f"No such command {args[0]!r}: {advice}", ctx)
        return super().resolve_command(ctx, args)

    def _sentence(self, ctx: click.Context, name: str) -> Any:
        command = self.get_command(ctx, name)
        return command.get_short_help_str(_ANY_LENGTH) if command else ""
