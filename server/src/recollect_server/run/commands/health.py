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
from recollect._shared.endpoint import CA, CLIENT_CERT, CLIENT_KEY, Endpoint

from recollect_server.contract import endpoints
from recollect_server.contract.certificates import TlsFiles, WrongCertificate, read_certificate
from recollect_server.contract.health import DEGRADED
from recollect_server.run.commands.options import load_settings, with_settings
from recollect_server.run.settings import Settings

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
@click.option(
    "--client-cert",
    metavar="FILE",
    help=f"the certificate that this command shows, with --client-key [{CLIENT_CERT}, else tls_cert"
    " where the server asks for one]",
)
@click.option("--client-key", metavar="FILE", help=f"the key of --client-cert [{CLIENT_KEY}]")
@with_settings("listen", "data_dir")
def health(
    address: str | None,
    ca: str | None,
    client_cert: str | None,
    client_key: str | None,
    config: Path | None,
    **flags: Any,
) -> None:
    """Ask a running server whether it serves, and what is degraded meanwhile.

    Exits with 0 if it serves, 1 if not. It is the server at `--address`, else at the `--listen`
    that is given, else at RECOLLECT_ADDRESS, else at what serve listens on by the settings: of
    several addresses the Unix socket, else the first.
    """
    settings = load_settings(config, flags)
    if (client_cert is None) != (client_key is None):
        raise click.UsageError("--client-cert and --client-key go together.")
    if address is None and config is None and flags["listen"] is None:
        # A settings file that is named goes before the environment, as flags do.
        address = _address_in_environment()
    address = address or endpoints.to_call(
        min(settings.addresses, key=lambda it: not it.startswith(endpoints.UNIX))
    )
    own = None if client_cert is None or client_key is None else (client_cert, client_key)
    with _channel(address, ca, own, settings) as channel:
        try:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            answer, call = stub.Check.with_call(health_pb2.HealthCheckRequest(), timeout=2)
        except grpc.RpcError as error:
            raise click.ClickException(
                f"no server answers at {address}: {error.code().name}: name a running one with"
                " --address, and its authority with --ca if that is no public one"
            ) from error
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    click.echo(name)
    for key, value in call.trailing_metadata() or ():
        if key == DEGRADED:
            click.echo(f"degraded: {value}")
    if answer.status != health_pb2.HealthCheckResponse.SERVING:
        raise SystemExit(1)


def _channel(
    address: str, ca: str | None, client: tuple[str, str] | None, settings: Settings
) -> grpc.Channel:
    """Return a channel to an address: with TLS where an authority is named, or where the settings
    have a certificate, which must then be the one that is shown, whatever host it is for. Ends the
    command for files that cannot be used.

    `client` is the certificate that the command shows, with its key.
    """
    ca = ca or os.environ.get(CA)
    if client is None and (cert := os.environ.get(CLIENT_CERT)):
        client = (cert, os.environ.get(CLIENT_KEY, ""))
    if client is None and settings.client_ca and settings.tls_cert and settings.tls_key:
        client = (str(settings.tls_cert), str(settings.tls_key))
    if address.startswith(endpoints.UNIX) or (ca is None and settings.tls_cert is None):
        return grpc.insecure_channel(address)
    try:
        if ca is not None:
            tls = Endpoint.of(address, ca=ca, cert=client, insecure=True).tls
            assert tls is not None
            return grpc.secure_channel(address, tls.credentials())
        assert settings.tls_cert is not None
        assert settings.tls_key is not None
        own = read_certificate(TlsFiles(settings.tls_cert, settings.tls_key))
        tls = Endpoint.of(address, ca=own.chain, cert=client, insecure=True).tls
        assert tls is not None
    except (InvalidArgument, WrongCertificate) as error:
        raise click.ClickException(str(error)) from error
    name = (own.names or ("localhost",))[0].replace("*", "any")
    return grpc.secure_channel(
        address,
        tls.credentials(),
        [("grpc.ssl_target_name_override", name)],
    )


def _address_in_environment() -> str | None:
    """Return the address that the environment names. Ends the command for a text that is none."""
    address = os.environ.get(ADDRESS)
    try:
        return checked_target(address) if address else None
    except InvalidArgument as error:
        raise click.ClickException(f"{ADDRESS}: {error.violations[0].description}") from error
