"""Sentences that a client raises where the two ends do not agree on TLS, with what to do."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recollect import (
    AsyncClient,
    Client,
    ConversationList,
    InvalidArgument,
    Message,
    RetryPolicy,
    TlsMismatch,
)
from recollect.errors import Unavailable

from tests.cases import each
from tests.conftest import LOOPBACK, RunningServer, Start
from tests.tls.conftest import Authority, Files, Write

UNKNOWN = "conv-01HQ0000000000000000000000"


async def complaint(target: str, **options: Any) -> str:
    """Return what both clients say of a connection that is not made."""
    with Client(target, retry=None, **options) as client, pytest.raises(TlsMismatch) as raised:
        client.conversations.get(UNKNOWN)
    assert (raised.value.code, raised.value.reason) == ("UNAVAILABLE", None)
    async with AsyncClient(target, retry=None, **options) as another:
        with pytest.raises(TlsMismatch, match=f"^{re.escape(str(raised.value))}$"):
            await another.conversations.get(UNKNOWN)
    return str(raised.value)


def test_a_client_with_the_authority_calls_as_ever(
    server: RunningServer, ca: Path, authority: Authority
) -> None:
    for given in (ca, str(ca), authority.pem):
        with Client(server.target, ca=given) as client:
            conversation = client.conversations.create("web")
            client.conversations.append_turn(conversation.id, [Message.user("A zebra")])
            assert [hit.turn_number for hit in client.recall.search("zebra").hits]


async def test_the_async_client_watches_over_tls(server: RunningServer, ca: Path) -> None:
    async with AsyncClient(server.target, ca=ca) as client, client.conversations.watch() as watch:
        assert isinstance((await anext(watch)).kind, ConversationList)
        conversation = await client.conversations.create("web")
        async for update in watch:
            if update.conversation_id:
                break
        assert update.conversation_id == conversation.id


def test_the_environment_names_the_authority_and_an_argument_wins(
    server: RunningServer, ca: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_CA", str(ca))
    with Client(server.target) as client:
        client.conversations.create("web")
    monkeypatch.setenv("RECOLLECT_CA", str(tmp_path / "none.pem"))
    with pytest.raises(InvalidArgument, match=r"RECOLLECT_CA.*none\.pem.*no such file"):
        Client(server.target)
    with Client(server.target, ca=ca) as client:
        client.conversations.create("web")


async def test_a_plain_client_on_a_port_of_tls(server: RunningServer) -> None:
    assert await complaint(server.target) == (
        f"{server.target} speaks TLS and this client does not: name the authority of its"
        ' certificate with ca (RECOLLECT_CA, --ca; "system" for a public one)'
    )


async def test_a_client_of_tls_on_a_plain_port(start_server: Start, ca: Path) -> None:
    target = start_server().target
    assert await complaint(target, ca=ca) == (
        f"{target} does not speak TLS: leave ca (RECOLLECT_CA, --ca) out, or call the port that"
        " does"
    )


async def test_another_authority(server: RunningServer, stranger: Authority) -> None:
    assert re.fullmatch(
        rf"the certificate of {server.target} cannot be trusted \(.*issuer.*\): no authority that"
        r" signed it is in ca: name the file that has its authority with ca \(RECOLLECT_CA, --ca\)",
        await complaint(server.target, ca=stranger.pem),
    )


async def test_an_authority_that_this_machine_trusts_anyway(server: RunningServer) -> None:
    assert "is in the authorities that this machine trusts: name the file" in await complaint(
        server.target, ca="system"
    )


async def test_another_name(
    start_server: Start, authority: Authority, write: Write, ca: Path
) -> None:
    server = start_server(**write(authority.issue("recollect.example", "192.0.2.7")).settings)
    assert await complaint(server.target, ca=ca) == (
        f"the certificate of {server.target} is for recollect.example, 192.0.2.7 and not for"
        f" {LOOPBACK}: call the server by a name that its certificate has, or give it one for this"
        " name"
    )


async def test_an_expired_certificate(
    start_server: Start, authority: Authority, write: Write, ca: Path, expired: Callable[[], None]
) -> None:
    server = start_server(**write(authority.issue(LOOPBACK)).settings)
    expired()
    assert await complaint(server.target, ca=ca) == (
        f"the certificate of {server.target} has expired: put a new one where the server reads it"
    )


@pytest.fixture
def expired(
    authority: Authority, write: Write, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Has servers show a certificate that has expired: they would refuse to take one up."""
    from recollect_server.contract import certificates

    certificate = authority.issue(LOOPBACK, expired=True)

    def expire() -> None:
        read = certificates.read_certificate

        def pretend(files: Any) -> Any:
            good = read(files)
            chain = b"".join(it.bytes() for it in certificate.cert_chain_pems)
            return certificates.Certificate(
                good.names, good.expires, chain, certificate.private_key_pem.bytes(), None
            )

        monkeypatch.setattr(certificates, "read_certificate", pretend)
        write(authority.issue(LOOPBACK))  # a change, so that it is read

    return expire


async def test_a_server_that_asks_for_a_certificate_of_the_client(
    start_server: Start, files: Files, ca: Path, authority: Authority, stranger: Authority,
    write: Write,
) -> None:  # fmt: skip
    server = start_server(**files.settings, client_ca=ca)
    own = write(authority.issue("brain@recollect"), "own")
    foreign = write(stranger.issue("brain@recollect"), "foreign")
    assert await complaint(server.target, ca=ca) == (
        f"{server.target} asks for a certificate of the client: give one with"
        " cert=(certificate, key) (RECOLLECT_CLIENT_CERT and RECOLLECT_CLIENT_KEY)"
    )
    assert await complaint(server.target, ca=ca, cert=(foreign.certificate, foreign.key)) == (
        f"{server.target} refuses the certificate of this client: its authority must be in the"
        " server's --client-ca, and it must not have expired"
    )
    with Client(server.target, ca=ca, cert=(own.certificate, own.key)) as client:
        client.conversations.create("web")
    async with AsyncClient(server.target, ca=ca, cert=(own.certificate, own.key)) as another:
        await another.conversations.create("web")


def test_a_server_that_is_not_there_is_told_as_ever(ca: Path) -> None:
    with Client("127.0.0.1:1", ca=ca, retry=None) as client, pytest.raises(Unavailable) as raised:
        client.conversations.get(UNKNOWN)
    assert type(raised.value) is Unavailable


def test_a_mismatch_is_tried_again_as_often_as_any_call(server: RunningServer) -> None:
    waits: list[float] = []
    policy = RetryPolicy(max_attempts=3)
    with (
        Client(server.target, retry=policy, sleep=waits.append) as client,
        pytest.raises(TlsMismatch),
    ):
        client.conversations.get(UNKNOWN)
    assert len(waits) == 2


async def test_a_watch_is_told_too(server: RunningServer) -> None:
    with Client(server.target, retry=None) as client, pytest.raises(TlsMismatch):
        next(client.conversations.watch())
    async with AsyncClient(server.target, retry=None) as another:
        with pytest.raises(TlsMismatch):
            await anext(another.conversations.watch())


@each(
    ("options", "field", "sentence"),
    [
        ({"ca": "/nowhere/ca.pem"}, "ca", "cannot be read"),
        ({"ca": b"junk"}, "ca", "holds no certificate in PEM"),
        ({"ca": b"-----BEGIN CERTIFICATE-----\njunk"}, "ca", "damaged or cut off"),
        ({"cert": (b"", b"")}, "ca", "is needed beside cert"),
        ({"space": "Alex"}, "space", "1 to 64 lower case letters"),
        ({"space": ""}, "space", "1 to 64 lower case letters"),
        ({"space": 7}, "space", "1 to 64 lower case letters"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(
    options: dict[str, Any], field: str, sentence: str
) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(InvalidArgument, match=sentence) as raised:
            kind(**options)
        assert raised.value.violations[0].field == field


def test_a_key_is_never_shown(authority: Authority, write: Write, ca: Path) -> None:
    own = write(authority.issue("brain@recollect"))
    secret = own.key.read_bytes()
    with pytest.raises(InvalidArgument) as raised:
        Client(ca=ca, cert=(secret, secret))  # the two mixed up
    assert "PRIVATE KEY" not in str(raised.value)
    with Client(ca=ca, cert=(own.certificate, own.key)) as client:
        assert "PRIVATE KEY" not in f"{client!r}{vars(client)}"
