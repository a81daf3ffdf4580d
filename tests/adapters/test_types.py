"""The adapters as a type checker of their users sees them. mypy reads all tests; this is pyright,
which `.ci/prepare` installs with npm.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYRIGHT = ROOT / "build" / "pyright" / "node_modules" / ".bin" / "pyright"
PROGRAM = """
from agents import Agent, Runner
from agents.memory import Session
from langchain_core.messages import BaseMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from recollect import AsyncClient, Client
from recollect.adapters.langgraph import (
    RecallStore,
    RecollectMemory,
    RecollectSaver,
    RecollectStore,
)
from recollect.adapters.openai_agents import RecollectSession
from typing_extensions import TypedDict


class Plain(TypedDict):
    messages: list[BaseMessage]


client = Client()
memory = RecollectMemory(client)
builder = StateGraph(MessagesState)
builder.add_node("load", memory.load)
builder.add_node("keep", memory.keep)
builder.add_node("recall", memory.recalling(budget=2000))
builder.add_edge(START, "load")
builder.add_edge("keep", END)
builder.compile(checkpointer=RecollectSaver(client), store=RecallStore(client))
plain = StateGraph(Plain)
plain.add_node("load", memory.load)
plain.add_node("keep", memory.keep)
RecollectStore(client).put(("memories", "alex"), "tea", {"text": "green"}, ttl=5)
session: Session = RecollectSession("alex", AsyncClient(), session_settings={"limit": 3})


async def run(agent: Agent) -> str:
    return (await Runner.run(agent, "Hi", session=session)).final_output_as(str)
"""


def test_pyright_finds_nothing_in_a_program_with_the_adapters(tmp_path: Path) -> None:
    if not PYRIGHT.exists():
        pytest.skip("pyright is not installed: .ci/prepare installs it where npm can")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # In one folder, as wheels are installed: pyright does not follow `__path__`.
    for source in (ROOT / "client/src", *ROOT.glob("packages/*/src")):
        shutil.copytree(source, tmp_path / "installed", dirs_exist_ok=True)
    (tmp_path / "pyrightconfig.json").write_text('{"extraPaths": ["installed"]}')
    command = [str(PYRIGHT), "--pythonpath", sys.executable, str(program)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert "0 errors" in result.stdout
