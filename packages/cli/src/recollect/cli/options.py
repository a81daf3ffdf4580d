"""Options that several commands take, and the types of their values."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click
from click.shell_completion import CompletionItem
from rich.console import Console, RenderableType
from rich.table import Table

from recollect import ArchiveFilter, Client, InvalidArgument, RecollectError, RetryPolicy
from recollect._shared.channel import ADDRESS, DEFAULT_TARGET, DEFAULT_TIMEOUT, checked_target
from recollect._shared.endpoint import CA, SPACE, SYSTEM, checked_space
from recollect._shared.moments import moment, zone_of
from recollect._shared.plain import plain
from recollect._shared.retry import MAX_TIMEOUT
from recollect.cli import exits
from recollect.cli.printing import clean, console, json_line, json_lines
from recollect.cli.profiles import refuse_beside_profile
from recollect.imports.reading import open_regular

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

if TYPE_CHECKING:
    _Text = click.ParamType[str]
    _Moment = click.ParamType[datetime]
    _File = click.ParamType[BinaryIO]
else:  # before 8.4 click's types take no parameter
    _Text = _Moment = _File = click.ParamType

_RETRY = RetryPolicy(max_attempts=4)
# Of calls that may take minutes: as long is too long to wait for a server that is gone.
_RETRY_OF_LONG = RetryPolicy(max_attempts=8, fails_fast=True)
LONG_TIMEOUT = 120.0
_AGES = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SUGGESTIONS = 200
_SHORT_ID = re.compile(r"[0-9A-Za-z]{4,25}")
"""The end of an id, which is random, where its beginning is a time."""
TEXT = object()
"""Object of the context of a command that prints text into a pipe too."""
PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")  # what a shell's <(...) and `-` are called
_MAX_TEXT = 16 << 20
"""Bytes of a file. The server takes messages of at most 16 MiB."""
MAX_NUMBER = 2**31 - 1
"""The largest number that the contract's fields take."""


class WholeNumber(click.IntRange):
    """A whole number within a range; what is none is refused by the option's name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            raise _no_number("whole number", self.min, self.max, value, param, ctx) from None


class Number(click.FloatRange):
    """A number within a range; what is none is refused by the option's name."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            raise _no_number(
                "number", self.min, self.max, value, param, ctx, is_open=self.min_open
            ) from None


def _no_number(
    noun: str,
    least: float | None,
    most: float | None,
    value: object,
    param: click.Parameter | None,
    ctx: click.Context | None,
    *,
    is_open: bool = False,
) -> click.UsageError:
    if is_open:
        bounds = f"above {least} and up to {most}"
    else:
        bounds = f"of at least {least}" if most in (None, MAX_NUMBER) else f"from {least} to {most}"
    name = ""
    if param is not None:
        name = (
            f"{param.opts[0] if isinstance(param, click.Option) else param.human_readable_name}: "
        )
    return click.UsageError(f"{name}is no {noun} {bounds} (it is {str(value)!r})", ctx)


@dataclass(frozen=True, slots=True)
class Shell:
    """The client and the output form of a command."""

    client: Client
    address: str
    space: str | None
    as_json: bool
    """JSON lines: asked for, or because standard output is no terminal."""

    def print(self, record: object, sentence: str) -> None:
        """Print an object or one of the client's data classes as JSON; for people a sentence."""
        if self.as_json:
            json_line(record if isinstance(record, dict) else plain(record))
        else:
            console().print(clean(sentence))

    def print_each(
        self, rows: Iterable[T], print_one: Callable[[Console, T], object], otherwise: str
    ) -> None:
        """Print each row as JSON, for people by `print_one`; without rows they see `otherwise`."""
        if self.as_json:
            json_lines(rows)
            return
        out, is_empty = console(), True
        for it in rows:
            print_one(out, it)
            is_empty = False
        if is_empty:
            out.print(otherwise)

    def print_table(
        self,
        rows: Sequence[T],
        table: Table,
        cells: Callable[[T], Iterable[RenderableType]],
        otherwise: str,
    ) -> None:
        """Print each row as JSON, for people all in a table; without rows they see `otherwise`."""
        if self.as_json:
            json_lines(rows)
            return
        for it in rows:
            table.add_row(*cells(it))
        console().print(table if rows else otherwise, soft_wrap=False)


class Checked(_Text):
    """A text that the client checks when it connects: an address, the name of a space."""

    def __init__(self, name: str, check: Callable[[str], str]) -> None:
        self.name = name
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text."""
        try:
            return self._check(value)
        except InvalidArgument as error:
            self.fail(error.violations[0].description, param, ctx)


def with_shell(command: F) -> F:
    """Give a command the options of a connection, `--json`, and a `Shell` as its first argument."""
    return _with_shell(command, DEFAULT_TIMEOUT, _RETRY)


def with_patient_shell(command: F) -> F:
    """Decorate a command as `with_shell`, with a time-out that suits calls of many megabytes."""
    return _with_shell(command, LONG_TIMEOUT, _RETRY_OF_LONG)


def _with_shell(command: F, default_timeout: float, retry: RetryPolicy) -> F:
    @wraps(command)
    def run(
        *,
        address: str,
        space: str | None,
        ca: str | None,
        insecure: bool,
        timeout: float,
        as_json: bool,
        **values: Any,
    ) -> Any:
        access: dict[str, Any] = {"space": space, "ca": ca, "insecure": insecure}
        try:
            with Client(address, timeout=timeout, retry=retry, **access) as client:
                _complete_ids(client, values)
                prints_text = sys.stdout.isatty() or click.get_current_context().obj is TEXT
                as_json = as_json or not prints_text
                return command(Shell(client, address, space, as_json), **values)
        except RecollectError as error:
            sentence = exits.sentence_of(error, address)
            raise exits.Ended(sentence, exits.code_of(error)) from error

    decorated: Any = run
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON lines on a terminal too."),
        click.option(
            "--timeout",
            type=Number(0, MAX_TIMEOUT, min_open=True),
            default=default_timeout,
            metavar="SECONDS",
            show_default=True,
            help="The longest time that a call may take.",
        ),
        click.option(
            "--insecure",
            is_flag=True,
            help="Send the token over the network in plain text, where the network is trusted.",
        ),
        click.option(
            "--ca",
            metavar="FILE",
            envvar=CA,
            show_envvar=True,
            help=f"Speak TLS: the authority of the server's certificate; `{SYSTEM}` for a public"
            " one.",
        ),
        click.option(
            "--space",
            type=Checked("space", checked_space),
            metavar="NAME",
            envvar=SPACE,
            show_envvar=True,
            help="The space: whose data is meant.",
        ),
        click.option(
            "--address",
            type=Checked("address", checked_target),
            callback=refuse_beside_profile,
            envvar=ADDRESS,
            default=DEFAULT_TARGET,
            metavar="ADDRESS",
            show_default=True,
            show_envvar=True,
            help="The server: host:port or unix:PATH.",
        ),
    ):
        decorated = option(decorated)
    result: F = decorated
    return result


def _complete_ids(client: Client, values: dict[str, Any]) -> None:
    """Put whole ids of conversations in the place of the ends that were typed. End the command for
    one that several have; one that none has stays.
    """
    context = click.get_current_context()
    typed: dict[str, str] = {}
    for param in context.command.params:
        if isinstance(param.type, ConversationId) and (value := values.get(param.name or "")):
            typed |= {it: it for it in ([value] if isinstance(value, str) else value)}
    short = [it for it in typed if _SHORT_ID.fullmatch(it)]
    if not short:
        return
    ids = [it.id for it in client.conversations.list(page_size=500, archived=ArchiveFilter.ALL)]
    for end in short:
        those = [it for it in ids if it.endswith(end.upper())]
        if len(those) > 1:
            few = ", ".join(those[:3])
            raise exits.Ended(f"{len(those)} conversations end in {end}: {few} …", exits.USAGE)
        typed[end] = those[0] if those else end
    for param in context.command.params:
        if isinstance(param.type, ConversationId) and (value := values.get(param.name or "")):
            whole = typed[value] if isinstance(value, str) else tuple(typed[it] for it in value)
            values[param.name or ""] = whole


class ConversationId(_Text):
    """The id of a conversation, or its end. A shell completes it from the newest ones of the
    server.
    """

    name = "conversation"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return ids of the newest conversations, with their names."""
        address = ctx.params.get("address")  # None: a wrong one; that of the environment then
        access: dict[str, Any] = {name: ctx.params.get(name) for name in ("space", "ca")}
        insecure = bool(ctx.params.get("insecure"))
        try:
            with Client(address, timeout=2, retry=None, insecure=insecure, **access) as client:
                page = client.conversations.list_page(page_size=_SUGGESTIONS)
        except RecollectError:
            return []
        return [
            CompletionItem(it.id, help=" ".join(f"{it.channel} {it.name}".split()))
            for it in page
            if it.id.startswith(incomplete)
        ]


class When(_Moment):
    """A date, a time, or how long ago. Without a zone it is meant as in `--time-zone`, else as the
    reader's clock has it.
    """

    name = "when"

    def __init__(self, *, ends: bool = False) -> None:
        self._ends = ends

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Return the time."""
        if isinstance(value, datetime):
            return value
        try:
            if age := re.fullmatch(r"(\d{1,5})([mhdw])", value, re.ASCII):
                time = datetime.now(UTC) - int(age[1]) * _AGES[age[2]]
            else:
                named = ctx.params.get("time_zone") if ctx else None
                zone = zone_of(named) if isinstance(named, str) else None  # or click's "not given"
                time = moment(value, zone, ends=self._ends)
                # In the zone of that moment, not of now: between them may lie a change of the
                # clock.
                time = time if time.tzinfo else time.astimezone()
            in_range = time >= _EPOCH
        except OverflowError:
            in_range = False
        except ValueError as error:
            self.fail(f"{error}, nor an age such as 7d", param, ctx)
        if not in_range:
            self.fail(f"{value!r} is not a time from 1970 to 9999", param, ctx)
        return time


def with_span(command: F) -> F:
    """Give a command `--since` and `--until`."""
    until = click.option(
        "--until",
        type=When(ends=True),
        metavar="WHEN",
        help="Up to a date (its whole day), a time, or 7d ago.",
    )
    since = click.option(
        "--since", type=When(), metavar="WHEN", help="From a date, a time, or 7d ago on."
    )
    return since(until(command))


with_as_of = click.option(
    "--as-of",
    type=When(ends=True),
    metavar="WHEN",
    help="What stood then: at the end of a date, at a time, or 7d ago.",
)
"""Gives a command `--as-of`."""


with_channels = click.option(
    "--channel",
    "channels",
    multiple=True,
    metavar="NAME",
    help="Only of this channel; may be repeated.",
)
"""Gives a command `--channel`, which may be repeated."""


with_topics = click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME",
    help="Only about this topic; may be repeated.",
)
"""Gives a command `--topic`, which may be repeated."""


with_participants = click.option(
    "--participant",
    "participants",
    multiple=True,
    metavar="NAME",
    help="Only with this participant: a name, or any address of a person; may be repeated.",
)
"""Gives a command `--participant`, which may be repeated."""


with_limit = click.option(
    "--limit",
    type=WholeNumber(0, MAX_NUMBER),
    default=50,
    show_default=True,
    help="The most to list; 0 means all.",
)
"""Gives a command `--limit` for a list of any length."""


class NamedPath(click.Path):
    """A path that is not empty. `pathlib` takes an empty one for the current folder."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if not os.fspath(value):
            self.fail("a path must not be empty: write . for the current folder", param, ctx)
        return super().convert(value, param, ctx)


class Source(_File):
    """A file to read, opened at once, or `-`. A pipe is read only where a shell made it: any other
    might never end.
    """

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Open the file. Refuse what is no regular file."""
        if value == "-" or value.startswith(PIPES):
            return click.File("rb").convert(value, param, ctx)
        try:
            file = open(value, "rb", opener=open_regular)  # noqa: SIM115 - the command closes it
        except OSError as error:
            self.fail(f"{value!r} cannot be read: {error.strerror}", param, ctx)
        if ctx is not None:
            ctx.call_on_close(file.close)
        return file


def with_text(command: F) -> F:
    """Give a command a TEXT, as arguments or with `--file`. It gets them as `words` and `file`,
    which `text_of` takes.
    """
    option = click.option(
        "--file", type=Source(), metavar="FILE", help="Read TEXT from FILE; `-` is standard input."
    )
    return click.argument("words", nargs=-1, metavar="[TEXT]...")(option(command))


def text_of(words: tuple[str, ...], file: BinaryIO | None) -> str | None:
    """Return the text that is given, None where there is none. Ends the command for a file that
    holds no text.
    """
    if words and file:
        raise click.UsageError("Give the text as arguments or with --file, not both.")
    if file is None:
        return " ".join(words) if words else None
    with file:
        content = file.read(_MAX_TEXT + 1)
    if len(content) > _MAX_TEXT:
        raise exits.Ended(
            f"{file.name} holds more than {_MAX_TEXT} bytes, which no message may have",
            exits.FAILED,
        )
    try:
        return content.decode().rstrip("\n")
    except UnicodeDecodeError as error:
        raise exits.Ended(f"{file.name} holds no UTF-8 text: {error}", exits.FAILED) from error


with_yes = click.option("--yes", is_flag=True, help="Do not ask.")
"""Gives a command that removes something for good `--yes`. It asks with `confirm` where that is not
given."""


def confirm(question: str) -> None:
    """Ask on a terminal, and end the command unless the answer is yes. Where nobody can be asked,
    `--yes` has to be given.
    """
    if not sys.stdin.isatty():
        raise click.UsageError("This cannot be undone: say with --yes that it is meant.")
    if not click.confirm(question, err=True):
        raise exits.Ended("nothing was removed", exits.FAILED)


CONVERSATION = ConversationId()
