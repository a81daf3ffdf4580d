"""Adapters for agents' toolkits: one module for each toolkit, which needs its package.

`openai_agents` is a `Session` of the OpenAI Agents SDK, `langgraph` the message history of a graph
and a store to search, `anthropic` writes messages in the form of Anthropic's API. They use the
client as any program does.

`items` and `packing` store another toolkit's messages inside Recollect's so that they come back
exactly. Nothing in the package imports an adapter: a program imports the one that it needs.
"""
