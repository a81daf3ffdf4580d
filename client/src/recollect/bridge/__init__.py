"""The bridge to MCP, `recollect-mcp`: any agent that speaks the Model Context Protocol recalls what
was said.

Needs the extra `recollect-client[mcp]`. It reads and never writes. `main` is where it begins;
`tools` has the three tools, `shapes` what goes in and comes out, `bounds` how much of it; `server`
puts them on the wire. It uses the client as any program does; nothing in the package imports it.
"""
