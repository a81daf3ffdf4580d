"""`recollect-server health`: asks a running server whether it serves, for containers and
scripts.
"""

import os
from pathlib import Path
from typing import Any

import click
import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from recollect import InvalidArgument
from recollect._shared.channel import checked_target
from recollect._shared.endpoint import CA, Endpoint

from recollect_server.cli.options import load_settings, with_settings
from recollect_server.domain import endpoints
from recollect_server.settings import Settings
from recollect_server.transport.certificates import TlsFiles, WrongCertificate, read_certificate
from recollect_server.transport.health import DEGRADED

ADDRESS = "RECOLLECT_ADDRESS"
"""The server's address in the environment, as `recollect` and `recollect-mcp` read it too."""


def _checked(_: click.Context, parameter: click.Parameter, address: str | None) -> str | None:
    try:
        return None if address is None else checked_target(address)
    except InvalidArgument as error:
        raise click.BadParameter(error.violations[0].description, param=parameter) from error


@click.command()
@click.option(
    "--address",
    metavar="ADDRESS",
    callback=_checked,
    help=f"the server to call: host:port or unix:PATH [{ADDRESS}, else what serve listens on by the settings]",
)
@click.option(
    "--ca",
    metavar="FILE",
    help=f"speak TLS: the authority of the server's certificate [{CA}, else tls_cert itself]",
)
@with_settings
def health(address: str | None, ca: str | None, config: Path | None, **flags: Any) -> None:
    """Ask a running server whether it serves, and what is degraded meanwhile.

    Exits with 0 if it serves, 1 if not. It is the server at `--address`, else at the `--listen`
    that is given, else at RECOLLECT_ADDRESS, else at what serve listens on by the settings: of
    several addresses the Unix socket, else the first.
    """
    settings = load_settings(config, flags)
    if address is None and config is None and flags["listen"] is None:
        # A settings file that is named goes before the environment, as flags do.
        address = _address_in_environment()
    address = address or endpoints.to_call(
        min(settings.addresses, key=lambda it: not it.startswith(endpoints.UNIX))
    )
    with _channel(address, ca, settings) as channel:
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


def _channel(address: str, ca: str | None, settings: Settings) -> grpc.Channel:
    """Return a channel to an address: with TLS where an authority is named, or where the settings
    have a certificate, which must then be the one that is shown, whatever host it is for. Ends the
    command for files that cannot be used.
    """
    ca = ca or os.environ.get(CA)
    if address.startswith(endpoints.UNIX) or (ca is None and settings.tls_cert is None):
        return grpc.insecure_channel(address)
    try:
        if ca is not None:
            tls = Endpoint.of(address, ca=ca, insecure=True).tls
            assert tls is not None
            return grpc.secure_channel(address, tls.credentials())
        assert settings.tls_cert is not None
        assert settings.tls_key is not None
        own = read_certificate(TlsFiles(settings.tls_cert, settings.tls_key))
    except (InvalidArgument, WrongCertificate) as error:
        raise click.ClickException(str(error)) from error
    name = (own.names or ("localhost",))[0].replace("*", "any")
    return grpc.secure_channel(
        address,
        grpc.ssl_channel_credentials(own.chain),
        [("grpc.ssl_target_name_override", name)],
    )


def _address_in_environment() -> str | None:
    """Return the address that the environment names. Ends the command for a text that is none."""
    address = os.environ.get(ADDRESS)
    try:
        return checked_target(address) if address else None
    except InvalidArgument as error:
        raise click.ClickException(f"{ADDRESS}: {error.violations[0].description}") from error
