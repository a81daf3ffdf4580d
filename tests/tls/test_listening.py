"""The addresses of a server: several at once, TLS where others reach them, and what is refused."""

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from recollect import Client
from recollect_server.contract import endpoints
from recollect_server.contract.listening import CannotListen
from recollect_server.run.settings import Settings, WrongSettings

from tests.cases import each
from tests.conftest import LOOPBACK, RunningServer, Start
from tests.programs import SERVER, Forked, cold
from tests.server_cli.conftest import run
from tests.tls.conftest import Authority, Files, Write


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def calls(target: str, **options: Any) -> str:
    """Return the id of a conversation begun at an address."""
    with Client(target, retry=None, **options) as client:
        return client.conversations.create("web").id


def test_one_server_listens_on_several_addresses(
    start_server: Start, files: Files, ca: Path, tmp_path: Path
) -> None:
    listen = f"unix:{tmp_path / 's'},{LOOPBACK}:0 , localhost:0"
    server = start_server(listen=listen, **files.settings)
    unix, *ports = server.app.addresses
    assert unix == f"unix:{tmp_path / 's'}"
    assert [port.rpartition(":")[0] for port in ports] == [LOOPBACK, "localhost"]
    made = {calls(unix), calls(unix, ca=ca), *(calls(port, ca=ca) for port in ports)}
    with Client(unix) as client:
        assert {it.id for it in client.conversations.list()} == made
    server.stop()
    assert not (tmp_path / "s").exists()


def test_ipv6(start_server: Start, files: Files, ca: Path) -> None:
    if not has_ipv6():
        pytest.skip("this machine has no IPv6")
    server = start_server(listen="[::1]:0", **files.settings)
    assert re.fullmatch(r"\[::1\]:\d+", server.target)
    assert calls(server.target, ca=ca)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])  # noqa: S104
def test_a_wildcard_listens_for_other_machines(
    start_server: Start, files: Files, ca: Path, has_a_token: None, host: str
) -> None:
    if host == "[::]" and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    server = start_server(listen=f"{host}:0", **files.settings)
    assert server.target.startswith(host)
    assert calls(f"127.0.0.1:{server.target.rpartition(':')[2]}", ca=ca)
    health = ["--tls-cert", files.certificate, "--tls-key", files.key, "--listen", server.target]
    assert run("health", *health).output == "SERVING\n"


def test_a_later_address_that_is_refused_leaves_no_socket(
    start_server: Start, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match="another program listens there"):
            start_server(listen=f"unix:{tmp_path / 's'}, {LOOPBACK}:{port}")
    assert not (tmp_path / "s").exists()


BEYOND = ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "recollect.example:1", "[::ffff:127.0.0.1]:1"]


@pytest.mark.parametrize("address", BEYOND)
def test_an_address_beyond_this_machine_needs_tls(address: str) -> None:
    with pytest.raises(WrongSettings) as refused:
        Settings.load(None, {"listen": f"unix:/s, {address}"})
    assert str(refused.value) == (
        f"listen: {address} can be reached from other machines, so it needs TLS: name a certificate"
        " and its key with --tls-cert and --tls-key, or give --insecure-plaintext true where a"
        " proxy ends TLS before it; and it needs a token: `recollect-server token create --kind"
        f" brain` (it is 'unix:/s, {address}')"
    )


def test_an_address_beyond_this_machine_needs_a_token(start_server: Start, files: Files) -> None:
    for protection in (files.settings, {"insecure_plaintext": True}):
        with pytest.raises(CannotListen) as refused:
            start_server(listen="0.0.0.0:0", **protection)
        assert re.fullmatch(
            r"cannot listen on 0\.0\.0\.0:0: other machines reach it, and there is no token yet:"
            r" make one with `recollect-server token create --kind brain[^`]*`",
            str(refused.value),
        )


@each(
    "address",
    ["127.0.0.1:1", "127.8.9.10:1", "localhost:1", "[::1]:1", "unix:/x", "127.0.0.1:1, [::1]:2"],
)
def test_an_address_of_this_machine_needs_nothing(address: str) -> None:
    assert Settings.load(None, {"listen": address}).listen == address


def test_a_list_in_a_file_is_as_good_as_commas(tmp_path: Path) -> None:
    file = tmp_path / "recollect.yaml"
    file.write_text("listen:\n  - unix:/a\n  - 127.0.0.1:1\n")
    assert Settings.load(file, {}).addresses == ("unix:/a", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("address", "local"), [("0.0.0.0:5", "127.0.0.1:5"), ("[::]:5", "[::1]:5"), ("a:5", "a:5")]
)
def test_a_wildcard_is_called_on_this_machine(address: str, local: str) -> None:
    assert endpoints.to_call(address) == local


@each(
    ("values", "sentence"),
    [
        ({"tls_cert": "c"}, "tls_key: is needed beside tls_cert"),
        ({"tls_key": "k"}, "tls_key: needs tls_cert beside it"),
        ({"client_ca": "c"}, "client_ca: needs tls_cert beside it"),
        ({"listen": "127.0.0.1:1, 127.0.0.1:1"}, "listen: names 127.0.0.1:1 twice"),
        ({"listen": "127.0.0.1:1, 127.0.0.1"}, "listen: 127.0.0.1 must be unix:PATH or HOST:PORT"),
        ({"listen": "127.0.0.1:1, a:70000"}, "listen: a:70000 has port 70000"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(
    values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(WrongSettings, match=f"^{re.escape(sentence)}"):
        Settings.load(None, values)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


def _encrypted(path: Path) -> None:
    path.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nx\n-----END ENCRYPTED PRIVATE KEY-----")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda it: it.certificate.unlink(), "{cert}: there is no such file: name another with"),
        (lambda it: it.key.unlink(), "{key}: there is no such file: name another with --tls-key"),
        (lambda it: it.certificate.write_text("?"), "{cert}: holds no certificate in PEM"),
        (lambda it: it.key.write_text("?"), "{key}: holds no private key in PEM"),
        (lambda it: _cut(it.certificate), "{cert}: it or {key} is damaged or cut off"),
        (lambda it: _encrypted(it.key), "{key}: is protected by a password"),
    ],
)
def test_a_certificate_that_cannot_be_used(
    start_server: Start, files: Files, spoil: Callable[[Files], object], sentence: str
) -> None:
    spoil(files)
    with pytest.raises(CannotListen) as refused:
        start_server(**files.settings)
    expected = sentence.format(cert=files.certificate, key=files.key)
    assert str(refused.value).startswith(f"cannot use TLS: {expected}")


def test_a_certificate_that_fits_no_key_has_expired_or_has_no_authorities(
    start_server: Start, authority: Authority, write: Write, files: Files, tmp_path: Path
) -> None:
    other = write(authority.issue("other"), "other")
    expired = write(authority.issue("localhost", expired=True), "expired")
    junk = tmp_path / "junk"
    junk.write_text("é")
    for settings, sentence in (
        ({"tls_cert": files.certificate, "tls_key": other.key}, f"{other.key}: is not the key of"),
        (expired.settings, f"{expired.certificate}: has expired: put a new certificate there"),
        ({**files.settings, "client_ca": junk}, f"{junk}: holds no certificates in PEM"),
    ):
        with pytest.raises(CannotListen, match=re.escape(f"cannot use TLS: {sentence}")):
            start_server(**settings)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return how to start the server as a program and read the first line that it prints."""
    with ExitStack() as running:

        def start(*flags: object) -> str:
            arguments = ["serve", "--data-dir", str(tmp_path / "data"), *map(str, flags)]
            process = running.enter_context(Forked(SERVER, arguments))
            running.callback(process.terminate)
            assert process.stdout is not None
            return str(process.stdout.readline())

        yield start


def test_a_start_names_each_port_and_its_protection(
    program: Callable[..., str], files: Files, tmp_path: Path
) -> None:
    listen = f"{LOOPBACK}:0, unix:{tmp_path / 's'}"
    line = program("--listen", listen, "--tls-cert", files.certificate, "--tls-key", files.key)
    named = re.escape(f"unix:{tmp_path / 's'}")
    assert re.match(
        rf"Recollect listens on {LOOPBACK}:[1-9]\d+ \(TLS\), {named} and keeps 0 conv", line
    )


def test_a_handshake_that_fails_writes_nothing_among_the_log_lines(
    tmp_path: Path, files: Files
) -> None:
    arguments = ["serve", "--data-dir", str(tmp_path / "data"), "--listen", f"{LOOPBACK}:0"]
    arguments += ["--tls-cert", str(files.certificate), "--tls-key", str(files.key)]
    errors = tmp_path / "errors"
    # A cold start: gRPC reads its verbosity when it is imported.
    with errors.open("wb") as file, cold(SERVER, arguments, stderr=file.fileno()) as process:
        assert process.stdout is not None
        match = re.search(rf"{LOOPBACK}:(\d+)", process.stdout.readline())
        assert match is not None
        for _ in range(3):
            with closing(socket.create_connection((LOOPBACK, int(match[1])))) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                plain.recv(100)
        process.terminate()
    lines = errors.read_text().splitlines()
    assert [line for line in lines if "level=" not in line] == []
    assert any("event=certificate_in_force" in line for line in lines)


def test_health_knows_the_server_by_its_own_certificate(
    server: RunningServer, files: Files, ca: Path, stranger: Authority, tmp_path: Path
) -> None:
    own = ["--tls-cert", files.certificate, "--tls-key", files.key]
    assert run("health", *own, "--listen", server.target).output == "SERVING\n"
    assert run("health", "--ca", ca, "--address", server.target).output == "SERVING\n"
    environment: dict[str, str | None] = {"RECOLLECT_CA": str(ca)}
    assert run("health", "--address", server.target, env=environment).output == "SERVING\n"
    foreign = tmp_path / "foreign.pem"
    foreign.write_bytes(stranger.pem)
    for wrong in (["--ca", foreign], []):
        result = run("health", *wrong, "--address", server.target)
        assert result.exit_code == 1
        assert result.stderr == (
            f"Error: no server answers at {server.target}: UNAVAILABLE: name a running one with"
            " --address, and its authority with --ca if that is no public one\n"
        )


def test_health_shows_a_certificate_to_a_server_that_asks_for_one(
    start_server: Start, files: Files, ca: Path, authority: Authority, write: Write
) -> None:
    target = start_server(**files.settings, client_ca=ca).target
    client = write(authority.issue("health@recollect"), "health")
    shown = ["--client-cert", client.certificate, "--client-key", client.key]
    environment: dict[str, str | None] = {
        "RECOLLECT_CLIENT_CERT": str(client.certificate),
        "RECOLLECT_CLIENT_KEY": str(client.key),
    }
    own = ["--tls-cert", files.certificate, "--tls-key", files.key]
    assert run("health", "--ca", ca, "--address", target).exit_code == 1
    for flags, variables in (
        (["--ca", ca, *shown], {}),
        (["--ca", ca], environment),
        ([*own, *shown], {}),
        ([*own, "--client-ca", ca], {}),
    ):
        assert run("health", *flags, "--address", target, env=variables).output == "SERVING\n"
    result = run("health", "--client-cert", client.certificate, "--address", target)
    assert "--client-cert and --client-key go together" in result.stderr


def test_health_asks_the_unix_socket_of_several_addresses(
    start_server: Start, files: Files, tmp_path: Path
) -> None:
    server = start_server(listen=f"{LOOPBACK}:0, unix:{tmp_path / 's'}", **files.settings)
    own = ["--tls-cert", files.certificate, "--tls-key", files.key]
    listen = f"{LOOPBACK}:1, {server.app.addresses[1]}"
    assert run("health", *own, "--listen", listen).output == "SERVING\n"
