"""A certificate is renewed in place: under load, without a restart, without one failed call."""

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from recollect import Client, Message
from recollect_server.contract.certificates import Certificates, PortCertificate, TlsFiles
from structlog.testing import capture_logs

from tests.conftest import LOOPBACK, RunningServer
from tests.tls.conftest import Authority, Files, Write
from tests.waiting import until

CHECK = "/grpc.health.v1.Health/Check"
ROTATIONS = 8
CALLS = 2000


def certificate_of(target: str) -> str:
    """Return the certificate that a new connection is files."""
    host, _, port = target.rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


def pem(files: Files) -> str:
    return files.certificate.read_text()


def check_over_a_new_connection(target: str, roots: bytes) -> None:
    options = [("grpc.use_local_subchannel_pool", 1)]  # else channels share a connection
    with grpc.secure_channel(target, grpc.ssl_channel_credentials(roots), options) as channel:
        call: Any = channel.unary_unary(CHECK)
        call(health_pb2.HealthCheckRequest().SerializeToString(), timeout=10)


class Load:
    """Callers that go on until the end, some over one connection, some over many."""

    def __init__(self) -> None:
        self.calls = count()
        self.done = 0
        self.failures: list[Exception] = []
        self._over = threading.Event()

    @contextmanager
    def of(self, *callers: Callable[[], object]) -> Iterator[None]:
        threads = [threading.Thread(target=self._run, args=(caller,)) for caller in callers]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join(30)

    def _run(self, caller: Callable[[], object]) -> None:
        while not self._over.is_set():
            try:
                caller()
            except Exception as error:  # noqa: BLE001 - counted, whatever it is
                self.failures.append(error)
            self.done = next(self.calls)


@pytest.mark.timeout(180)
def test_a_certificate_is_renewed_under_load_without_a_failed_call(
    server: RunningServer, files: Files, authority: Authority, write: Write, ca: Path
) -> None:
    load = Load()
    with Client(server.target, ca=ca, retry=None) as client:
        conversation = client.conversations.create("web")
        messages = [Message.user("A zebra")]
        with load.of(
            lambda: client.conversations.append_turn(conversation.id, messages),
            lambda: client.conversations.get(conversation.id),
            lambda: check_over_a_new_connection(server.target, authority.pem),
            lambda: check_over_a_new_connection(server.target, authority.pem),
        ):
            for rotation in range(ROTATIONS):
                # as tools do that know no rename: cut off, then the certificate without its key,
                # then both
                renewed = authority.issue("localhost", LOOPBACK)
                new = write(renewed, "renewed")
                files.certificate.write_bytes(new.certificate.read_bytes()[:300])
                assert certificate_of(server.target)
                files.certificate.write_bytes(new.certificate.read_bytes())
                assert certificate_of(server.target) != pem(files)
                files.key.write_bytes(new.key.read_bytes())
                assert certificate_of(server.target) == pem(files)
                reached = CALLS * (rotation + 1) // ROTATIONS
                until(lambda least=reached: load.done >= least or bool(load.failures))  # type: ignore[misc]
    assert load.failures == []
    assert load.done >= CALLS


def test_a_new_certificate_is_put_in_place_beside_no_handshake(
    files: Files, authority: Authority, write: Write
) -> None:
    """The one before is freed, which a handshake in another thread may be about to read."""
    certificates = Certificates(TlsFiles(files.certificate, files.key))
    shown = PortCertificate(certificates, certificates.refreshed())
    times: list[float] = []

    def handshake() -> object:
        fetched = shown.fetch()
        times.append(time.monotonic())
        return fetched

    assert handshake() is None
    new = write(authority.issue(LOOPBACK), "renewed")
    files.certificate.write_bytes(new.certificate.read_bytes())
    files.key.write_bytes(new.key.read_bytes())
    with ThreadPoolExecutor() as pool:
        answers = [*pool.map(lambda _: handshake(), range(8))]
    assert len(answers) - answers.count(None) == 1
    before, replaced, *behind = times
    assert replaced - before >= 0.2
    assert min(behind) - replaced >= 0.2


def test_a_link_that_is_moved_renews_it_as_kubernetes_does(
    server: RunningServer, files: Files, authority: Authority, write: Write, tmp_path: Path
) -> None:
    new = write(authority.issue(LOOPBACK), "renewed")
    for path, target in ((files.certificate, new.certificate), (files.key, new.key)):
        link = tmp_path / "link"
        link.symlink_to(target)
        link.rename(path)
    assert certificate_of(server.target) == pem(new)


def test_files_that_cannot_be_used_keep_the_one_before_and_are_logged_once_by_path(
    files: Files, authority: Authority, write: Write
) -> None:
    files.key.chmod(0o640)
    with capture_logs() as lines:
        certificates = Certificates(TlsFiles(files.certificate, files.key))
        before = certificates.refreshed()
        expired = write(authority.issue("localhost", expired=True), "expired")
        files.certificate.write_bytes(expired.certificate.read_bytes())
        files.key.write_bytes(expired.key.read_bytes())
        assert {certificates.refreshed(), certificates.refreshed()} == {before}
        files.key.unlink()
        assert {certificates.refreshed(), certificates.refreshed()} == {before}
        write(authority.issue("localhost"))
        files.key.chmod(0o604)
        assert certificates.refreshed() is not before
    exposed = [line["reason"] for line in lines if line["event"] == "key_exposed"]
    assert exposed == [
        f"every user of this machine can read the key in {files.key}: chmod o= {files.key}"
    ]
    refused = [line["reason"] for line in lines if line["event"] == "certificate_refused"]
    assert refused == [
        f"{files.certificate}: has expired: put a new certificate there",
        f"{files.key}: there is no such file: name another with --tls-key",
    ]
    taken = [line["path"] for line in lines if line["event"] == "certificate_in_force"]
    assert taken == [str(files.certificate)] * 2


def test_a_certificate_that_is_not_valid_yet_is_shown_once_it_is(
    files: Files, authority: Authority, write: Write
) -> None:
    certificates = Certificates(TlsFiles(files.certificate, files.key))
    before = certificates.refreshed()
    soon = datetime.now(UTC) + timedelta(seconds=2)
    write(authority.issue("localhost", begins=soon))
    assert certificates.refreshed() is before
    until(lambda: certificates.refreshed() is not before)
    assert datetime.now(UTC) >= soon.replace(microsecond=0)
