"""The certificate that the server shows, read again whenever its files change.

gRPC asks for the certificate at every handshake. The files are read then, and what changed holds
for new connections at once; open ones stay. Files that cannot be used (one of two is written, a
disk refuses, the certificate has expired) leave the one before in force, and are logged by path.
"""

import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import structlog

from recollect_server.kernel.log.files import exposure

log = structlog.get_logger("recollect.tls")

_EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL
_AGAIN = 1.0
"""Seconds until files that were refused are read again though they did not change: a certificate
may not have been valid yet, by this machine's clock.
"""
_APART = 0.25
"""Seconds between a new certificate and the handshakes before and behind it. gRPC needs less than a
millisecond to begin a handshake, and a few to put a certificate in place.
"""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a server's certificate, all in PEM."""

    certificate: Path
    """The certificate, followed by those of the authorities between it and the root."""
    key: Path
    """Its private key, which no password protects."""
    client_ca: Path | None = None
    """Authorities of which every client needs a certificate; None asks for no certificate."""


class WrongCertificate(Exception):
    """The files cannot be used; the text names one, says why and what to do."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that was found good."""

    names: tuple[str, ...]
    """The hosts that it is for, DNS names first."""
    expires: datetime
    chain: bytes
    key: bytes
    client_ca: bytes | None

    def configuration(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration(
            [(self.key, self.chain)], root_certificates=self.client_ca
        )


class Certificates:
    """The certificate in force of one server. Safe to call from any thread."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files. Raises WrongCertificate."""
        self._files = files
        self._guard = threading.Lock()
        self._tried = _contents(files)
        self._current = read_certificate(files)
        self._refused = ""
        self._tries_at = 0.0
        """End of the pause behind a refusal, on the monotonic clock."""
        self._log_current()

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials of one port, which look at the files at every handshake."""
        return grpc.dynamic_ssl_server_credentials(
            self._current.configuration(),
            PortCertificate(self, self._current).fetch,  # type: ignore[arg-type]  # None keeps what the port shows
            require_client_authentication=self._files.client_ca is not None,
        )

    def refreshed(self) -> Certificate:
        """Return the certificate in the files if it is good, else the one before."""
        with self._guard:
            try:
                contents = _contents(self._files)
                now = time.monotonic()
                if contents == self._tried and not (self._refused and now >= self._tries_at):
                    return self._current
                self._tried, self._tries_at = contents, now + _AGAIN
                self._current = read_certificate(self._files)
            except WrongCertificate as error:
                self._log_refused(str(error))
            else:
                self._refused = ""
                self._log_current()
            return self._current

    def _log_current(self) -> None:
        log.info(
            "certificate_in_force",
            path=str(self._files.certificate),
            names=", ".join(self._current.names),
            expires=self._current.expires.isoformat(),
        )
        if warning := exposure(self._files.key):
            log.warning("key_exposed", reason=warning)

    def _log_refused(self, reason: str) -> None:
        """Log a reason once: handshakes may come by the thousand."""
        if reason != self._refused:
            log.warning("certificate_refused", reason=reason, note="the one before stays in force")
        self._refused = reason


class PortCertificate:
    """The certificate of one port. Safe to call from any thread.

    gRPC puts a new certificate in place, and frees the one before, without a look at handshakes
    that begin in other threads: one of them may read what was freed, and the process ends. (See
    `set_server_handshaker_factory` in its `ssl_security_connector.cc`; seen in grpcio 1.85.) It
    says of no handshake when it has what it needs, so those before and behind are kept apart by
    time.
    """

    def __init__(self, certificates: Certificates, shown: Certificate) -> None:
        self._certificates = certificates
        self._guard = threading.Lock()
        self._shown = shown
        self._looked = self._replaced = float("-inf")
        """Moments of the monotonic clock: of the last handshake that went on with what was shown,
        and of the last replacement.
        """

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what a handshake shows; None: the same as the one before. Handshakes beside a new
        certificate wait for half a second.
        """
        with self._guard:
            _wait_until(self._replaced + _APART)
            current = self._certificates.refreshed()
            if current is self._shown:
                self._looked = time.monotonic()
                return None
            _wait_until(self._looked + _APART)
            self._shown, self._replaced = current, time.monotonic()
            return current.configuration()


def _wait_until(moment: float) -> None:
    if (seconds := moment - time.monotonic()) > 0:
        time.sleep(seconds)


def read_certificate(files: TlsFiles) -> Certificate:
    """Read a certificate and see that a client could accept it. Raises WrongCertificate."""
    chain, key, client_ca = contents = _contents(files)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # an empty password: OpenSSL would ask for one on the terminal
        context.load_cert_chain(files.certificate, files.key, password=lambda: b"")
    except (ssl.SSLError, ValueError, OSError) as error:
        raise WrongCertificate(_mismatch(files, chain, key, error)) from error
    if client_ca is not None:
        _check_authorities(files.client_ca, client_ca)
    if _contents(files) != contents:
        raise WrongCertificate(f"{files.certificate}: is being written just now")
    names, expires = _as_a_client_sees_it(files, context, chain)
    return Certificate(names, expires, chain, key, client_ca)


def _contents(files: TlsFiles) -> tuple[bytes, bytes, bytes | None]:
    """Return what the files hold. Raises WrongCertificate."""
    client_ca = None if files.client_ca is None else _read(files.client_ca, "--client-ca")
    return _read(files.certificate, "--tls-cert"), _read(files.key, "--tls-key"), client_ca


def _read(path: Path, flag: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise WrongCertificate(
            f"{path}: there is no such file: name another with {flag}"
        ) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise WrongCertificate(
            f"{path}: {reason}: let this user read it, or name another file with {flag}"
        ) from error


def _mismatch(files: TlsFiles, chain: bytes, key: bytes, error: Exception) -> str:
    """Return why OpenSSL refuses a certificate and its key."""
    if b"-----BEGIN CERTIFICATE-----" not in chain:
        return f"{files.certificate}: holds no certificate in PEM: name one with --tls-cert"
    if b"PRIVATE KEY-----" not in key:
        return f"{files.key}: holds no private key in PEM: name one with --tls-key"
    if b"ENCRYPTED" in key:
        return (
            f"{files.key}: is protected by a password, and nobody is there to type it: remove it"
            f" with `openssl pkey -in {files.key} -out key.pem`"
        )
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return f"{files.key}: is not the key of {files.certificate}: name the one it was made with"
    return f"{files.certificate}: it or {files.key} is damaged or cut off: write both again"


def _check_authorities(path: Path | None, authorities: bytes) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise WrongCertificate(
            f"{path}: holds no certificates in PEM: name those of the authority that signs the"
            " clients' with --client-ca"
        ) from error


def _as_a_client_sees_it(
    files: TlsFiles, server: ssl.SSLContext, chain: bytes
) -> tuple[tuple[str, ...], datetime]:
    """Return the names and the end of a certificate, by a handshake in memory: the standard library
    reads no certificate that is not shown to it. Raises WrongCertificate for one that has expired.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags &= ~ssl.VERIFY_X509_STRICT
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate vouches for itself
    try:
        client.load_verify_locations(cadata=chain.decode("ascii", "ignore"))
        shown = _handshake(client, server)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code == _EXPIRED:
            raise WrongCertificate(
                f"{files.certificate}: has expired: put a new certificate there"
            ) from error
        raise WrongCertificate(
            f"{files.certificate}: {error.verify_message}: set the clock right, or put another"
            " certificate there"
        ) from error
    except (ssl.SSLError, ValueError) as error:
        reason = (getattr(error, "reason", "") or str(error)).lower().replace("_", " ")
        raise WrongCertificate(f"{files.certificate}: no client could use it: {reason}") from error
    alternatives: tuple[tuple[str, str], ...] = shown.get("subjectAltName", ())
    names = sorted(alternatives, key=lambda it: it[0] != "DNS")
    expires = ssl.cert_time_to_seconds(str(shown["notAfter"]))
    return tuple(name for _, name in names), datetime.fromtimestamp(expires, UTC)


def _handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> "dict[str, Any]":
    """Return what a client is shown by a server, both in this process."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (ours, theirs, ours):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return ours.getpeercert() or {}
