"""The calls that the documentation makes with grpcurl, `buf curl` and curl, made with them, and
what it says that they print.
"""

import platform
import re
import shlex
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from recollect import Client, Message
from recollect_server.kernel.domain.time import system_clock

from tests.conftest import LOOPBACK, RunningServer, Start
from tests.credentials.conftest import grant, tokens_of
from tests.test_docs import PAGES
from tests.web.conftest import Bridge

ROOT = Path(__file__).parents[2]
BIN = Path(sysconfig.get_path("scripts"))
TOOLS = ("grpcurl", "buf", "curl")
ID = re.compile(r"conv-[0-7][0-9A-HJKMNP-TV-Z]{25}")
CURSOR = re.compile(r"\b[0-9a-f]{12}-\d+")
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?Z)?")
PLAIN, OVER_TLS = "127.0.0.1:50051", "127.0.0.1:50052"
GATEWAY, WITH_TOKENS = "127.0.0.1:50080", "127.0.0.1:50081"
"""The addresses that the pages name; the last one is the gateway of a server with tokens."""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="the package with grpcurl has it for Linux on x86-64 alone",
)


@dataclass(frozen=True)
class Shown:
    """A command of a page, and what the page says that it prints."""

    page: str
    words: list[str]
    output: str

    def fits(self, text: str) -> bool:
        """Tell whether a text is that, but for ids and times; `…` stands for any lines, and within
        a line for any text.
        """
        left_out = {"…\n": r"(?:.*\n)*?", "…": r".*?"}
        parts = re.split(r"(^…\n|…)", self.output, flags=re.MULTILINE)
        expression = "".join(left_out.get(it) or re.escape(alike(it)) for it in parts)
        return re.fullmatch(expression, alike(text)) is not None


def alike(text: str) -> str:
    """Return a text without what differs from run to run, or from version to version."""
    text = re.sub(r"\{\s+\}", "{}", text)
    for expression, name in ((ID, "ID"), (CURSOR, "CURSOR"), (TIME, "TIME")):
        text = expression.sub(name, text)
    return text


def commands(page: str) -> Iterator[Shown]:
    """Yield the commands of a page's blocks with what stands behind each."""
    text = (ROOT / page).read_text()
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE):
            if part.startswith(TOOLS):
                command, output = _divided(part)
                yield Shown(page, command, output)


def _divided(part: str) -> tuple[list[str], str]:
    """Return the words of a command, which ends with a line where no quotation is open."""
    lines = part.splitlines(keepends=True)
    for count in range(1, len(lines) + 1):
        command = "".join(lines[:count])
        if not command.endswith("\\\n"):
            try:
                return shlex.split(command.replace("\\\n", "")), "".join(lines[count:])
            except ValueError:
                continue
    raise AssertionError(f"no end of a command: {part}")


SHOWN = {
    page: on_page
    for page in (str(it.relative_to(ROOT)) for it in PAGES)
    if (on_page := [*commands(page)])
}


@pytest.fixture
def targets(start_server: Start, server: RunningServer, tmp_path: Path) -> dict[str, str]:
    """Start a server with TLS beside the other one. Return what stands for what the pages name."""
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost", LOOPBACK)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    leaf.private_key_pem.write_to_path(tmp_path / "server.key")
    secure = start_server(
        data_dir=tmp_path / "secure",
        tls_cert=tmp_path / "server.pem",
        tls_key=tmp_path / "server.key",
    )
    return {PLAIN: server.target, OVER_TLS: secure.target, "ca.pem": str(tmp_path / "ca.pem")}


@pytest.fixture
def gateways(
    start_server: Start, server: RunningServer, tmp_path: Path
) -> Iterator[dict[str, str]]:
    """Start the gateways of two servers. Return their addresses, and the token of the second."""
    data = tmp_path / "guarded"
    guarded = start_server(data_dir=data, auth="required")
    token = tokens_of(data, system_clock).create(grant("reader"))[1]
    bridges = [Bridge(server.target), Bridge(guarded.target)]
    addresses = [it.origin.removeprefix("http://") for it in bridges]
    yield dict(zip((GATEWAY, WITH_TOKENS), addresses, strict=True)) | {"rcl_…": token}
    for it in bridges:
        it.stop()


def run(command: list[str], shown: Shown | None = None) -> str:
    """Return what a command prints; of a stream, as much as is shown."""
    own = [] if command[0] == "curl" else [str(BIN / command[0])]
    command = [*own, *command[1:]] if own else [*command, "--silent", "--show-error"]
    if not any(word.endswith("/StreamUpdates") for word in command):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode == 0) == (not done.stderr), done.stderr
        return done.stdout + done.stderr
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            late = threading.Timer(60, process.kill)
            late.start()
            text = ""
            for line in process.stdout:
                text += line
                if shown and shown.fits(text):
                    break
            return text
        finally:
            late.cancel()
            process.kill()


@pytest.mark.parametrize("page", SHOWN)
def test_each_command_of_a_page_prints_what_the_page_says(
    request: pytest.FixtureRequest, targets: dict[str, str], page: str
) -> None:
    names: dict[str, str] = {}
    if any(shown.words[0] == "curl" for shown in SHOWN[page]):
        names |= request.getfixturevalue("gateways")
    for shown in SHOWN[page]:
        command = shown.words
        for name, value in (targets | names).items():
            command = [word.replace(name, value) for word in command]
        text = run(command, shown)
        assert shown.fits(text), f"{shlex.join(command)}\n{text}"
        for expression in (ID, CURSOR):
            in_page, real = expression.findall(shown.output), expression.findall(text)
            names |= dict(zip(in_page, real, strict=False))


def test_pages_show_what_they_print() -> None:
    every = [it for page in SHOWN.values() for it in page]
    assert {"docs/quickstart.md", "docs/operations/monitoring.md", "docs/guides/http.md"} < set(
        SHOWN
    )
    assert {it.words[0] for it in every} == set(TOOLS)
    assert all(it.output.strip("…\n") for it in every)
    folders = (ROOT / "server/src", ROOT / "client/src", ROOT / "packages")
    sources = [path for folder in folders for path in folder.rglob("*.py")]
    assert not [it for it in sources if "grpcurl -" in it.read_text()], "run these here, too"


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_either_version_of_reflection_describes_calls_for_buf(
    server: RunningServer, client: Client, version: str
) -> None:
    conversation = client.conversations.create("web")
    client.conversations.append_turn(conversation.id, [Message.user("Kept")])
    command = ["buf", "curl", "--http2-prior-knowledge", "--protocol", "grpc"]
    command += ["--reflect-protocol", f"grpc-{version}", "-d", '{"channel": "web"}']
    url = f"http://{server.target}/recollect.v1.ConversationService/Load"
    assert '"content": "Kept"' in run([*command, url])
