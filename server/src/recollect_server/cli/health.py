"""`recollect-server health`: asks a running server whether it serves, for containers and scripts."""

from pathlib import Path
from typing import Any

import click
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from recollect_server.cli.options import load_settings, with_settings


@click.command()
@with_settings
def health(config: Path | None, **flags: Any) -> None:
    """Ask the server at `--listen` whether it serves. Exits with 0 if it does, 1 if not."""
    listen = load_settings(config, flags).listen
    with grpc.insecure_channel(listen) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=2)  # type: ignore[attr-defined]  # the types lack it
        except grpc.RpcError as error:
            raise click.ClickException(f"no server answers at {listen}: {error.code().name}") from error
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    click.echo(name)
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise SystemExit(1)
