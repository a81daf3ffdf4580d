"""A program with a prebuilt agent of LangGraph, whose memory is Recollect and whose model is a
server that speaks OpenAI's protocol.

    python -m tests.adapters.react_agent RECOLLECT MODEL FILE MEMORY COMMAND [TEXT]

MEMORY is `memory` for one that keeps what was said as a conversation, and remembers payments in a
store; else `checkpoints`. COMMAND is `ask` with a question, `resume` with the answer to an
interrupt, or `go` to go on where it stopped. The tool `pay` adds a line to FILE. The last line that
it prints is the state.
"""

import json
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, StateSnapshot, interrupt
from pydantic import Field
from recollect import Client
from recollect.adapters.langgraph import RecollectMemory, RecollectSaver, RecollectStore

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


def main(target: str, url: str, file: str, memory: str, command: str, text: str = "") -> None:
    """Run the agent."""
    warnings.simplefilter("ignore")
    from langgraph.prebuilt import create_react_agent

    client = Client(target)
    store = RecollectStore(client)

    def pay(amount: int) -> str:
        """Pay an amount."""
        with Path(file).open("a") as ledger:
            ledger.write(f"{amount}\n")
        store.put(("payments",), str(amount), {"amount": amount})
        return f"paid {amount}"

    def confirm(question: str) -> str:
        """Ask the user."""
        return f"the user says {interrupt(question)}"

    given: Any = {
        "ask": {"messages": [HumanMessage(text)]},
        "resume": Command(resume=text),
        "go": None,
    }[command]
    model, saver = LocalModel(url=url), RecollectSaver(client)
    tools: list[Any] = [pay, confirm]
    agent: Any
    if memory == "memory":
        nodes = RecollectMemory(client)
        builder = StateGraph(MessagesState)
        builder.add_node("load", nodes.load)
        builder.add_node("agent", create_react_agent(model, tools))
        builder.add_node("keep", nodes.keep)
        names = [START, "load", "agent", "keep", END]
        for one, next_one in pairwise(names):
            builder.add_edge(one, next_one)
        agent = builder.compile(checkpointer=saver, store=store)
    else:
        agent = create_react_agent(model, tools, checkpointer=saver)
    agent.invoke(given, CONFIG, durability="sync")
    state = agent.get_state(CONFIG, subgraphs=True)
    inner = [it.state for it in state.tasks if isinstance(it.state, StateSnapshot)]
    messages = (inner or [state])[0].values["messages"]
    shown = {
        "messages": [[it.type, it.text] for it in messages],
        "next": state.next,
        "interrupts": [it.value for it in state.interrupts],
    }
    sys.stdout.write(f"{json.dumps(shown)}\n")
    sys.stdout.flush()
    sys.stdin.read()  # until it is killed, or its caller is done


if __name__ == "__main__":
    main(*sys.argv[1:])
