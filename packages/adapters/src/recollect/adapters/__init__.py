"""Adapters for agents' toolkits: one module for each toolkit, which needs its package.

`openai_agents` is a `Session` of the OpenAI Agents SDK, `langgraph` the message history of a graph
and its stores, `anthropic` writes messages in the form of Anthropic's API; `claude_agent`
is a session store of the Claude Agent SDK; `agent_framework`, `google_adk`, `haystack`,
`llama_index`, `pydantic_ai` and `strands` keep the messages of those; `language_models` has a model
of the caller's fill in a form from the profile, and search for lists. They use the client as any
program does.

`items`, `packing` and `transcripts` store another toolkit's messages inside Recollect's, and these
come back exactly; `turn_recall` recalls for a turn. Nothing in the package imports an adapter: a
program imports the one that it needs.
"""
