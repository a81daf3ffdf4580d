"""How commands reach a running server: where it is, and what is said if nobody is there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from recollect import Client, DeadlineExceeded, InvalidArgument, RecollectError, Unavailable

from recollect_server.cli.options import load_settings

F = TypeVar("F", bound=Callable[..., Any])

_PROBE_TIMEOUT = 5.0
_TIMEOUT = 120.0


def with_target(command: F) -> F:
    """Gives a command `--target` and `--config`, which `connected` takes."""
    path = click.Path(path_type=Path)
    said = "the server to call: host:port or unix:PATH [what serve listens on by the settings: 127.0.0.1:50051]"
    command = click.option("--config", type=path, metavar="FILE", help="a YAML file with settings, for the target")(command)
    return click.option("--target", metavar="ADDRESS", help=said)(command)


@contextmanager
def connected(target: str | None, config: Path | None) -> Iterator[Client]:
    """A client of the server. Ends the command with one sentence if there is none, or if it stops answering."""
    target = target or load_settings(config, {}).listen
    try:
        with Client(target, timeout=_PROBE_TIMEOUT, retry=None) as probe:
            probe.conversations.list_page(page_size=1)
    except RecollectError as error:
        raise click.ClickException(_sentence(target, error)) from error
    with Client(target, timeout=_TIMEOUT) as client:
        try:
            yield client
        except RecollectError as error:
            raise click.ClickException(
                f"{target} failed ({error}): what was done stays done, and the same command again goes on from there"
            ) from error


def _sentence(target: str, error: RecollectError) -> str:
    """What is said of a server that does not answer, or not as it should."""
    if isinstance(error, DeadlineExceeded) or (isinstance(error, Unavailable) and error.reason is None):
        return f"no Recollect server answers on {target}: start one with `recollect-server serve`, or name it with --target"
    if isinstance(error, InvalidArgument):  # the address: nothing else was given
        return str(error)
    return f"{target} answers, and refuses: {error}"
