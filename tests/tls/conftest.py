"""Certificates of an authority of the tests, servers that show them, and clients that trust it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from recollect_server.contract.server import ServerOptions
from recollect_server.run import app

from tests.conftest import LOOPBACK, RunningServer, Start


@dataclass(frozen=True)
class Files:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a server that shows it."""
        return {"tls_cert": self.certificate, "tls_key": self.key}


class Authority:
    """An authority, which signs certificates."""

    def __init__(self) -> None:
        self._ca = trustme.CA()

    @property
    def pem(self) -> bytes:
        return self._ca.cert_pem.bytes()

    def issue(
        self, *names: str, expired: bool = False, begins: datetime | None = None
    ) -> trustme.LeafCert:
        """Sign a certificate for hosts."""
        yesterday = datetime.now(UTC) - timedelta(days=1)
        ends = yesterday if expired else None
        return self._ca.issue_cert(*names, not_before=begins, not_after=ends)


Write = Callable[..., Files]


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """Keep the logs of servers in this process out of what commands print."""


@pytest.fixture(scope="session")
def authority() -> Authority:
    """Return the authority that clients trust."""
    return Authority()


@pytest.fixture(scope="session")
def stranger() -> Authority:
    """Return an authority that nobody trusts."""
    return Authority()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return how to write a certificate and its key, by default over those before."""

    def write(certificate: trustme.LeafCert, name: str = "server") -> Files:
        files = Files(tmp_path / f"{name}.pem", tmp_path / f"{name}.key")
        files.certificate.write_bytes(b"".join(it.bytes() for it in certificate.cert_chain_pems))
        files.key.write_bytes(certificate.private_key_pem.bytes())
        return files

    return write


@pytest.fixture
def ca(authority: Authority, tmp_path: Path) -> Path:
    """Return the file of the authority that clients trust."""
    path = tmp_path / "ca.pem"
    path.write_bytes(authority.pem)
    return path


@pytest.fixture
def files(authority: Authority, write: Write) -> Files:
    """Return the certificate of this machine."""
    return write(authority.issue("localhost", "127.0.0.1", LOOPBACK, "::1"))


@pytest.fixture
def server(start_server: Start, files: Files) -> RunningServer:
    """Return a server whose port speaks TLS."""
    return start_server(**files.settings)


@pytest.fixture
def has_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers start as if there were a token."""
    monkeypatch.setattr(
        app, "ServerOptions", lambda **options: ServerOptions(**options | {"refusal": lambda: ""})
    )
