"""The bridge as a guest: with a token, in a space, over TLS, and beyond this machine."""

import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from recollect import Client, Message
from recollect_server.access.token import Grant, scopes_of
from recollect_server.access.token_log import TokenLedger
from recollect_server.access.tokens import Tokens
from recollect_server.kernel.domain.time import system_clock

from tests.conftest import LOOPBACK, RunningServer, Start
from tests.mcp.conftest import called, environment, over_stdio, refused
from tests.mcp.test_http import ACCEPT, INITIALIZE
from tests.programs import BRIDGE, Forked, ran
from tests.waiting import until

ALL = ["search_conversations", "fetch_context", "recent_conversations", "get_context", "list_facts"]
OWN = "a-token-of-the-bridges-own-2f7c"


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Return the files of an authority, of a certificate of this machine, and of its key."""
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost", "127.0.0.1", LOOPBACK)
    files = tmp_path / "ca.pem", tmp_path / "cert.pem", tmp_path / "key.pem"
    authority.cert_pem.write_to_path(str(files[0]))
    leaf.cert_chain_pems[0].write_to_path(str(files[1]))
    leaf.private_key_pem.write_to_path(str(files[2]))
    return files


@pytest.fixture
def guarded(start_server: Start, certificate: tuple[Path, Path, Path]) -> RunningServer:
    """Return a server that speaks TLS and asks for tokens."""
    return start_server(auth="required", tls_cert=certificate[1], tls_key=certificate[2])


def token_of(server: RunningServer, kind: str, *spaces: str) -> str:
    """Return a new token of a server."""
    tokens = Tokens(TokenLedger(server.data_dir), system_clock)
    grant = Grant(kind, scopes_of(kind, ()), spaces or ("default",))
    return tokens.create(grant)[1]


async def tools_of(mcp: Any) -> list[str]:
    return [tool.name for tool in (await mcp.list_tools()).tools]


async def test_token_space_and_tls_come_from_flags_and_the_environment(
    guarded: RunningServer, certificate: tuple[Path, Path, Path]
) -> None:
    token = token_of(guarded, "brain", "alex", "bo")
    access: dict[str, Any] = {"token": token, "ca": certificate[0]}
    for space in ("alex", "bo"):
        with Client(guarded.target, space=space, **access) as client:
            conversation = client.conversations.create("web")
            client.conversations.append_turn(conversation.id, [Message.user(f"zebra of {space}")])
    flags = ("--ca", str(certificate[0]), "--space", "bo")
    async with over_stdio(guarded.target, *flags, RECOLLECT_TOKEN=token) as mcp:
        hits = await called(mcp, "search_conversations", query="zebra")
    assert "bo" in hits["messages"][0]["snippet"]
    assert len(hits["results"]) == 1


@pytest.mark.parametrize(("kind", "tools"), [("reader", ALL), ("gateway", [])])
async def test_the_scopes_of_the_token_decide_which_tools_are_listed(
    start_server: Start, kind: str, tools: list[str]
) -> None:
    server = start_server(auth="required")
    token = token_of(server, kind)
    with listening(server.target, RECOLLECT_TOKEN=token) as url:
        async with McpClient(url) as mcp:
            assert await tools_of(mcp) == tools
            if not tools:
                assert "recall" in await refused(mcp, "search_conversations", query="zebra")


async def test_a_token_that_is_wrong_is_told_by_the_tool(start_server: Start) -> None:
    server = start_server(auth="required")
    with listening(server.target, RECOLLECT_TOKEN="wrong") as url:  # noqa: S106
        async with McpClient(url) as mcp:
            assert await tools_of(mcp) == ALL
            assert "token" in await refused(mcp, "search_conversations", query="zebra")


async def test_tools_that_are_not_offered_are_not_there(server: RunningServer) -> None:
    with listening(server.target, "--tools", "recent_conversations,search_conversations") as url:
        async with McpClient(url) as mcp:
            assert await tools_of(mcp) == ["recent_conversations", "search_conversations"]
            assert (await mcp.list_resource_templates()).resource_templates == []
            text = await refused(mcp, "fetch_context", conversationId="conv-1")
    assert text.startswith("no such tool: fetch_context. There are recent_conversations, search")


@contextmanager
def listening(address: str, *flags: str, http: str = "127.0.0.1:0", **more: str) -> Iterator[str]:
    """Run the bridge on a port and give its URL."""
    with Forked(
        BRIDGE,
        ["--http", http, *flags],
        stderr=subprocess.PIPE,
        env=environment(address) | more,
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("recollect-mcp listens on http"), line + process.stderr.read()
            assert OWN not in line
            yield line.split()[3]
        finally:
            process.terminate()


async def test_it_leaves_loopback_with_tls_a_token_and_an_exact_host(
    server: RunningServer, certificate: tuple[Path, Path, Path]
) -> None:
    ca, cert, key = certificate
    trusting = ssl.create_default_context(cafile=ca)
    flags = ["--tls-cert", str(cert), "--tls-key", str(key), "--host", "localhost"]
    with listening(server.target, *flags, http="0.0.0.0:0", RECOLLECT_MCP_TOKEN=OWN) as url:
        assert url.startswith("https://0.0.0.0:")
        port = url.rpartition(":")[2].partition("/")[0]
        url = f"https://localhost:{port}/mcp"
        right = {"Authorization": f"Bearer {OWN}"}
        async with httpx2.AsyncClient(verify=trusting, headers=right) as http:
            async with McpClient(streamable_http_client(url, http_client=http)) as mcp:
                assert await tools_of(mcp) == ALL
            for headers, status in (
                ({}, 200),
                ({"Origin": url.removesuffix("/mcp")}, 200),
                ({"Host": f"recollect.example:{port}"}, 421),
                ({"Host": "localhost"}, 421),
                ({"Origin": f"http://localhost:{port}"}, 403),
                ({"Origin": "https://evil.example"}, 403),
                ({"Authorization": f"Bearer {OWN}x"}, 401),
                ({"Authorization": OWN}, 401),
                ({"Authorization": ""}, 401),
            ):
                answer = await http.post(url, json=INITIALIZE, headers=ACCEPT | headers)
                assert answer.status_code == status, headers
        async with httpx2.AsyncClient(verify=trusting) as http:
            answer = await http.post(url, json=INITIALIZE, headers=ACCEPT)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


async def test_a_renewed_certificate_is_shown_to_new_connections(
    server: RunningServer, certificate: tuple[Path, Path, Path]
) -> None:
    _, cert, key = certificate
    flags = ["--tls-cert", str(cert), "--tls-key", str(key), "--host", "localhost"]
    with listening(server.target, *flags, http="127.0.0.1:0") as url:
        address = ("127.0.0.1", int(url.rpartition(":")[2].partition("/")[0]))
        before = ssl.get_server_certificate(address)
        assert before == cert.read_text()
        key.write_text("half-writ")
        renewed = trustme.CA().issue_cert("localhost")
        renewed.cert_chain_pems[0].write_to_path(str(cert))
        assert ssl.get_server_certificate(address) == before
        renewed.private_key_pem.write_to_path(str(key))
        until(lambda: ssl.get_server_certificate(address) == cert.read_text())


BEYOND = ("--http", "0.0.0.0:0")


@pytest.mark.parametrize(
    ("flags", "token", "sentence"),
    [
        (BEYOND, OWN, "--http 0.0.0.0:0: can be reached from other machines, so it needs TLS"),
        ((*BEYOND, "TLS"), "", "needs a token that its callers present: set RECOLLECT_MCP_TOKEN"),
        ((*BEYOND, "TLS"), OWN, "name the host by which callers know it with --host"),
        ((*BEYOND, "TLS", "--host", "*:*"), OWN, "--host *:*: is no name"),
        (("--http", "127.0.0.1:0"), "short", "RECOLLECT_MCP_TOKEN: must have 20 characters"),
        (("--http", "127.0.0.1:0", "--tls-cert", "x"), "", "each needs the other"),
        (("--http", "127.0.0.1:0", "--tls-cert", "x", "--tls-key", "y"), "", "No such file"),
        (("--tools", "delete_everything"), "", "--tools: delete_everything is none of search_conv"),
        (("--tools", ","), "", "--tools: name some of search_conversations"),
        (("--space", "Alex"), "", "space: must be 1 to 64 lower case letters"),
        (("--ca", "/nowhere"), "", "ca: cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(
    flags: tuple[str, ...], token: str, sentence: str, certificate: tuple[Path, Path, Path]
) -> None:
    _, cert, key = map(str, certificate)
    arguments: list[str] = []
    for flag in flags:
        arguments += ["--tls-cert", cert, "--tls-key", key] if flag == "TLS" else [flag]
    more = {"RECOLLECT_MCP_TOKEN": token, "COLUMNS": "500"}
    code, output, errors = ran(
        BRIDGE, arguments, env=os.environ | environment("127.0.0.1:1") | more
    )
    assert (code, output) == (2, "")
    assert sentence in errors
    assert "Traceback" not in errors
    assert not token or token not in errors
