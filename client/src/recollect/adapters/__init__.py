"""Adapters for agents' toolkits: each module fits Recollect to one of them, and needs its package.

`openai_agents` is a `Session` of the OpenAI Agents SDK, `langgraph` the message history of a graph
and a store to search, `anthropic` writes messages as Anthropic's API takes them. They use the
client as any program does.

`items` and `packing` are how another toolkit's messages are kept inside Recollect's and come back
exactly. Nothing in the package imports an adapter: a program imports the one that it needs.
"""
