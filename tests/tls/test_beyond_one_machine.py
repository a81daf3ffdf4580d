"""A server reached from another machine: the commands of docs/operations.md, word for word, between
two network namespaces.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
ADDRESSES = {"server": "192.0.2.1", "client": "192.0.2.2"}


def commands(name: str) -> str:
    """Return a block of commands of the page."""
    match = re.search(rf"<!-- tls: {name} -->\n```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert match is not None
    return match[1]


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no network namespaces here: ip {' '.join(arguments)}: {done.stderr.strip()}")


@pytest.fixture
def machines() -> Iterator[dict[str, str]]:
    """Return two network namespaces that reach each other and nothing else, by their roles."""
    if missing := [it for it in ("ip", "openssl") if shutil.which(it) is None]:
        pytest.skip(f"there is no {missing[0]} here")
    names = {role: f"recollect-{role}-{os.getpid()}" for role in ADDRESSES}
    ends = {role: f"rc{role[0]}{os.getpid()}" for role in ADDRESSES}
    with ExitStack() as undone:
        for name in names.values():
            ip("netns", "add", name)
            undone.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
        ip("link", "add", ends["server"], "netns", names["server"], "type", "veth",
           "peer", "name", ends["client"], "netns", names["client"])  # fmt: skip
        for role, address in ADDRESSES.items():
            ip("-n", names[role], "address", "add", f"{address}/24", "dev", ends[role])
            ip("-n", names[role], "link", "set", ends[role], "up")
            ip("-n", names[role], "link", "set", "lo", "up")
        yield names


@pytest.mark.timeout(120)
def test_a_server_is_reached_from_another_machine_with_tls_and_a_token(
    machines: dict[str, str], tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if "RECOLLECT" not in name}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    environment |= {"RECOLLECT_EMBEDDER": "off", "LANG": "C.UTF-8"}

    def run(role: str, script: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            ["ip", "netns", "exec", machines[role], "sh", "-ec", script],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env=environment, start_new_session=True,
        )  # fmt: skip

    def ran(role: str, script: str) -> tuple[int, str, str]:
        with run(role, script) as process:
            output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    # `exec`, so that the server is the process that is stopped
    serving = commands("server").replace(
        "\nrecollect-server serve", "\nexec recollect-server serve"
    )
    with run("server", serving) as server:
        try:
            assert server.stdout is not None
            lines: list[str] = []
            while not (lines and lines[-1].startswith("Recollect listens on")):
                lines.append(server.stdout.readline())
                assert lines[-1], server.stderr and server.stderr.read()
            assert "0.0.0.0:50051 (TLS)" in lines[-1]
            (token,) = re.findall(r"rcl_[\w-]+", "".join(lines))
            script = commands("client").replace("rcl_…", token)
            code, output, errors = ran("client", script)
            assert (code, errors) == (0, "")
            assert '"conversations":0' in output.replace(" ", "")
            without_token = re.sub("export RECOLLECT_TOKEN.*\n", "", script)
            code, _, errors = ran("client", without_token)
            assert (code, "RECOLLECT_TOKEN" in errors) == (5, True)
            without_tls = re.sub(" RECOLLECT_CA=.*\n", "\n", script)
            code, _, errors = ran("client", without_tls)
            assert (code, "in plain text" in errors) == (2, True)
            code, _, errors = ran("client", f"{without_tls.rstrip()} --insecure")
            assert (code, "speaks TLS and this client does not" in errors) == (4, True)
        finally:
            os.killpg(server.pid, signal.SIGTERM)
    assert server.returncode == 0
