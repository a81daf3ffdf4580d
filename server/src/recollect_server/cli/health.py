"""`recollect-server health`: asks a running server whether it serves, for containers and
scripts.
"""

import os
from pathlib import Path
from typing import Any

import click
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from recollect import Client, InvalidArgument

from recollect_server.cli.options import load_settings, with_settings
from recollect_server.transport.health import DEGRADED

ADDRESS = "RECOLLECT_ADDRESS"
"""The server's address in the environment, as `recollect` and `recollect-mcp` read it too."""


def _checked(_: click.Context, parameter: click.Parameter, address: str | None) -> str | None:
    try:
        return None if address is None else _address(address)
    except InvalidArgument as error:
        raise click.BadParameter(error.violations[0].description, param=parameter) from error


def _address(address: str) -> str:
    """Return the address. Raises InvalidArgument, as the client does, for a text that is none."""
    Client(address).close()
    return address


@click.command()
@click.option(
    "--address",
    metavar="ADDRESS",
    callback=_checked,
    help=f"the server to call: host:port or unix:PATH [{ADDRESS}, else what serve listens on by the settings]",
)
@with_settings
def health(address: str | None, config: Path | None, **flags: Any) -> None:
    """Ask a running server whether it serves, and what is degraded meanwhile.

    Exits with 0 if it serves, 1 if not. It is the server at `--address`, else at the `--listen`
    that is given, else at RECOLLECT_ADDRESS, else at what serve listens on by the settings.
    """
    settings = load_settings(config, flags)
    if address is None and config is None and flags["listen"] is None:
        # A settings file that is named goes before the environment, as flags do.
        address = _address_in_environment()
    address = address or settings.listen
    with grpc.insecure_channel(address) as channel:
        try:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            answer, call = stub.Check.with_call(health_pb2.HealthCheckRequest(), timeout=2)
        except grpc.RpcError as error:
            raise click.ClickException(
                f"no server answers at {address}: {error.code().name}"
            ) from error
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    click.echo(name)
    for key, value in call.trailing_metadata() or ():
        if key == DEGRADED:
            click.echo(f"degraded: {value}")
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise SystemExit(1)


def _address_in_environment() -> str | None:
    """Return the address that the environment names. Ends the command for a text that is none."""
    address = os.environ.get(ADDRESS)
    try:
        return _address(address) if address else None
    except InvalidArgument as error:
        raise click.ClickException(f"{ADDRESS}: {error.violations[0].description}") from error
