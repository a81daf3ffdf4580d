"""The client needs grpcio and protobuf alone; its extras bring the packages over it."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = (
    "agents",
    "anthropic",
    "click",
    "langchain_core",
    "langgraph",
    "mcp",
    "openai",
    "pydantic",
    "rich",
)


LEFT_OUT = {"claude-agent", "strands"}
"""Toolkits that the extra `all` leaves out: an SDK that brings a program of 400 MB, and one that
asks for an older `mcp` than the MCP server does.
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_client_loads_nothing_that_its_extras_need() -> None:
    ran = run(f"import recollect, sys; print([name for name in {EXTRAS!r} if name in sys.modules])")
    assert (ran.stdout.strip(), ran.stderr) == ("[]", "")


def test_every_package_over_the_client_and_every_toolkit_has_an_extra_and_all_brings_them() -> None:
    projects = {
        path.parent.name: tomllib.loads(path.read_text())["project"]
        for path in ROOT.glob("packages/*/pyproject.toml")
    }
    names = {it["name"] for it in projects.values()}
    toolkits = sorted(projects["adapters"]["optional-dependencies"])
    required = re.findall(
        r"^(\S+)==\S+; extra == '(.+)'$",
        "\n".join(requires("recollect-client") or ()),
        re.MULTILINE,
    )
    by_extra = [(extra, name) for name, extra in required if extra != "all"]
    extras = {"adapters", "cli", "imports", "mcp", "web", *toolkits}
    assert {extra for extra, _ in by_extra} == extras
    assert names == {name for _, name in by_extra if "[" not in name}
    assert {f"recollect-client-adapters[{name}]" for name in toolkits} < {it for _, it in by_extra}
    in_all = {name for name, extra in required if extra == "all"}
    adapters = f"recollect-client-adapters[{','.join(it for it in toolkits if it not in LEFT_OUT)}]"
    assert in_all == names - {"recollect-client-adapters"} | {adapters}
