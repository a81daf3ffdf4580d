"""The MCP server `recollect-mcp`, which lets any agent with the Model Context Protocol recall.

Needs the extra `recollect-client[mcp]`. It reads, and writes where `--write` allows it. `main` is
the entry point, `tools` and `facts` have the tools, `shapes` their input and output, `bounds` the
limits of an answer, `definitions` the list of them, for models of OpenAI and Anthropic too, and
`server` the protocol, over `stdio` or `http`. It uses the client as any program does;
nothing else imports it.
"""
