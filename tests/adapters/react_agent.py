"""A program with a prebuilt agent of LangGraph, whose memory is Recollect and whose model is a
server that speaks OpenAI's protocol.

    python -m tests.adapters.react_agent RECOLLECT MODEL FILE COMMAND [TEXT]

COMMAND is `ask` with a question, `resume` with the answer to an interrupt, or `go` to go on where
it stopped. The tool `pay` adds a line to FILE. The last line that it prints is the state.
"""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import httpx
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import Command, interrupt
from pydantic import Field
from recollect import Client
from recollect.adapters.langgraph import RecollectSaver

CONFIG: Any = {"configurable": {"thread_id": "alex"}}


class LocalModel(BaseChatModel):
    """A chat model over HTTP."""

    url: str
    schemas: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "local"

    def bind_tools(self, tools: Any, **_: Any) -> Runnable[Any, AIMessage]:
        return LocalModel(url=self.url, schemas=[convert_to_openai_tool(it) for it in tools])

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        body = {"messages": convert_to_openai_messages(messages), "tools": self.schemas}
        answer = httpx.post(f"{self.url}/chat/completions", json=body, timeout=60)
        message = answer.json()["choices"][0]["message"]
        calls = [
            {
                "id": it["id"],
                "name": it["function"]["name"],
                "args": json.loads(it["function"]["arguments"]),
            }
            for it in message.get("tool_calls", ())
        ]
        reply = AIMessage(message.get("content") or "", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])


def main(target: str, url: str, file: str, command: str, text: str = "") -> None:
    """Run the agent."""
    warnings.simplefilter("ignore")
    from langgraph.prebuilt import create_react_agent

    def pay(amount: int) -> str:
        """Pay an amount."""
        with Path(file).open("a") as ledger:
            ledger.write(f"{amount}\n")
        return f"paid {amount}"

    def confirm(question: str) -> str:
        """Ask the user."""
        return f"the user says {interrupt(question)}"

    given: Any = {
        "ask": {"messages": [HumanMessage(text)]},
        "resume": Command(resume=text),
        "go": None,
    }[command]
    agent = create_react_agent(
        LocalModel(url=url), [pay, confirm], checkpointer=RecollectSaver(Client(target))
    )
    agent.invoke(given, CONFIG, durability="sync")
    state = agent.get_state(CONFIG)
    shown = {
        "messages": [[it.type, it.text] for it in state.values["messages"]],
        "next": state.next,
        "interrupts": [it.value for it in state.interrupts],
    }
    sys.stdout.write(f"{json.dumps(shown)}\n")
    sys.stdout.flush()
    sys.stdin.read()  # until it is killed, or its caller is done


if __name__ == "__main__":
    main(*sys.argv[1:])
