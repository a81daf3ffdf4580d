"""The pages of toolkits: their programs run as they stand, and print what the pages say.

Those of the Claude Agent SDK and the Vercel AI SDK run where these are: in
`adapters/test_claude_agent.py` and `typescript/test_toolkits.py`.
"""

import re
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message
from langchain_core.messages import AIMessage

from tests.conftest import RunningServer

PAGES = Path(__file__).parents[2] / "docs" / "toolkits"


@pytest.fixture
def ran(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Return a function that runs a page's program with names, and returns whether it printed what
    the page says.
    """
    monkeypatch.setenv("RECOLLECT_ADDRESS", server.target)

    def run(page: str, **names: Any) -> bool:
        text = (PAGES / f"{page}.md").read_text()
        [(program, printed)] = re.findall(r"```python\n(.*?)```.*?```\n(.*?)```", text, re.DOTALL)
        lines: list[str] = []
        names |= {"__name__": "__main__", "print": lambda *it: lines.append(" ".join(map(str, it)))}
        exec(compile(program, page, "exec"), names)  # noqa: S102 - of our own page
        assert "\n".join(lines) + "\n" == printed
        return True

    return run


class Model:
    """Answers by what it is given."""

    def invoke(self, messages: list[Any]) -> AIMessage:
        _, recalled = messages[0]
        return AIMessage("It is called heron." if "called heron" in recalled else "Noted.")


def test_the_program_for_langgraph_recalls_across_threads(ran: Any) -> None:
    assert ran("langgraph", model=Model())


def test_the_program_for_the_agents_sdk_recalls_across_sessions(
    ran: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [[assistant_message("Noted.")], [assistant_message("It is called heron.")]]
    model = ScriptedModel(replies)
    set_tracing_disabled(True)
    monkeypatch.setattr("agents.Agent", lambda **fields: Agent(model=model, **fields))
    assert ran("openai-agents")
    assert model.last_call is not None
    assert "called heron" in str(model.last_call.input)


def test_the_program_for_mcp_does_what_a_host_does(
    ran: Any, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcp import StdioServerParameters

    command = Path(sysconfig.get_path("scripts")) / "recollect-mcp"
    monkeypatch.setattr(
        "mcp.StdioServerParameters",
        lambda **fields: StdioServerParameters(
            **{**fields, "command": str(command)}, env={"RECOLLECT_ADDRESS": server.target}
        ),
    )
    assert ran("mcp")
