"""How commands reach a running server: where it is, and what is said if nobody is there."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from recollect import Client, DeadlineExceeded, InvalidArgument, RecollectError, Unavailable

from recollect_server.cli.options import NamedPath, load_settings

F = TypeVar("F", bound=Callable[..., Any])

ADDRESS = "RECOLLECT_ADDRESS"
"""The server's address in the environment, as `recollect` and `recollect-mcp` read it too."""
_PROBE_TIMEOUT = 5.0
_TIMEOUT = 120.0


def with_address(command: F) -> F:
    """Give a command `--address`. It gets it as `address`, checked; None where there is none in the environment either."""
    said = f"the server to call: host:port or unix:PATH [{ADDRESS}, else what serve listens on by the settings]"
    return click.option("--address", metavar="ADDRESS", callback=_checked, help=said)(command)


def with_target(command: F) -> F:
    """Give a command `--address` and `--config`. It gets them as `target` and `config`, which `connected` takes."""

    @wraps(command)
    def run(*, address: str | None, target: str | None, **values: Any) -> Any:
        return command(target=address or target, **values)

    path = NamedPath(path_type=Path)
    decorated: Any = click.option("--config", type=path, metavar="FILE", help="a YAML file with settings, for the address")(run)
    # What --address was called before.
    decorated = click.option("--target", callback=_checked, hidden=True)(decorated)
    result: F = with_address(decorated)
    return result


def address_in_environment() -> str | None:
    """Return the address that the environment names, if any. Ends the command for one that is none."""
    address = os.environ.get(ADDRESS)
    if not address:
        return None
    try:
        return _address(address)
    except InvalidArgument as error:
        raise click.ClickException(f"{ADDRESS}: {error.violations[0].description}") from error


def _checked(_: click.Context, parameter: click.Parameter, address: str | None) -> str | None:
    try:
        return None if address is None else _address(address)
    except InvalidArgument as error:
        raise click.BadParameter(error.violations[0].description, param=parameter) from error


def _address(address: str) -> str:
    """Return the address. Raises InvalidArgument, as the client does, for what is none."""
    Client(address).close()
    return address


@contextmanager
def connected(target: str | None, config: Path | None) -> Iterator[Client]:
    """A client of the server. Ends the command with one sentence if there is none, or if it stops answering.

    A settings file that is named goes before the environment, as flags do.
    """
    target = target or (address_in_environment() if config is None else None) or load_settings(config, {}).listen
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
        return f"no Recollect server answers on {target}: start one with `recollect-server serve`, or name it with --address"
    return f"{target} answers, and refuses: {error}"
