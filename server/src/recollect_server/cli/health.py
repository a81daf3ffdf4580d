"""`recollect-server health`: asks a running server whether it serves, for containers and scripts."""

from pathlib import Path
from typing import Any

import click
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from recollect_server.cli.options import load_settings, with_settings
from recollect_server.cli.remote import address_in_environment, with_address
from recollect_server.transport.health import DEGRADED


@click.command()
@with_address
@with_settings
def health(address: str | None, config: Path | None, **flags: Any) -> None:
    """Ask a running server whether it serves, and what is degraded meanwhile. Exits with 0 if it serves, 1 if not.

    It is the server at `--address`, else at the `--listen` that is given, else at RECOLLECT_ADDRESS, else at what serve listens on
    by the settings.
    """
    settings = load_settings(config, flags)
    if address is None and config is None and flags["listen"] is None:
        address = address_in_environment()
    address = address or settings.listen
    with grpc.insecure_channel(address) as channel:
        try:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            answer, call = stub.Check.with_call(health_pb2.HealthCheckRequest(), timeout=2)
        except grpc.RpcError as error:
            raise click.ClickException(f"no server answers at {address}: {error.code().name}") from error
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    click.echo(name)
    for key, value in call.trailing_metadata() or ():
        if key == DEGRADED:
            click.echo(f"degraded: {value}")
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise SystemExit(1)
