"""The guide to adapters: its blocks of Google ADK, Pydantic AI, LlamaIndex, Haystack, Agent
Framework and Strands run.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from recollect import Client

pytest.importorskip("google.adk", reason="runs with .ci/toolkits")

from google.genai import types
from llama_index.core.llms import MockLLM
from pydantic_ai.models.test import TestModel

from tests.adapters.test_agent_framework import ScriptedClient
from tests.adapters.test_google_adk import Counting
from tests.adapters.test_strands import ScriptedModel

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "adapters.md"


def test_every_block_of_the_guide_runs_and_its_words_are_found(client: Client) -> None:
    text = PAGE.read_text().partition("\n## Google ADK\n")[2]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 7
    for block in blocks:
        names: dict[str, Any] = {
            "adk_model": Counting(model="counting"),
            "client": client,
            "framework_client": ScriptedClient("Logs filled the disk."),
            "llama_model": MockLLM(),
            "pydantic_model": TestModel(),
            "strands_model": ScriptedModel("Logs filled the disk."),
            "types": types,
        }
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - of our own guide
    channels = {it.channel for it in client.conversations.list()}
    assert channels == {
        "adk",
        "agent-framework",
        "haystack",
        "llama-index",
        "pydantic-ai",
        "strands",
    }
    assert len(client.recall.search("server slow").results) == 6
